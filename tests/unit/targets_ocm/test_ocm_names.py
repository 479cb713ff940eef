from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from umbel.targets.ocm.names import FEDERATION, OWNER, PART, Names

names = st.builds(
    Names,
    st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True),
    st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True),
)
_LABEL = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


@given(names)
def test_the_add_ons_name_can_be_a_label_and_a_namespace(made: Names) -> None:
    assert _LABEL.fullmatch(made.addon)
    assert "." not in made.addon


@given(names, names)
def test_two_federations_never_share_an_add_on(one: Names, other: Names) -> None:
    assert (one.addon == other.addon) == (one == other)


def test_the_same_name_in_two_namespaces_is_two_federations() -> None:
    assert Names("a", "b-c").addon != Names("a-b", "c").addon
    assert Names("one", "lab").addon != Names("two", "lab").addon


def test_everything_says_whose_it_is() -> None:
    made = Names("fl", "lab")
    meta = made.metadata("thing", "hub", namespace="fl", labels={"more": 1}, annotations={"x": "y"})
    assert meta["name"] == "thing"
    assert meta["namespace"] == "fl"
    assert meta["annotations"] == {OWNER: "fl/lab", "x": "y"}
    labels = meta["labels"]
    assert isinstance(labels, dict)
    assert (labels[FEDERATION], labels[PART], labels["more"]) == (made.addon, "hub", "1")


def test_a_version_is_part_of_a_templates_name_however_long_the_rest() -> None:
    made = Names("fl", "x" * 40)
    assert made.template("g" * 200, "0123456789").endswith("-0123456789")
    assert len(made.template("g" * 200, "0123456789")) <= 253


def test_the_service_is_known_inside_the_cluster_by_two_names() -> None:
    assert Names("fl", "lab").service_hosts == ("lab.fl.svc", "lab.fl.svc.cluster.local")


def test_secrets_of_people_and_of_the_gate_are_apart() -> None:
    made = Names("fl", "lab")
    found = {made.user_secret("owner"), made.user_secret("ada"), made.gate_secret, made.allotment}
    assert len(found) == 4
    assert made.authority_secret == f"ca-{made.addon}"
    assert made.owner == "fl/lab"
