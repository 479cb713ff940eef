"""What is wrong in a document, where, and what to do about it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from umbel.errors import DocumentError

LIMIT = 50  # problems told at once; the rest is counted
WIDTH = 100  # characters of a source line that are shown

Path: TypeAlias = tuple[str | int, ...]
Kind: TypeAlias = "type[DocumentInvalid]"

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Mark(NamedTuple):
    """A place in the text; the first line and column are 1."""

    line: int
    column: int


def shown(text: str) -> str:
    """Make text safe for a terminal: what does not print is written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def quoted(text: str, limit: int = 60) -> str:
    """Give text in quotes, safe for a terminal and not too long."""
    return f'"{shown(text if len(text) <= limit else text[: limit - 1] + "…")}"'


def dotted(path: Path) -> str:
    """Write a path as a person would: spec.groups[1].name."""
    parts: list[str] = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif _WORD.fullmatch(part) and len(part) <= WIDTH:
            parts.append(f".{part}" if parts else part)
        else:
            parts.append(f"[{quoted(part)}]")
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a document. All text in it is safe for a terminal.

    `line` and `column` begin at 1; 0 means that the mistake is about the file as a whole.
    `source` is the line, or the part of it around the mistake; `caret` is where in it.
    """

    kind: Kind
    file: str
    line: int
    column: int
    field: str
    fact: str
    hint: str = ""
    source: str = ""
    caret: int = 0

    @property
    def code(self) -> str:
        """The kind's code."""
        return self.kind.code

    @property
    def where(self) -> str:
        """The place, as compilers write it."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def render(self) -> str:
        """Show the problem as a few lines of plain text."""
        field = f"{self.field}: " if self.field else ""
        lines = [f"{self.where}: {self.code} {field}{self.fact}"]
        if self.source.strip():
            number = str(self.line)
            pad = " " * _columns(self.source[: self.caret])
            lines += [f"  {number} | {self.source}", f"  {' ' * len(number)} | {pad}^"]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, str | int]:
        """Give the problem as plain values."""
        return {
            "code": self.code,
            "title": self.kind.__name__,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "field": self.field,
            "fact": self.fact,
            "hint": self.hint,
            "source": self.source,
        }


class DocumentInvalid(DocumentError):
    """The document has mistakes: all of them are in `problems`.

    When they are all of one kind, the error raised is of that kind, a subclass of this one.
    """

    code = "U100"

    def __init__(self, problems: Sequence[Problem], left_out: int = 0) -> None:
        self.problems = tuple(problems[:LIMIT])
        self.left_out = left_out + len(problems) - len(self.problems)
        first = self.problems[0]
        field = f"{first.field}: " if first.field else ""
        others = len(problems) + left_out - 1
        more = f" (and {others} more)" if others else ""
        super().__init__(f"{first.where}: {field}{first.fact}{more}", hint=first.hint)

    def render(self) -> str:
        """Show every problem as plain text."""
        blocks = [problem.render() for problem in self.problems]
        if self.left_out:
            blocks.append(f"... and {self.left_out} more")
        return "\n".join(blocks)

    def as_problem(self) -> dict[str, Any]:
        """Give the error as the members of an RFC 9457 problem, with each mistake."""
        return super().as_problem() | {"problems": [p.as_json() for p in self.problems]}


def invalid(problems: Iterable[Problem], *, left_out: int = 0) -> DocumentInvalid:
    """Make the error for these problems: of their kind if they share one."""
    listed = sorted(problems, key=lambda p: (p.line, p.column))
    kinds = {problem.kind for problem in listed}
    kind = kinds.pop() if len(kinds) == 1 else DocumentInvalid
    return kind(listed, left_out)


@dataclass(frozen=True)
class Text:
    """A document's text, with what it takes to point into it."""

    source: str
    content: str = ""

    @cached_property
    def lines(self) -> list[str]:
        """The lines, counted as the YAML parser counts them."""
        return self.content.splitlines()

    def problem(
        self, kind: Kind, fact: str, hint: str = "", *, at: Mark | None = None, path: Path = ()
    ) -> Problem:
        """Describe a mistake in this text."""
        line, column = at or (0, 0)
        source = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        excerpt, caret = _excerpt(source, column - 1)
        return Problem(
            kind, shown(self.source), line, column, dotted(path), fact, hint, excerpt, caret
        )

    def mark(self, offset: int) -> Mark:
        """Find the line and column of a character."""
        lines = f"{self.content[:offset]}|".splitlines()
        return Mark(len(lines), len(lines[-1]))


def _excerpt(line: str, caret: int) -> tuple[str, int]:
    """Cut a line to what is worth showing; the caret stays on its character."""
    caret = max(0, min(caret, len(line)))
    start = max(0, caret - WIDTH // 2) if len(line) > WIDTH else 0
    before = ("…" if start else "") + shown(line[start:caret])
    after = line[caret : start + WIDTH]
    cut = "…" if start + WIDTH < len(line) else ""
    return before + shown(after) + cut, len(before)


def _columns(text: str) -> int:
    """Count the terminal columns that text takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
