"""Looks at UMBEL_HOME: owner, rights, space, and who else can open what is private."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from umbel.diagnosis.facts import Home, HomeKind, Loose
from umbel.diagnosis.gather.machine import user_name

FILE, FOLDER = 0o600, 0o700
_PROBE = b"\0" * 4096
# By name, below a federation's folder; the home's own are named where they are listed.
_SECRETS = ("ca/*.key", "users/*", "hub/*", "sites/*/*.key", "sites/*/*.secret")
_FOLDERS = ("", "ca", "users", "hub", "hub/superlink", "sites/*")


def look(home: Path) -> Home:
    """Describe the home, whatever is there."""
    kind = _kind(home)
    nearest = next((p for p in (home, *home.parents) if p.exists()), Path("/"))
    space = _space(nearest)
    with contextlib.suppress(OSError):
        seen = nearest.stat()
        return Home(
            path=home,
            kind=kind,
            owner=seen.st_uid,
            owner_name=user_name(seen.st_uid),
            unwritable="" if kind is HomeKind.OTHER else why_unwritable(nearest),
            free_bytes=space[0] if space else None,
            free_files=space[1] if space else None,
            filesystem=_filesystem(nearest),
            open_parent=_open_parent(nearest),
            loose=tuple(_loose(home)) if kind is HomeKind.FOLDER else (),
        )
    return Home(home, kind, unwritable="it cannot be looked at")


def _kind(home: Path) -> HomeKind:
    try:
        mode = home.stat().st_mode
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.EACCES)
        return HomeKind.MISSING if missing else HomeKind.OTHER
    return HomeKind.FOLDER if stat.S_ISDIR(mode) else HomeKind.OTHER


def why_unwritable(folder: Path) -> str:
    """Write into the folder, into a file that has no name and so leaves no trace."""
    try:
        try:
            fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, FILE)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                raise
            fd, name = tempfile.mkstemp(prefix=".doctor-", dir=folder)
            Path(name).unlink()
        try:
            os.write(fd, _PROBE)
        finally:
            os.close(fd)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _space(folder: Path) -> tuple[int, int | None] | None:
    try:
        seen = os.statvfs(folder)
    except OSError:
        return None
    if not seen.f_blocks:  # no disk behind it, such as /proc
        return None
    # Some file systems make inodes as they need them, and count none.
    return seen.f_bavail * seen.f_frsize, seen.f_favail if seen.f_files else None


def _filesystem(folder: Path) -> str:
    try:
        mounts = Path("/proc/self/mounts").read_text()
        return filesystem_of(str(folder.resolve()), mounts)
    except OSError:
        return ""


def filesystem_of(folder: str, mounts: str) -> str:
    """Find the type of the file system that holds the folder; the last mount there counts."""
    best, kind = "", ""
    for line in mounts.splitlines():
        _, place, found, *_ = line.split()
        place = place.replace("\\040", " ")
        inside = folder == place or folder.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, found
    return kind


def _open_parent(folder: Path) -> Path | None:
    """Find a folder above in which others may rename entries; /tmp forbids it by its sticky bit."""
    for parent in folder.resolve().parents:
        with contextlib.suppress(OSError):
            mode = parent.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return parent
    return None


def _loose(home: Path) -> Iterator[Loose]:
    for path, wanted in _private(home):
        try:
            mode = path.lstat().st_mode
        except OSError:
            continue
        regular = stat.S_ISREG(mode) if wanted == FILE else stat.S_ISDIR(mode)
        if regular and mode & 0o077:
            yield Loose(path, stat.S_IMODE(mode), wanted)


def _private(home: Path) -> Iterator[tuple[Path, int]]:
    """List what must be closed to others."""
    yield home, FOLDER
    yield home / "run", FOLDER
    for path in (home / "umbel.db", home / "daemon.log"):
        yield path, FILE
    for root in _children(home / "federations"):
        for pattern in _FOLDERS:
            for path in root.glob(pattern) if pattern else (root,):
                yield path, FOLDER
        for pattern in _SECRETS:
            for path in root.glob(pattern):
                yield path, FILE


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
