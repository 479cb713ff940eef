from __future__ import annotations

from typing import Any

import pytest

from umbel.model.placement import Placement
from umbel.model.site import Site
from umbel.placement.engine import PlacementMisconfigured, place
from umbel.placement.validate import Problem, check


def problems(document: dict[str, Any]) -> tuple[Problem, ...]:
    return check(Placement.model_validate(document))


def selecting(**selectors: Any) -> dict[str, Any]:
    return {"predicates": [{"requiredClusterSelector": selectors}]}


def lines(*requirements: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"matchExpressions": list(requirements), **({"matchLabels": labels} if labels else {})}


def line(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def scoring(*coordinates: dict[str, Any]) -> dict[str, Any]:
    configurations = [{"scoreCoordinate": coordinate} for coordinate in coordinates]
    return {"prioritizerPolicy": {"configurations": configurations}}


ADD_ON = {"resourceName": "energy", "scoreName": "green"}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"numberOfClusters": 0},
        selecting(labelSelector=lines(line("a", "In", "1", "2"), line("a", "NotIn", "1"))),
        selecting(labelSelector=lines(line("a", "DoesNotExist"), line("a", "NotIn", "1"))),
        selecting(labelSelector=lines(line("example.org/a", "Exists"), a="1")),
        selecting(claimSelector=lines(line("id.k8s.io", "In", "x")), labelSelector=lines(x="1")),
        selecting(celSelector={"celExpressions": ["managedCluster.metadata.name == 'a'"]}),
        scoring({"builtIn": "Steady"}, {"type": "AddOn", "addOn": ADD_ON}),
        {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b"}]},
        {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "1%"}}},
    ],
)
def test_what_can_work_has_no_problem(document: dict[str, Any]) -> None:
    assert problems(document) == ()


SELECTOR = "predicates[0].requiredClusterSelector"
GROUPS = "decisionStrategy.groupStrategy"
SCORES = "prioritizerPolicy.configurations"


@pytest.mark.parametrize(
    ("document", "where", "fact"),
    [
        (
            selecting(labelSelector=lines(line("a", "In"))),
            f"{SELECTOR}.labelSelector.matchExpressions[0].values",
            "In has no values",
        ),
        (
            selecting(claimSelector=lines(line("b", "Exists"), line("a", "Exists", "x"))),
            f"{SELECTOR}.claimSelector.matchExpressions[1].values",
            "Exists takes no values",
        ),
        (
            selecting(claimSelector=lines(line("a b", "Exists"))),
            f"{SELECTOR}.claimSelector.matchExpressions[0].key",
            "'a b' is not a label or claim name",
        ),
        (
            selecting(claimSelector=lines(line("a", "In", "ok", '{"x": 1}'))),
            f"{SELECTOR}.claimSelector.matchExpressions[0].values[1]",
            "'{\"x\": 1}' can be no selector's value",
        ),
        (
            selecting(labelSelector=lines(line("a", "NotIn", "1"), a="1")),
            f"{SELECTOR}.labelSelector",
            "no site can meet what is required of label 'a'",
        ),
        (
            selecting(labelSelector=lines(line("a", "DoesNotExist"), a="1")),
            f"{SELECTOR}.labelSelector",
            "no site can meet what is required of label 'a'",
        ),
        (
            selecting(claimSelector=lines(line("a", "In", "1"), line("a", "In", "2"))),
            f"{SELECTOR}.claimSelector",
            "no site can meet what is required of claim 'a'",
        ),
        (
            selecting(claimSelector=lines(line("a", "Exists"), line("a", "DoesNotExist"))),
            f"{SELECTOR}.claimSelector",
            "no site can meet what is required of claim 'a'",
        ),
        (
            selecting(celSelector={"celExpressions": ["true", "1 =="]}),
            f"{SELECTOR}.celSelector.celExpressions[1]",
            "CEL expression `1 ==` does not compile: line 1, column 5: it ends too early",
        ),
        (
            scoring({"type": "BuiltIn"}),
            f"{SCORES}[0].scoreCoordinate.builtIn",
            "type BuiltIn needs builtIn",
        ),
        (
            scoring({"type": "AddOn", "addOn": ADD_ON, "builtIn": "Steady"}),
            f"{SCORES}[0].scoreCoordinate.builtIn",
            "type AddOn takes no builtIn",
        ),
        (
            scoring({"builtIn": "Steady"}, {"builtIn": "Balance"}, {"builtIn": "Steady"}),
            f"{SCORES}[2].scoreCoordinate",
            "this score is configured twice",
        ),
        (
            {"tolerations": [{"value": "x"}]},
            "tolerations[0].key",
            "a toleration without a key needs operator Exists",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
            "tolerations[0].value",
            "operator Exists takes no value",
        ),
        (
            {"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a"}, {"topologyKey": "a"}]}},
            "spreadPolicy.spreadConstraints[1].topologyKey",
            "Label 'a' is spread over twice",
        ),
        (
            {"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a b"}]}},
            "spreadPolicy.spreadConstraints[0].topologyKey",
            "'a b' is not a label or claim name",
        ),
        (
            {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "0%"}}},
            f"{GROUPS}.clustersPerDecisionGroup",
            "groups of 0% have no sites",
        ),
        (
            {
                "decisionStrategy": {
                    "groupStrategy": {
                        "decisionGroups": [
                            {
                                "groupName": "first",
                                "groupClusterSelector": {
                                    "celSelector": {"celExpressions": ["true"]}
                                },
                            }
                        ]
                    }
                }
            },
            f"{GROUPS}.decisionGroups[0].groupClusterSelector.celSelector",
            "group 'first' has a CEL selector, which groups do not know",
        ),
    ],
)
def test_what_cannot_work_is_found_with_place_fact_and_hint(
    document: dict[str, Any], where: str, fact: str
) -> None:
    (problem,) = problems(document)
    assert (problem.where, problem.fact) == (where, fact)
    assert problem.hint


def test_a_misconfigured_placement_is_not_followed_halfway() -> None:
    placement = Placement.model_validate({"tolerations": [{"value": "x"}]})
    with pytest.raises(PlacementMisconfigured) as caught:
        place(placement, [Site("a")], now_s=0.0)
    assert str(caught.value) == (
        "U151 placement.tolerations[0].key: a toleration without a key needs operator Exists"
    )


def test_a_contradiction_is_followed_and_chooses_nothing() -> None:
    document = selecting(labelSelector=lines(line("a", "NotIn", "1"), a="1"))
    (verdict,) = place(
        Placement.model_validate(document), [Site("x", labels={"a": "1"})], now_s=0.0
    )
    assert not verdict.chosen
