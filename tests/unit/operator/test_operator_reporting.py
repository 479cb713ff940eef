from __future__ import annotations

from typing import Any

from umbel.model.status import (
    CertificateStatus,
    Condition,
    FederationStatus,
    RunStatus,
    SiteStatus,
)
from umbel.operator import reporting
from umbel.targets.ocm.crd_status import LONGEST_MESSAGE, MOST_SITES

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def site(name: str, state: str = "online", **more: Any) -> SiteStatus:
    return SiteStatus(name, "eu", "ocm", more.pop("chosen", True), state, **more)


def status(*sites: SiteStatus, **more: Any) -> FederationStatus:
    usual: dict[str, Any] = {
        "name": "lab",
        "phase": "Ready",
        "endpoint": {"fleet": "f:1", "control": "c:2", "runtime": "127.0.0.1:3"},
        "versions": {"umbel": "1"},
        "conditions": (Condition("Ready", "True", "AllGood", "it takes runs"),),
        "sites": sites,
        "certificates": (CertificateStatus("ca", "CN=lab", "2030-01-01", 99),),
        "runs": (),
    }
    return FederationStatus(**{**usual, **more})


def test_sites_are_counted_and_only_chosen_ones_are_told() -> None:
    found = reporting.report(
        status(
            site("a"), site("b", "offline"), site("c", "not-chosen", chosen=False)
        ), 1, {}, NOW,
    )  # fmt: skip
    assert (found["sitesOnline"], found["sitesWanted"], found["sitesText"]) == (1, 2, "1/2")
    assert [one["name"] for one in found["sites"]] == ["a", "b"]


def test_an_unready_door_inside_the_pod_is_nobodys_business() -> None:
    found = reporting.report(status(), 1, {}, NOW)
    assert found["endpoint"] == {"fleet": "f:1", "control": "c:2"}


def test_runs_that_go_on_are_counted() -> None:
    runs = (RunStatus("1", "app", "running"), RunStatus("2", "app", "completed"))
    assert reporting.report(status(runs=runs), 1, {}, NOW)["runsActive"] == 1
    assert reporting.report(status(runs=None), 1, {}, NOW)["runsActive"] == 0


def test_a_site_says_only_what_it_has() -> None:
    (found,) = reporting.report(status(site("a", partition_id=0)), 1, {}, NOW)["sites"]
    assert found == {"name": "a", "group": "eu", "state": "online", "partitionId": 0}


def test_a_long_story_is_cut() -> None:
    many = [site(f"s{n}", message="x" * 1000) for n in range(MOST_SITES + 1)]
    found = reporting.report(status(*many), 1, {}, NOW)
    assert len(found["sites"]) == MOST_SITES
    assert len(found["sites"][0]["message"]) == LONGEST_MESSAGE
    assert found["sitesWanted"] == MOST_SITES + 1


def test_the_same_status_is_the_same_report_at_any_time() -> None:
    before = reporting.report(status(site("a")), 1, {}, NOW)
    assert reporting.report(status(site("a")), 1, before, LATER) == before


def test_a_condition_that_changes_has_a_new_time_and_others_keep_theirs() -> None:
    first = (Condition("Ready", "True", "AllGood"), Condition("HubAvailable", "True", "Running"))
    before = {"conditions": reporting.conditions(first, 1, {}, NOW)}
    then = (Condition("Ready", "False", "Bad"), Condition("HubAvailable", "True", "Running"))
    found = reporting.conditions(then, 2, before, LATER)
    assert [one["lastTransitionTime"] for one in found] == [LATER, NOW]
    assert [one["observedGeneration"] for one in found] == [2, 2]


def test_the_first_condition_of_a_type_counts() -> None:
    twice = (
        Condition("ClustersChosen", "False", "One"),
        Condition("ClustersChosen", "False", "Two"),
    )
    (found,) = reporting.conditions(twice, 1, {}, NOW)
    assert found["reason"] == "One"


def test_a_hint_is_part_of_the_message() -> None:
    (found,) = reporting.conditions((Condition("Ready", "False", "Bad", "no", "do"),), 1, {}, NOW)
    assert found["message"] == "no Hint: do"


def test_reasons_are_one_word_as_kubernetes_wants() -> None:
    told = (
        Condition("A", "False", "superlink-failing"),
        Condition("B", "False", ""),
        Condition("C", "False", "server_exec-starting"),
    )
    words = [one["reason"] for one in reporting.conditions(told, 1, {}, NOW)]
    assert words == ["SuperlinkFailing", "Unknown", "ServerExecStarting"]


def test_trouble_keeps_what_was_seen_before() -> None:
    before = reporting.report(status(site("a")), 1, {}, NOW)
    found = reporting.trouble(Condition("Ready", "False", "OcmMissing", "no"), 2, before, LATER)
    assert (found["phase"], found["observedGeneration"]) == ("Degraded", 2)
    assert found["sites"] == before["sites"]
    assert [one["reason"] for one in found["conditions"]] == ["OcmMissing"]


def test_trouble_at_the_beginning_has_nothing_to_keep() -> None:
    found = reporting.trouble(Condition("Ready", "False", "OcmMissing", "no"), 1, {}, NOW)
    assert set(found) == {"phase", "observedGeneration", "conditions"}


def test_a_status_goes_with_its_object() -> None:
    found = reporting.wrapped("lab", "fl", {"phase": "Ready"})
    assert found["kind"] == "Federation"
    assert found["metadata"] == {"name": "lab", "namespace": "fl"}
    assert found["status"] == {"phase": "Ready"}
