"""The reference is made from the code, and is the code's own word."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "reference.py"))


def test_the_reference_is_what_the_code_says(tool: dict[str, Any]) -> None:
    differing = [
        str(path.relative_to(ROOT))
        for path, text in tool["pages"]().items()
        if not path.is_file() or path.read_text() != text
    ]
    assert not differing, f"{differing} differ; write them again with: {tool['COMMAND']}"


def test_every_field_of_the_document_says_what_it_means(tool: dict[str, Any]) -> None:
    silent = [line for line in tool["document_page"]().splitlines() if line.endswith("|  |")]
    assert silent == []


def test_every_argument_and_option_says_what_it_means(tool: dict[str, Any]) -> None:
    page = tool["cli_page"]().replace("\\|", "/")
    silent = [line for line in page.splitlines() if line.startswith("| `") and "|  |  |" in line]
    assert silent == []


def test_every_command_has_an_example(tool: dict[str, Any]) -> None:
    commands = tool["cli"]().commands.items()
    silent = [name for name, found in commands if not found.hidden and not found.epilog]
    assert silent == []
