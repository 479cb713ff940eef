"""What is well-formed and still cannot be meant."""

from __future__ import annotations

import pytest

from umbel.documents import DocumentInvalid, Problem, load

HEAD = "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata:\n  name: lab\n"
GROUP = f"{HEAD}spec:\n  groups:\n    - name: a\n"


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(DocumentInvalid) as caught:
        load(text)
    return caught.value.problems


PODS = f"{HEAD}spec:\n  superlink: {{on: ocm}}\n  groups: [{{name: a, on: ocm}}]\n"

CASES = [
    pytest.param(
        f"{HEAD}spec:\n  security:\n    users: [{{name: owner, role: viewer}}]\n",
        "U138",
        (7, 20),
        "spec.security.users[0].name",
        'the name "owner" is reserved for whoever declares the federation',
        "choose another name",
        id="a user called owner",
    ),
    pytest.param(
        f"{GROUP}      sites: 3\n    - name: b\n      sites: [{{name: a-4}}, {{name: a-3}}]\n",
        "U135",
        (10, 35),
        "spec.groups[1].sites[1].name",
        'the site name "a-3" is taken by a site of group "a"',
        "choose another name",
        id="a declared name that a number makes too",
    ),
    pytest.param(
        f"{HEAD}spec:\n  groups:\n    - name: {'g' * 61}\n      sites: 10\n",
        "U130",
        (7, 13),
        "spec.groups[0].name",
        'the group\'s sites would be called "ggggggggg…-10", too long',
        "names have at most 63 characters",
        id="a group whose sites have no room for their number",
    ),
    pytest.param(
        f"{PODS}  runtime:\n    environments:\n      - {{name: v, app: x/y}}\n"
        "      - {name: v, app: x/z}\n",
        "U146",
        (11, 16),
        "spec.runtime.environments[1].name",
        'the environment name "v" is taken, first in line 10',
        "give one of them another environment name",
        id="two environments of one name",
    ),
    pytest.param(
        f"{PODS}  runtime:\n    environments:\n      - {{name: v, app: x/y, groups: [a, b]}}\n",
        "U147",
        (10, 41),
        "spec.runtime.environments[0].groups[1]",
        'there is no group "b"',
        "choose a",
        id="an environment for a group that is not there",
    ),
    pytest.param(
        f"{GROUP}    - name: b\n    - name: a\n",
        "U134",
        (9, 13),
        "spec.groups[2].name",
        'the group name "a" is taken, first in line 7',
        "give one of them another group name",
        id="two groups of one name",
    ),
    pytest.param(
        f"{GROUP}      sites: [{{name: x}}]\n    - name: b\n      sites: [{{name: x}}]\n",
        "U135",
        (10, 22),
        "spec.groups[1].sites[0].name",
        'the site name "x" is taken, first in line 8',
        "give one of them another site name",
        id="two sites of one name, in two groups",
    ),
    pytest.param(
        f"{HEAD}spec:\n  security:\n    users:\n      - name: ada\n      - name: ada\n",
        "U136",
        (9, 15),
        "spec.security.users[1].name",
        'the user name "ada" is taken, first in line 8',
        "give one of them another user name",
        id="two users of one name",
    ),
    pytest.param(
        f"{HEAD}spec:\n  superlink:\n    ports:\n      fleet: 9092\n      runtime: 9092\n",
        "U137",
        (9, 16),
        "spec.superlink.ports.runtime",
        'the port "9092" is taken, first in line 8',
        "give one of them another port",
        id="two equal ports",
    ),
    pytest.param(
        f"{GROUP}      sites: [{{name: hub}}]\n",
        "U138",
        (8, 22),
        "spec.groups[0].sites[0].name",
        'the name "hub" is reserved for the place',
        "choose another name",
        id="a site called hub",
    ),
    pytest.param(
        f"{GROUP}      on: ocm\n      sites: 3\n",
        "U139",
        (9, 7),
        "spec.groups[0].sites",
        '"sites" is only for groups on local, and this one is on ocm',
        "remove it; placement.numberOfClusters limits how many are used",
        id="sites on ocm",
    ),
    pytest.param(
        f"{GROUP}      zones: [berlin]\n",
        "U139",
        (8, 7),
        "spec.groups[0].zones",
        '"zones" is only for groups on opennebula, and this one is on local',
        "remove it",
        id="zones on this machine",
    ),
    pytest.param(
        f"{GROUP}      on: join\n      cardinality: {{max: 3}}\n",
        "U139",
        (9, 7),
        "spec.groups[0].cardinality",
        '"cardinality" is only for groups on opennebula, and this one is on join',
        "remove it",
        id="cardinality on join",
    ),
    pytest.param(
        f"{HEAD}spec: {{superlink: {{on: join}}}}\n",
        "U140",
        (5, 24),
        "spec.superlink.on",
        "the SuperLink cannot join",
        "choose local, ocm or opennebula",
        id="a hub that joins",
    ),
    pytest.param(
        f"{GROUP}      placement:\n        predicates:\n          - requiredClusterSelector:\n"
        '              labelSelector:\n                matchLabels: {gpu: "true"}\n'
        "                matchExpressions: [{key: gpu, operator: DoesNotExist}]\n",
        "U141",
        (12, 17),
        "spec.groups[0].placement.predicates[0].requiredClusterSelector.labelSelector",
        "no site can meet what is required of label 'gpu'",
        "the requirements contradict each other",
        id="a placement that contradicts itself",
    ),
    pytest.param(
        f"{HEAD}spec: {{security: {{caKey: {{keyFile: /a, passphraseFile: /b}}}}}}\n",
        "U142",
        (5, 26),
        "spec.security.caKey",
        "exactly one of passphraseFile and keyFile is needed",
        "keep the one to use and remove the other",
        id="a key file and a passphrase file",
    ),
    pytest.param(
        f"{HEAD}spec: {{security: {{caKey: {{}}}}}}\n",
        "U142",
        (5, 26),
        "spec.security.caKey",
        "exactly one of passphraseFile and keyFile is needed",
        "give one of them, or remove caKey",
        id="a CA key without a file",
    ),
    pytest.param(
        f"{GROUP}      on: opennebula\n      cardinality: {{min: 3, max: 2}}\n",
        "U143",
        (9, 20),
        "spec.groups[0].cardinality",
        "min 3 is greater than max 2",
        "raise max to 3 or more, or lower min",
        id="the smallest above the largest",
    ),
]


@pytest.mark.parametrize(("text", "code", "at", "field", "fact", "hint"), CASES)
def test_what_cannot_be_meant_is_named_placed_and_explained(
    *, text: str, code: str, at: tuple[int, int], field: str, fact: str, hint: str
) -> None:
    (problem,) = problems_of(text)
    assert (problem.code, problem.line, problem.column) == (code, *at)
    assert problem.field == field
    assert fact in problem.fact
    assert hint in problem.hint


def test_a_placement_with_a_broken_expression_is_refused() -> None:
    text = (
        f"{GROUP}      placement:\n        predicates:\n          - requiredClusterSelector:\n"
        '              celSelector: {celExpressions: ["true", "managedCluster.foo("]}\n'
    )
    (problem,) = problems_of(text)
    assert (problem.code, problem.line, problem.column) == ("U141", 11, 54)
    assert problem.field.endswith("celSelector.celExpressions[1]")


def test_a_placement_is_checked_although_another_part_is_wrong() -> None:
    text = f"{GROUP}      sitez: 1\n      placement: {{tolerations: [{{operator: Equal}}]}}\n"
    assert [p.code for p in problems_of(text)] == ["U122", "U141"]
