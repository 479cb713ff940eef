"""Every error that a person can see has a code of its own and a page that explains it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import umbel
from umbel.errors import DocumentError, RequestError, SecurityError, UmbelError, WorldError

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "errors"
NOT_IMPORTED = ("umbel.flower", "umbel.cli")  # slow to import; their source is read instead
FAMILIES: dict[type, str] = {
    DocumentError: "U1",
    WorldError: "U2",
    RequestError: "U3",
    SecurityError: "U4",
}
SECTIONS = ("## Description", "## How it happens", "## What to do")


def below(kind: type[UmbelError]) -> Iterator[type[UmbelError]]:
    for found in kind.__subclasses__():
        yield found
        yield from below(found)


@pytest.fixture(scope="module")
def kinds() -> list[type[UmbelError]]:
    """Every error class with a code; the families have none."""
    for module in pkgutil.walk_packages(umbel.__path__, "umbel."):
        if not module.name.startswith(NOT_IMPORTED) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = {kind for kind in below(UmbelError) if kind.__module__.startswith("umbel.")}
    return [kind for kind in found if "code" in vars(kind)]


def written() -> list[tuple[str, str]]:
    """Every code with its class, as the source says."""
    return [
        (item.value.value, node.name)
        for path in sorted((ROOT / "src").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.Assign)
        and [ast.unparse(target) for target in item.targets] == ["code"]
        and isinstance(item.value, ast.Constant)
        and isinstance(item.value.value, str)
    ]


def test_every_code_is_well_formed_and_of_its_family(kinds: list[type[UmbelError]]) -> None:
    assert kinds
    for kind in kinds:
        assert re.fullmatch(r"U\d{3}", kind.code), kind
        family = next((FAMILIES[base] for base in kind.__mro__ if base in FAMILIES), "U")
        assert kind.code.startswith(family), f"{kind.__name__} has {kind.code}, not {family}xx"


def test_every_class_below_a_family_has_a_code_of_its_own(kinds: list[type[UmbelError]]) -> None:
    codes = [kind.code for kind in kinds]
    assert sorted(codes) == sorted(set(codes))
    silent = [
        kind.__name__
        for kind in below(UmbelError)
        if kind.__module__.startswith("umbel.")
        and kind.__module__ != "umbel.errors"
        and "code" not in vars(kind)
        and not kind.__subclasses__()
    ]
    assert silent == []


def test_no_code_is_used_twice() -> None:
    codes = [code for code, _ in written()]
    assert sorted(codes) == sorted(set(codes))


def test_every_error_has_a_page_that_names_it() -> None:
    unexplained = [
        f"{code} {name}"
        for code, name in written()
        if not (page := PAGES / f"{code}.md").is_file() or name not in page.read_text()
    ]
    assert unexplained == []


def test_a_page_says_what_it_is_how_it_happens_and_what_to_do() -> None:
    pages = sorted(PAGES.glob("U1*.md"))
    assert pages
    short = [page.name for page in pages if any(s not in page.read_text() for s in SECTIONS)]
    assert short == []


def test_every_page_belongs_to_an_error() -> None:
    assert {path.stem for path in PAGES.glob("U*.md")} <= {code for code, _ in written()}
