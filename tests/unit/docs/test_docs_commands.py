"""What a page tells people to type can be typed, and what it tells them to write can be read."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from umbel.documents import load

ROOT = Path(__file__).parents[3]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
SHELL = ("", "sh", "console")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(umbel [^`\n]+)`")
_SETTING = re.compile(r"[A-Z_]+=\S+ +")
_REMARK = re.compile(r"\s{2,}|\s#\s")
_PLACEHOLDER = ("...", "…")


@pytest.fixture(scope="module")
def umbel() -> click.Group:
    group: click.Group = runpy.run_path(str(ROOT / "tools" / "reference.py"))["cli"]()
    return group


def command_lines(page: Path) -> Iterator[str]:
    text = page.read_text()
    for language, body in _BLOCK.findall(text):
        if language in SHELL:
            for line in body.splitlines():
                told = _REMARK.split(line.strip().removeprefix("$ "))[0]
                for part in re.split(r"&&|\||;", told):
                    yield from _typed(part.strip())
    for inline in _INLINE.findall(_BLOCK.sub("", text)):
        yield from _typed(inline)


def _typed(line: str) -> Iterator[str]:
    """Keep a call of umbel, without settings before it and a redirection behind it."""
    bare = re.split(r"\s>\s", _SETTING.sub("", line))[0]
    if bare.startswith("umbel ") and not any(word in bare for word in _PLACEHOLDER):
        yield bare


def complaint(group: click.Group, line: str) -> str:
    """Say why the line cannot be typed; nothing if it can."""
    words = shlex.split(line)[1:]
    if words[0].startswith("-"):
        command: click.Command = group
    elif words[0] in group.commands:
        command, words = group.commands[words[0]], words[1:]
    else:
        return f"there is no command {words[0]!r}"
    if "--help" in words or "-h" in words:
        return ""
    try:
        _, left, _ = command.make_parser(click.Context(command)).parse_args(list(words))
    except click.UsageError as error:
        return error.message
    return f"too many words: {left}" if left else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_can_be_typed(page: Path, umbel: click.Group) -> None:
    wrong = {line: why for line in command_lines(page) if (why := complaint(umbel, line))}
    assert wrong == {}


def test_a_wrong_command_line_is_noticed(umbel: click.Group) -> None:
    assert "no command" in complaint(umbel, "umbel fly")
    assert "--wings" in complaint(umbel, "umbel up --wings")
    assert "too many words" in complaint(umbel, "umbel status now")
    assert complaint(umbel, "umbel run ./my-app -c num-server-rounds=5") == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_whole_document_on_a_page_is_a_good_one(page: Path) -> None:
    for language, body in _BLOCK.findall(page.read_text()):
        if language == "yaml" and "kind: Federation" in body:
            load(body, source=page.name)
