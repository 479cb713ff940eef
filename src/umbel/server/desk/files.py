"""What a run left at the hub, for who may see it: plain files below the run's folder, no others."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

from starlette.responses import Response, StreamingResponse

from umbel.errors import RequestError
from umbel.observe.runs import open_plain

PIECE = 256 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileUnknown(RequestError):
    """The run left no such file."""

    code = "U356"

    def __init__(self, run_id: str, path: str) -> None:
        super().__init__(
            f"run {run_id} left no file {path!r}", hint=f"umbel pull {run_id} fetches all of them"
        )


def listed(runs: Path, run_id: str) -> list[dict[str, Any]]:
    """List a run's files with their sizes. Links lead elsewhere, so they are no files of the run."""
    found: list[dict[str, Any]] = []
    root = runs / run_id
    for folder, _, names, handle in os.fwalk(root, follow_symlinks=False):
        for name in names:
            try:
                seen = os.stat(name, dir_fd=handle, follow_symlinks=False)
            except FileNotFoundError:  # a run goes on writing while we look
                continue
            if stat.S_ISREG(seen.st_mode) and not name.startswith("."):
                path = Path(folder, name).relative_to(root)
                found.append({"path": path.as_posix(), "size": seen.st_size})
    return sorted(found, key=lambda item: str(item["path"]))


def opened(runs: Path, run_id: str, path: str) -> BinaryIO:
    """Open one of a run's files, going down step by step and following no link."""
    *folders, name = [run_id, *path.split("/")]
    if any(part in ("", ".", "..") or "\0" in part for part in (*folders, name)):
        raise FileUnknown(run_id, path)
    handle = -1
    try:
        handle = os.open(runs, _FOLDER & ~os.O_NOFOLLOW)
        for folder in folders:
            above, handle = handle, os.open(folder, _FOLDER, dir_fd=handle)
            os.close(above)
        return open_plain(name, within=handle)
    except OSError as error:
        raise FileUnknown(run_id, path) from error
    finally:
        if handle >= 0:
            os.close(handle)


def download(file: BinaryIO) -> Response:
    """Send a file as large as it is now, piece by piece."""
    size = os.fstat(file.fileno()).st_size
    headers = {"content-length": str(size)}
    return StreamingResponse(
        _pieces(file, size), headers=headers, media_type="application/octet-stream"
    )


async def _pieces(file: BinaryIO, size: int) -> AsyncIterator[bytes]:
    with file:
        while size > 0 and (piece := await asyncio.to_thread(file.read, min(PIECE, size))):
            size -= len(piece)
            yield piece
