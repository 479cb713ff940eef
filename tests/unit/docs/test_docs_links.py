"""What a page points at is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_IMAGE = re.compile(r'<(?:img|source)[^>]+src(?:set)?="([^"]+)"')
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_OUTSIDE = ("http:", "https:", "mailto:")


def prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text())


def targets(page: Path) -> Iterator[str]:
    text = prose(page)
    for found in (*_LINK.findall(text), *_IMAGE.findall(text)):
        if not found.startswith(_OUTSIDE):
            yield found


def anchors(page: Path) -> set[str]:
    """The names that a heading can be linked by, as GitHub makes them."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return {word.strip().replace(" ", "-") for word in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in targets(page):
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        known = goal.exists() and (not anchor or goal.suffix != ".md" or anchor in anchors(goal))
        if not known:
            broken.append(target)
    assert broken == []


def test_every_page_can_be_reached_from_the_front_page() -> None:
    seen: set[Path] = set()
    queue = [ROOT / "README.md"]
    while queue:
        page = queue.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        paths = (target.partition("#")[0] for target in targets(page))
        queue += [(page.parent / path).resolve() for path in paths if path]
    lost = {str(page.relative_to(ROOT)) for page in PAGES if page not in seen}
    assert lost == set()


def test_no_page_names_a_folder_of_somebodys_machine() -> None:
    private = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|tmp/(?!my)\w+)/")
    named = [page.name for page in PAGES if private.search(page.read_text())]
    assert named == []
