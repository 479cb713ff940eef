"""The Flower app to begin with: read from the package, written into a person's folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from umbel.errors import RequestError
from umbel.files import CannotWrite, write_private

NAME = "quickstart"


class FolderOccupied(RequestError):
    """Files of the app's names are there already, with other content."""

    code = "U330"

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        super().__init__(
            f"{folder} has its own {', '.join(names)}; nothing was written",
            hint="name a new or empty folder, or move these files away",
        )


class NotAFolder(RequestError):
    """The app cannot be written where a file is."""

    code = "U331"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not a folder", hint="name a new or empty folder")


def read_template_files() -> dict[str, bytes]:
    """Give the app's files: path inside the app's folder, and content."""
    return dict(sorted(_walk(files("umbel.apps") / "templates" / NAME, "")))


def fingerprint() -> str:
    """Give a name that changes when, and only when, the app does: for folders that outlive us."""
    parts = (part for name, text in read_template_files().items() for part in (name.encode(), text))
    digests = (hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:12]


def write(folder: Path) -> tuple[Path, ...]:
    """Write the app into the folder, all of it or nothing; give the files that are new.

    Files that are there already with the same content stay, so writing twice is writing once.
    """
    wanted = read_template_files()
    _refuse_if_occupied(folder, wanted)
    new: list[Path] = []
    made: list[Path] = []
    try:
        for name, content in wanted.items():
            path = folder / name
            if not os.path.lexists(path):
                made += _make_folders(path.parent)
                write_private(path, content, mode=0o644)
                new.append(path)
    except CannotWrite:
        _take_back(new, made)
        raise
    return tuple(new)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_file():
            yield prefix + entry.name, entry.read_bytes()
        elif entry.name != "__pycache__":  # pip compiles what it installs
            yield from _walk(entry, f"{prefix}{entry.name}/")


def _refuse_if_occupied(folder: Path, wanted: Mapping[str, bytes]) -> None:
    standing_in_the_way = next((p for p in (folder, *folder.parents) if os.path.lexists(p)), folder)
    if os.path.lexists(standing_in_the_way) and not standing_in_the_way.is_dir():
        raise NotAFolder(standing_in_the_way)
    taken = [name for name, content in wanted.items() if _is_taken(folder, name, content)]
    if taken:
        raise FolderOccupied(folder, taken)


def _is_taken(folder: Path, name: str, content: bytes) -> bool:
    """Whether something else is where the file, or a folder above it, must be."""
    path = folder / name
    inner = [folder / part for part in Path(name).parents if part != Path()]
    if any(os.path.lexists(part) and not part.is_dir() for part in inner):
        return True
    if not os.path.lexists(path):
        return False
    try:
        return path.read_bytes() != content
    except OSError:  # a folder, a dangling link, or not ours to read
        return True


def _make_folders(folder: Path) -> list[Path]:
    missing = [part for part in (folder, *folder.parents) if not os.path.lexists(part)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _take_back([], missing[::-1])
        raise CannotWrite(folder, error) from error
    return missing[::-1]


def _take_back(new: Sequence[Path], made: Sequence[Path]) -> None:
    for path in new:
        path.unlink(missing_ok=True)
    for part in reversed(made):
        with contextlib.suppress(OSError):
            part.rmdir()
