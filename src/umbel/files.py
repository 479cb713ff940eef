"""Files that only their owner may read, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from umbel.errors import WorldError


class CannotWrite(WorldError):
    """A file or folder could not be written."""

    code = "U201"

    def __init__(self, path: Path, error: OSError) -> None:
        hints = {
            errno.ENOSPC: "the disk is full: free some space and repeat the command",
            errno.EROFS: "the file system is read-only: choose another folder (UMBEL_HOME is where Umbel keeps its own)",
            errno.EACCES: "choose a folder of yours (UMBEL_HOME is where Umbel keeps its own)",
            errno.EPERM: "choose a folder of yours (UMBEL_HOME is where Umbel keeps its own)",
        }
        super().__init__(
            f"cannot write {path}: {error.strerror or error}",
            hint=hints.get(
                error.errno or 0,
                "choose a writable folder (UMBEL_HOME is where Umbel keeps its own)",
            ),
        )


class FolderShared(WorldError):
    """A folder that others may write to cannot be made private."""

    code = "U202"
    exit_status = 2

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is shared with others: it is not made private",
            hint="choose a folder of its own, for example a new one below it",
        )


def ensure_private_folder(path: Path) -> Path:
    """Make the folder, and those above it that are missing; close it to everybody else."""
    try:
        if path.is_dir() and path.stat().st_mode & 0o002:
            raise FolderShared(path)
        for missing in reversed([p for p in path.parents if not p.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise CannotWrite(path, error) from error
    return path


def write_private(path: Path, content: bytes | str, *, mode: int = 0o600) -> None:
    """Replace the file's content in one step; a crash leaves the old or the new, never half."""
    data = content.encode() if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except OSError as error:
        raise CannotWrite(path, error) from error
