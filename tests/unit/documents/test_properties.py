"""What holds for every document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from umbel.documents import DocumentInvalid, commented_template, dump, load
from umbel.documents.problems import Text
from umbel.model.federation import Federation

QUICK = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True).filter(
    lambda name: name != "hub"
)
labels = st.dictionaries(
    st.from_regex(
        r"([a-z]{1,5}\.org/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?", fullmatch=True
    ),
    st.from_regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?)?", fullmatch=True),
    max_size=3,
)
texts = st.text(
    st.characters(
        exclude_categories=("Cs", "Cc"),
        exclude_characters="\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
        include_characters="\n\t",
    ),
    max_size=12,
)
whole = st.integers(-(2**63) + 1, 2**63 - 1)
scalars = texts | whole | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
mappings = st.dictionaries(texts, texts, max_size=3)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with any of these keys."""
    return st.fixed_dictionaries({}, optional=fields)


sites = st.lists(
    st.fixed_dictionaries(
        {"name": names},
        optional={
            "labels": labels,
            "claims": mappings,
            "clusterSet": names,
            "allocatable": some(cpu=st.floats(0, 1e6), memory=st.integers(0, 2**50)),
            "scores": st.dictionaries(texts, st.integers(-100, 100), max_size=2),
        },
    ),
    max_size=3,
    unique_by=lambda site: str(site["name"]),
)
data = some(
    hostPath=texts.map(lambda text: "/" + "".join(c for c in text if c not in '"\\\n')),
    partitions=st.integers(1, 10**6),
    nodeConfig=st.dictionaries(texts, scalars, max_size=4),
)
placements = some(numberOfClusters=st.integers(0, 1000), clusterSets=st.lists(names, max_size=2))
local = st.fixed_dictionaries({}, optional={"sites": st.integers(0, 1000), "placement": placements})
clouds = st.fixed_dictionaries(
    {"on": st.just("opennebula")},
    optional={"zones": st.lists(names, max_size=2), "cardinality": some(max=st.integers(1, 9))},
)
hosts = st.sampled_from(["127.0.0.1", "fl.example.org", "::1", "[fe80::1]", "super_link"])


@st.composite
def federations(draw: st.DrawFn) -> Federation:
    """Any federation that can be written down."""
    groups = draw(st.lists(local | clouds, min_size=1, max_size=3))
    taken = draw(st.lists(names, min_size=len(groups), max_size=len(groups), unique=True))
    spec = draw(
        some(
            superlink=some(endpoint=hosts, listen=hosts, alternativeNames=st.lists(hosts)),
            runtime=some(exec=st.sampled_from(["warm", "fresh"]), flower=st.just("1.41")),
            security=some(caKey=st.fixed_dictionaries({"keyFile": texts.filter(bool)})),
        )
    )
    named = [
        {"name": name, "data": draw(data), **group}
        for name, group in zip(taken, groups, strict=True)
    ]
    if draw(st.booleans()):
        named[0] = {"name": taken[0], "sites": draw(sites)}
    metadata = draw(some(labels=labels, annotations=mappings)) | {"name": draw(names)}
    return Federation.model_validate({"metadata": metadata, "spec": {**spec, "groups": named}})


@QUICK
@given(federations())
def test_what_is_written_loads_back_to_the_same(federation: Federation) -> None:
    again = load(dump(federation))
    assert again == federation
    assert dump(again) == dump(federation)


def refusal(document: bytes | str) -> DocumentInvalid | None:
    """The error that reading ends in, if any; every other exception is a bug."""
    try:
        load(document)
    except DocumentInvalid as error:
        return error
    return None


def survives(document: bytes | str) -> None:
    """Reading ends with a federation or with an error made for people."""
    error = refusal(document)
    if error is not None:
        assert error.code.startswith("U1")
        assert all(line.isprintable() for line in error.render().splitlines())


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes_end_in_an_error_for_people(document: bytes) -> None:
    survives(document)


@QUICK
@given(
    st.text(st.sampled_from("ab01 \n\t\r:-[]{},&*!|>'\"#%@?~.<\u00e9\u2028\x85\ufeff"), max_size=60)
)
def test_anything_like_yaml_ends_in_an_error_for_people(document: str) -> None:
    survives(document)


values = st.recursive(
    st.none() | scalars | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3)
    ),
    max_leaves=5,
)
PLACES = [
    "{}",
    "metadata: {}",
    "metadata: {{name: a}}\nspec: {}",
    "metadata: {{name: a}}\nspec: {{groups: {}}}",
    "metadata: {{name: a}}\nspec: {{groups: [{{name: a, sites: {}}}]}}",
    "metadata: {{name: a}}\nspec: {{groups: [{{name: a, data: {{nodeConfig: {{a: {}}}}}}}]}}",
    "metadata: {{name: a}}\nspec: {{superlink: {{ports: {{fleet: {}}}, endpoint: {}}}}}",
    "metadata: {{name: a}}\nspec: {{groups: [{{name: {}, on: {}, zones: {}, cardinality: {}}}]}}",
    "metadata: {{name: a}}\nspec: {{security: {{users: {}, caKey: {}, caDays: {}}}}}",
]


@QUICK
@given(st.sampled_from(PLACES), st.lists(values, min_size=4, max_size=4))
def test_any_value_at_any_place_ends_in_an_error_for_people(place: str, found: list[Any]) -> None:
    survives(place.format(*(json.dumps(value) for value in found)))


@QUICK
@given(st.data())
def test_a_document_with_a_piece_cut_out_ends_in_an_error_for_people(source: st.DataObject) -> None:
    text = commented_template("lab")
    start = source.draw(st.integers(0, len(text)))
    length = source.draw(st.integers(0, 40))
    survives(text[:start] + text[start + length :])


LARGE = {
    "open brackets": "[" * 1_000_000,
    "open braces": "{a: " * 250_000,
    "dashes": "- " * 500_000,
    "question marks": "? " * 500_000,
    "empty lines": "\n" * 1_000_000,
    "one word": "x" * 1_000_000,
    "digits": "a: " + "1" * 1_000_000,
    "quotes": "'" * 1_000_000,
    "tabs": "\t" * 1_000_000,
    "one key": "a: 1\n" * 200_000,
    "tags": "!" * 1_000_000,
    "documents": "---\n" * 250_000,
    "made names": "metadata: {name: a}\nspec: {groups: [{name: a, sites: 9000000000000000000}, "
    f"{{name: b, sites: [{'{name: a-1},' * 15_000}]}}]}}",
    "bad labels": "metadata: {labels: {" + ", ".join(f'"-{n}": 1' for n in range(30_000)) + "}}",
}


@pytest.mark.parametrize("document", LARGE.values(), ids=LARGE.keys())
def test_a_large_document_takes_no_long_time(document: str) -> None:
    survives(document)


@QUICK
@given(st.text(st.sampled_from("ab\n\r\x85\u2028é"), max_size=20), st.data())
def test_a_mark_points_at_its_character(content: str, source: st.DataObject) -> None:
    offset = source.draw(st.integers(0, max(0, len(content) - 1)))
    text = Text("x", content)
    line, column = text.mark(offset)
    if content and content[offset] not in "\n\r\x85\u2028":
        assert text.lines[line - 1][column - 1] == content[offset]
