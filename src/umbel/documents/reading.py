"""From a file to text: whole, not too large, and UTF-8."""

from __future__ import annotations

import codecs
import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from umbel.documents.problems import DocumentInvalid, Kind, Problem, Text, invalid, shown

MAX_BYTES = 1 << 20

_WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"
)


class FileMissing(DocumentInvalid):
    """There is no such file."""

    code = "U101"


class FileIsFolder(DocumentInvalid):
    """The path is a folder."""

    code = "U102"


class FileUnreadable(DocumentInvalid):
    """The file is there and cannot be read."""

    code = "U103"


class FileTooLarge(DocumentInvalid):
    """The document is larger than any federation needs."""

    code = "U104"


class NotUtf8(DocumentInvalid):
    """The bytes are not UTF-8."""

    code = "U105"


class WideEncoding(DocumentInvalid):
    """The file is UTF-16 or UTF-32."""

    code = "U106"


class ControlCharacter(DocumentInvalid):
    """The document holds a character that nobody can see."""

    code = "U107"


def read(path: Path) -> bytes:
    """Read a file, at most one byte more than is allowed."""
    with _told(path), path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what the system says about a path into what a person can use."""
    try:
        yield
    except FileNotFoundError as error:
        raise _refusal(path, FileMissing, "there is no such file", _neighbour(path)) from error
    except IsADirectoryError as error:
        inside = path / "federation.yaml"
        hint = f"did you mean {shown(str(inside))}?" if inside.is_file() else "give a file"
        raise _refusal(path, FileIsFolder, "this is a folder, not a file", hint) from error
    except PermissionError as error:
        hint = f"check who may read it: ls -l {shown(str(path))}"
        raise _refusal(path, FileUnreadable, "no permission to read it", hint) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _refusal(
            path, FileUnreadable, f"cannot be read: {reason}", "check the path"
        ) from error


def _refusal(path: Path, kind: Kind, fact: str, hint: str) -> DocumentInvalid:
    return invalid([Text(str(path)).problem(kind, fact, hint)])


def _neighbour(path: Path) -> str:
    """Name a file that may have been meant."""
    try:
        beside = [p.name for p in path.parent.iterdir() if p.suffix in {".yaml", ".yml", ".json"}]
    except OSError:
        beside = []
    close = difflib.get_close_matches(path.name, sorted(beside), 1, 0.7)
    if close:
        return f"did you mean {shown(str(path.with_name(close[0])))}?"
    return "check the path, or write a new document with: umbel init"


def decoded(data: bytes | str, source: str) -> Text:
    """Take the document's text; refuse what is too large, not UTF-8 or not readable."""
    if len(data) > MAX_BYTES:
        raise invalid([_too_large(source)])
    content = data if isinstance(data, str) else _utf8(data, source)
    text = Text(source, content.removeprefix("\ufeff"))
    if found := _FORBIDDEN.search(text.content):
        name = f"U+{ord(found[0]):04X}"
        fact, hint = f"a character that cannot be seen: {name}", "delete it, and type the line anew"
        if found[0] == "\0":
            fact, hint = "this is a binary file, not text", "give a YAML file"
        at = text.mark(found.start())
        raise invalid([text.problem(ControlCharacter, fact, hint, at=at)])
    return text


def _too_large(source: str) -> Problem:
    return Text(source).problem(
        FileTooLarge,
        "the document is larger than 1 MiB",
        "is it the right file? Many alike sites are one group with a number: sites: 500",
    )


def _utf8(data: bytes, source: str) -> str:
    wide = next((name for mark, name in _WIDE_MARKS.items() if data.startswith(mark)), None)
    if wide is None and data.count(b"\0", 0, 64) * 3 > len(data[:64]):
        wide = "UTF-16 or UTF-32"
    if wide:
        hint = "save it as UTF-8 (in PowerShell: Out-File -Encoding utf8)"
        raise invalid([Text(source).problem(WideEncoding, f"the file is {wide}, not UTF-8", hint)])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        text = Text(source, data.decode(errors="replace"))
        fact = f"byte 0x{data[error.start]:02X} is not UTF-8"
        hint = "save the file with the encoding UTF-8"
        at = text.mark(len(data[: error.start].decode()))
        raise invalid([text.problem(NotUtf8, fact, hint, at=at)]) from error
