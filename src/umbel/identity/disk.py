"""Private files of an identity: one writer at a time, and many written as fast as one can."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from umbel.errors import SecurityError
from umbel.files import CannotWrite, ensure_private_folder, write_private

_FLUSHERS = 8  # fsync waits for the disk, not for the processor
_FEW = 4


class IdentityUnreadable(SecurityError):
    """A file of an identity is there but cannot be read."""

    code = "U421"

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"cannot read {path}: {error.strerror or error}",
            hint="check that the file belongs to the user that runs Umbel",
        )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time into the private folder; the lock of a dead one is gone with it."""
    ensure_private_folder(folder)
    path = folder / ".lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotWrite(path, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def read(path: Path) -> bytes | None:
    """Give the content, or None when the file is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IdentityUnreadable(path, error) from error


def read_private(path: Path) -> bytes | None:
    """Give the content, or None; a mode that a restored backup left too wide is closed again."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                os.fchmod(file.fileno(), 0o600)
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IdentityUnreadable(path, error) from error


def write_changed(path: Path, content: bytes, *, mode: int = 0o600) -> bool:
    """Write the file only if that changes it; say whether it did."""
    if read(path) == content:
        return False
    write_private(path, content, mode=mode)
    return True


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write many private files, in order; each is whole or untouched, all are on disk at the end.

    Flushing one file at a time makes the disk wait for us and us for the disk. Here all are
    written beside their places, flushed side by side, and then moved.
    """
    if len(files) <= _FEW:
        for path, content in files.items():
            write_private(path, content)
        return
    beside = {path: path.with_name(f".{path.name}.{secrets.token_hex(4)}") for path in files}
    try:
        for path, content in files.items():
            _write_new(beside[path], content)
        places = list(beside.values())
        with ThreadPoolExecutor(_FLUSHERS) as pool:
            list(pool.map(_flush, (places[i::_FLUSHERS] for i in range(_FLUSHERS))))
        for path, place in beside.items():
            place.replace(path)
    except OSError as error:
        for place in beside.values():
            with contextlib.suppress(OSError):
                place.unlink()
        raise CannotWrite(Path(error.filename or next(iter(files))), error) from error


def _write_new(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb", buffering=0) as file:
        file.write(content)


def _flush(paths: Sequence[Path]) -> None:
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
