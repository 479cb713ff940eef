"""Each mistake in a document: its code, line, field, fact and hint."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from umbel.documents import DocumentInvalid, Problem, load

HEAD = "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata:\n  name: lab\n"
GROUP = f"{HEAD}spec:\n  groups:\n    - name: a\n"


def problems_of(text: bytes | str) -> tuple[Problem, ...]:
    with pytest.raises(DocumentInvalid) as caught:
        load(text)
    return caught.value.problems


@dataclass(frozen=True)
class Case:
    """A document with one mistake, and what must be said about it."""

    name: str
    text: str
    code: str
    at: tuple[int, int]
    field: str
    fact: str
    hint: str


CASES = [
    Case(
        "unknown key",
        f"{GROUP}      sitez: 3\n",
        "U122",
        (8, 7),
        "spec.groups[0].sitez",
        'unknown key "sitez"',
        'did you mean "sites"? allowed here: name, on, sites, zones, cardinality, placement, data, kubernetes',
    ),
    Case(
        "snake case",
        f"{GROUP}      placement: {{number_of_clusters: 2}}\n",
        "U122",
        (8, 19),
        "spec.groups[0].placement.number_of_clusters",
        'unknown key "number_of_clusters"',
        'did you mean "numberOfClusters"?',
    ),
    Case(
        "another word for a key",
        f"{GROUP}      replicas: 2\n",
        "U122",
        (8, 7),
        "spec.groups[0].replicas",
        'unknown key "replicas"',
        'did you mean "sites"?',
    ),
    Case(
        "key at the wrong place",
        f"{HEAD}groups: []\n",
        "U122",
        (5, 1),
        "groups",
        'unknown key "groups"',
        "it belongs under spec; allowed here: apiVersion, kind, metadata, spec",
    ),
    Case(
        "merge key",
        f"{HEAD}spec:\n  runtime: &r {{exec: warm}}\n  security:\n    <<: *r\n",
        "U122",
        (8, 5),
        'spec.security["<<"]',
        "merge keys (<<) are not supported",
        "write the keys out",
    ),
    Case(
        "missing name",
        f"{HEAD}spec:\n  groups:\n    - on: ocm\n",
        "U123",
        (7, 7),
        "spec.groups[0].name",
        'the key "name" is missing',
        'add "name: ..." to spec.groups[0]',
    ),
    Case(
        "missing metadata",
        "kind: Federation\n",
        "U123",
        (1, 1),
        "metadata",
        'the key "metadata" is missing',
        "metadata: {name: my-federation}",
    ),
    Case(
        "a number in quotes",
        f'{GROUP}      sites: "3"\n',
        "U124",
        (8, 14),
        "spec.groups[0].sites",
        'expected a whole number or a list, found the text "3"',
        "remove the quotes: 3",
    ),
    Case(
        "a label that is a boolean",
        f"{HEAD}  labels: {{gpu: true}}\n",
        "U124",
        (5, 17),
        "metadata.labels.gpu",
        "expected text, found true",
        'put it in quotes: "true"',
    ),
    Case(
        "a label that is a number",
        f"{HEAD}  labels: {{version: 1.10}}\n",
        "U124",
        (5, 21),
        "metadata.labels.version",
        "expected text, found the number 1.10",
        'put it in quotes: "1.10"',
    ),
    Case(
        "a quantity with a unit",
        f"{GROUP}      sites: [{{name: x, allocatable: {{memory: 4Gi}}}}]\n",
        "U124",
        (8, 47),
        "spec.groups[0].sites[0].allocatable.memory",
        'expected a whole number, found the text "4Gi"',
        "write it without a unit: 4294967296",
    ),
    Case(
        "words for a number",
        f"{HEAD}spec: {{security: {{caDays: many}}}}\n",
        "U124",
        (5, 27),
        "spec.security.caDays",
        'expected a whole number, found the text "many"',
        "write it in digits",
    ),
    Case(
        "a fraction for a whole number",
        f"{HEAD}spec: {{security: {{caDays: 1.5}}}}\n",
        "U124",
        (5, 27),
        "spec.security.caDays",
        "expected a whole number, found the number 1.5",
        "remove the fraction",
    ),
    Case(
        "a single value for a list",
        f"{GROUP}      on: opennebula\n      zones: berlin\n",
        "U124",
        (9, 14),
        "spec.groups[0].zones",
        'expected a list, found the text "berlin"',
        "write it as a list: [berlin]",
    ),
    Case(
        "a mapping for a list",
        f"{HEAD}spec:\n  security:\n    users: {{name: ada}}\n",
        "U124",
        (7, 12),
        "spec.security.users",
        "expected a list, found keys and values",
        'begin each item with "- "',
    ),
    Case(
        "a list for a mapping",
        f"{HEAD}spec:\n  - groups\n",
        "U124",
        (6, 3),
        "spec",
        "expected keys and values, found a list",
        'remove the "- " or the brackets',
    ),
    Case(
        "no space after the colon",
        f"{HEAD}spec:\n  runtime: exec:warm\n",
        "U124",
        (6, 12),
        "spec.runtime",
        'expected keys and values, found the text "exec:warm"',
        'put a space after the ":"',
    ),
    Case(
        "a key without a value",
        f"{HEAD}spec:\n  groups:\n",
        "U124",
        (6, 10),
        "spec.groups",
        "expected a list, found nothing",
        "give it a value, or remove the key",
    ),
    Case(
        "a list in the node config",
        f"{GROUP}      data: {{nodeConfig: {{a: [1]}}}}\n",
        "U124",
        (8, 30),
        "spec.groups[0].data.nodeConfig.a",
        "expected text, a number or true or false, found a list",
        "write text, a number or true or false here",
    ),
    Case(
        "a port that is too large",
        f"{HEAD}spec:\n  superlink:\n    ports: {{fleet: 70000}}\n",
        "U125",
        (7, 20),
        "spec.superlink.ports.fleet",
        "70000 is out of range",
        "give a number from 1 to 65535",
    ),
    Case(
        "a negative number of clusters",
        f"{GROUP}    - name: b\n      placement:\n        numberOfClusters: -1\n",
        "U125",
        (10, 27),
        "spec.groups[1].placement.numberOfClusters",
        "-1 is out of range",
        "give a number from 0 to 100000",
    ),
    Case(
        "a number with a lower bound only",
        f"{HEAD}spec: {{runtime: {{taskTimeoutSeconds: 0}}}}\n",
        "U125",
        (5, 38),
        "spec.runtime.taskTimeoutSeconds",
        "0 is out of range",
        "give 1 or more",
    ),
    Case(
        "a target in capitals",
        f"{GROUP}      on: OCM\n",
        "U126",
        (8, 11),
        "spec.groups[0].on",
        '"OCM" is not a choice here',
        'did you mean "ocm"? choose local, ocm, opennebula or join',
    ),
    Case(
        "the only choice",
        f"{HEAD}spec: {{runtime: {{isolation: subprocess}}}}\n",
        "U126",
        (5, 29),
        "spec.runtime.isolation",
        '"subprocess" is not a choice here',
        "write process",
    ),
    Case(
        "bad name",
        "metadata: {name: My Lab_1}\n",
        "U127",
        (1, 18),
        "metadata.name",
        '"My Lab_1" is not a name',
        'names are lower-case letters, digits and "-", with a letter or digit at both ends; '
        'for example "my-lab-1"',
    ),
    Case(
        "bad label key",
        f'{HEAD}  labels: {{"-gpu": "1"}}\n',
        "U128",
        (5, 12),
        'metadata.labels["-gpu"]',
        '"-gpu" is not a label key',
        'labels are letters, digits, "-", "_" and "."',
    ),
    Case(
        "bad label value",
        f"{HEAD}  labels: {{place: New York}}\n",
        "U128",
        (5, 19),
        "metadata.labels.place",
        '"New York" is not a label value',
        "at most 63, with a letter or digit at both ends",
    ),
    Case(
        "an endpoint with a port",
        f"{HEAD}spec:\n  superlink: {{endpoint: fl.example.org:9092}}\n",
        "U129",
        (6, 25),
        "spec.superlink.endpoint",
        '"fl.example.org:9092" is neither a host name nor an IP address',
        "ports belong in spec.superlink.ports",
    ),
    Case(
        "an endpoint with a scheme",
        f"{HEAD}spec:\n  superlink: {{endpoint: https://fl.example.org}}\n",
        "U129",
        (6, 25),
        "spec.superlink.endpoint",
        '"https://fl.example.org" is not a host name or an IP address',
        "without https:// and without a path",
    ),
    Case(
        "a relative path",
        f"{GROUP}      data: {{hostPath: data}}\n",
        "U129",
        (8, 24),
        "spec.groups[0].data.hostPath",
        '"data" is not an absolute path',
        'begin it with "/"',
    ),
    Case(
        "a percentage over 100",
        f"{GROUP}      placement: {{decisionStrategy: {{groupStrategy: "
        "{clustersPerDecisionGroup: 120%}}}\n",
        "U129",
        (8, 80),
        "spec.groups[0].placement.decisionStrategy.groupStrategy.clustersPerDecisionGroup",
        '"120%" is not a percentage',
        'write it as "25%", or give a whole number',
    ),
    Case(
        "a name that is too long",
        f"metadata: {{name: {'a' * 64}}}\n",
        "U130",
        (1, 18),
        "metadata.name",
        "64 characters are too many",
        "at most 63 are allowed",
    ),
    Case(
        "no groups",
        f"{HEAD}spec: {{groups: []}}\n",
        "U130",
        (5, 16),
        "spec.groups",
        "this is empty",
        "give it a value, or remove the key",
    ),
    Case(
        "wrong version",
        "apiVersion: umbel.dev/v2\nmetadata: {name: a}\n",
        "U131",
        (1, 13),
        "apiVersion",
        '"umbel.dev/v2" is not supported',
        "write apiVersion: umbel.dev/v1alpha1",
    ),
    Case(
        "wrong kind",
        "kind: Deployment\nmetadata: {name: a}\nspec: {replicas: 3}\n",
        "U132",
        (1, 7),
        "kind",
        'the document is a "Deployment", not a Federation',
        "Write kind: Federation",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_is_named_placed_and_explained(case: Case) -> None:
    (problem,) = problems_of(case.text)
    assert (problem.code, problem.line, problem.column) == (case.code, *case.at)
    assert problem.field == case.field
    assert case.fact in problem.fact
    assert case.hint in problem.hint
    assert problem.file == "federation.yaml"
    assert problem.source == case.text.splitlines()[case.at[0] - 1][:100] + (
        "…" if len(case.text.splitlines()[case.at[0] - 1]) > 100 else ""
    )


def test_the_error_is_of_the_kind_of_its_only_mistake() -> None:
    with pytest.raises(DocumentInvalid) as caught:
        load(f"{GROUP}      sitez: 3\n")
    assert type(caught.value).__name__ == "UnknownKey"
    assert caught.value.code == "U122"
    assert "federation.yaml:8:7" in caught.value.fact
    assert caught.value.exit_status == 2


def test_all_mistakes_are_told_at_once_in_the_order_of_the_text() -> None:
    text = (
        "metadata: {name: Lab}\n"
        "spec:\n"
        "  superlink: {ports: {fleet: 1, control: 1}}\n"
        "  groups:\n"
        "    - {name: a, sitez: 1}\n"
        "    - {name: a, name: b, on: moon}\n"
        "  runtime: {exec: 3}\n"
    )
    found = problems_of(text)
    assert [(p.code, p.line) for p in found] == [
        ("U127", 1),
        ("U137", 3),
        ("U122", 5),
        ("U134", 6),
        ("U112", 6),
        ("U126", 6),
        ("U126", 7),
    ]


def test_mistakes_of_several_kinds_are_one_error() -> None:
    with pytest.raises(DocumentInvalid) as caught:
        load("metadata: {name: Lab}\nspec: {grups: []}\n")
    assert type(caught.value) is DocumentInvalid
    assert caught.value.code == "U100"
    assert caught.value.fact.endswith("(and 1 more)")
    assert len(caught.value.as_problem()["problems"]) == 2


def test_a_slip_in_a_required_key_is_told_once() -> None:
    (problem,) = problems_of(f"{HEAD}spec:\n  groups:\n    - nam: a\n")
    assert (problem.code, problem.field) == ("U122", "spec.groups[0].nam")


def test_a_foreign_document_is_not_picked_to_pieces() -> None:
    found = problems_of("apiVersion: apps/v1\nkind: Deployment\nspec: {template: {a: b}}\n")
    assert [p.code for p in found] == ["U131", "U132"]


def test_a_hundred_mistakes_are_cut_and_counted() -> None:
    keys = "".join(f"unknown{n}: 1\n" for n in range(100))
    with pytest.raises(DocumentInvalid) as caught:
        load(f"{HEAD}{keys}")
    assert len(caught.value.problems) == 50
    assert caught.value.left_out == 50
    assert caught.value.render().endswith("... and 50 more")
