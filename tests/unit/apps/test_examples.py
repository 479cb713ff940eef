from __future__ import annotations

from pathlib import Path

import pytest

from umbel.documents import load_file
from umbel.model.federation import DeclaredSite, Federation, Role
from umbel.model.site import Site, TaintSeen
from umbel.placement.engine import place

EXAMPLES = Path(__file__).parents[3] / "examples"
DOCUMENTS = sorted(EXAMPLES.glob("*/federation.yaml"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.parent.name)
def test_the_document_is_valid_and_the_story_is_told(path: Path) -> None:
    assert load_file(path).spec.groups
    assert (path.parent / "README.md").read_text().startswith("# ")


def test_every_story_stands_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert DOCUMENTS
    assert all(f"({path.parent.name}/)" in listed for path in DOCUMENTS)


def test_the_quickstart_document_is_the_default() -> None:
    written = load_file(EXAMPLES / "quickstart" / "federation.yaml")
    assert written.spec == Federation.model_validate({"metadata": {"name": "quickstart"}}).spec


def as_seen(site: DeclaredSite) -> Site:
    taints = tuple(TaintSeen(taint.key, taint.value, taint.effect) for taint in site.taints)
    cores = site.allocatable.cpu
    return Site(
        site.name,
        labels=site.labels,
        claims=site.claims,
        taints=taints,
        allocatable_cpu=cores,
        capacity_cpu=cores,
    )


@pytest.mark.parametrize(
    ("group", "chosen"),
    [("imaging", {"north-1", "south-2", "west-1"}), ("clinics", {"hillside", "lakeside"})],
)
def test_the_hospitals_are_chosen_as_their_story_says(group: str, chosen: set[str]) -> None:
    document = load_file(EXAMPLES / "hospitals" / "federation.yaml")
    declared = next(each for each in document.spec.groups if each.name == group)
    assert isinstance(declared.sites, tuple)
    verdicts = place(declared.placement, [as_seen(site) for site in declared.sites], now_s=0)
    assert {verdict.site for verdict in verdicts if verdict.chosen} == chosen
    story = (EXAMPLES / "hospitals" / "README.md").read_text()
    assert group == "clinics" or all(f"`{name}`" in story for name in chosen)


def test_the_hospitals_have_one_person_a_role() -> None:
    users = load_file(EXAMPLES / "hospitals" / "federation.yaml").spec.security.users
    assert [user.role for user in users] == list(Role)
