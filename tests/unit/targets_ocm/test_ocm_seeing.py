from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umbel.model.unit import Health, Present
from umbel.targets.ocm import seeing
from umbel.targets.ocm.names import FINGERPRINT

Object = dict[str, Any]


def work(name: str = "umbel-site", kind: str = "ConfigMap", **said: str) -> Object:
    values = [{"name": k, "fieldValue": {"type": "String", "string": v}} for k, v in said.items()]
    about = {"kind": kind, "name": name}
    manifest = {"resourceMeta": about, "statusFeedback": {"values": values}}
    return {"metadata": {}, "status": {"resourceStatus": {"manifests": [manifest]}}}


def installed(text: str = "", *conditions: Object, **meta: Any) -> Object:
    notes = {"annotations": {FINGERPRINT: text}}
    return {"metadata": {**notes, **meta}, "status": {"conditions": list(conditions)}}


def condition(kind: str, status: str, message: str = "") -> Object:
    return {"type": kind, "status": status, "message": message}


def states(found: dict[str, Any]) -> set[tuple[Health, str]]:
    return {(seen.health, seen.message) for seen in found.values()}


def test_the_sites_words_are_read_from_its_own_config_map_alone() -> None:
    report = seeing.report_of(
        [
            work(publicKey="PEM", state="online", release="r1"),
            work("other", state="failing"),
            work("umbel-site", "Secret", state="failing"),
        ]
    )
    assert (report.public_key, report.state, report.release) == ("PEM", "online", "r1")


@pytest.mark.parametrize(
    "bare",
    [{"metadata": {}}, {"metadata": {}, "status": {}},
     {"metadata": {}, "status": {"resourceStatus": {"manifests": None}}},
     {"metadata": {}, "status": {"resourceStatus": {"manifests": [{}]}}}],
)  # fmt: skip
def test_a_work_that_says_nothing_is_an_empty_report(bare: Object) -> None:
    assert seeing.report_of([bare]) == seeing.Report()


@given(
    st.dictionaries(
        st.from_regex(r"[a-z/-]{1,20}", fullmatch=True),
        st.from_regex(r"[0-9a-f]{1,16}", fullmatch=True),
        max_size=4,
    )
)
def test_fingerprints_are_read_as_they_were_written(prints: dict[str, str]) -> None:
    text = seeing.fingerprints_text(prints)
    assert seeing.fingerprints_of({"metadata": {"annotations": {FINGERPRINT: text}}}) == prints


def test_an_object_without_notes_stands_for_nothing() -> None:
    assert seeing.fingerprints_of({"metadata": {}}) == {}


def test_without_a_stateful_set_there_is_no_hub() -> None:
    assert seeing.hub_sightings(None, None) == {}


STATEFUL_SET = {"metadata": {"annotations": {FINGERPRINT: "hub/gate=abc hub/superlink=def"}}}


def pod(*containers: Object, conditions: tuple[Object, ...] = ()) -> Object:
    return {"status": {"containerStatuses": list(containers), "conditions": list(conditions)}}


def test_a_hub_without_a_pod_is_starting() -> None:
    found = seeing.hub_sightings(STATEFUL_SET, None)
    assert set(found) == {f"hub/{kind}" for kind in seeing.CONTAINERS}
    assert states(found) == {(Health.STARTING, "its pod is not there yet")}
    gate = found["hub/gate"]
    assert isinstance(gate, Present)
    assert gate.fingerprint == "abc"


def test_a_ready_container_is_a_ready_unit() -> None:
    found = seeing.hub_sightings(STATEFUL_SET, pod({"name": "gate", "ready": True}))
    gate, link = found["hub/gate"], found["hub/superlink"]
    assert isinstance(gate, Present)
    assert isinstance(link, Present)
    assert gate.health is Health.READY
    assert link.health is Health.STARTING


def test_a_pod_that_cannot_be_scheduled_says_why() -> None:
    waiting = {**condition("PodScheduled", "False", "no node has room")}
    found = seeing.hub_sightings(STATEFUL_SET, pod(conditions=(waiting,)))
    assert states(found) == {(Health.STARTING, "no node has room")}


def test_an_image_that_cannot_be_pulled_is_a_failure_with_its_reason() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    seen = {"name": "gate", "ready": False, "state": {"waiting": waiting}}
    gate = seeing.hub_sightings(STATEFUL_SET, pod(seen))["hub/gate"]
    assert isinstance(gate, Present)
    assert gate.health is Health.FAILING
    assert gate.message == "ImagePullBackOff: no such image"
    assert gate.restarts == 1


def test_a_container_that_ends_again_and_again_tells_its_last_words() -> None:
    seen = {
        "name": "gate",
        "ready": False,
        "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"message": "U247 cannot read"}},
    }
    gate = seeing.hub_sightings(STATEFUL_SET, pod(seen))["hub/gate"]
    assert isinstance(gate, Present)
    assert (gate.health, gate.restarts) == (Health.FAILING, 4)
    assert "U247 cannot read" in gate.message


def test_a_container_that_is_being_made_is_starting() -> None:
    seen = {"name": "gate", "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    gate = seeing.hub_sightings(STATEFUL_SET, pod(seen))["hub/gate"]
    assert isinstance(gate, Present)
    assert (gate.health, gate.message) == (Health.STARTING, "ContainerCreating")


def sightings(whole: Object, *works: Object, wanted: str = "") -> dict[str, Any]:
    return dict(seeing.site_sightings("c1", whole, works, lambda _: wanted))


def test_a_site_that_says_online_is_ready_with_its_fingerprints() -> None:
    found = sightings(installed("c1/supernode=abc"), work(state="online"))
    node = found["c1/supernode"]
    assert isinstance(node, Present)
    assert (node.site, node.fingerprint, node.health) == ("c1", "abc", Health.READY)
    assert len(found) == 2


def test_a_site_that_says_failing_says_why() -> None:
    said = work(state="failing", message="it ended with 1")
    found = sightings(installed(), said)
    assert states(found) == {(Health.FAILING, "it ended with 1")}


def test_objects_that_a_cluster_refuses_are_a_failure() -> None:
    refused = condition("ManifestApplied", "False", "forbidden")
    found = sightings(installed("", refused), work(state="online"))
    assert states(found) == {(Health.FAILING, "forbidden")}


def test_a_site_that_is_on_its_way_out_is_not_ready() -> None:
    leaving = installed("", deletionTimestamp="2026-01-01T00:00:00Z")
    found = sightings(leaving, work(state="online"))
    assert states(found) == {(Health.STARTING, "it is being removed")}


def test_a_silent_site_says_what_ocm_says_of_it() -> None:
    assert states(sightings(installed())) == {(Health.STARTING, "its cluster has not reported yet")}
    waiting = condition("Available", "Unknown", "the work is not applied")
    assert states(sightings(installed("", waiting))) == {
        (Health.STARTING, "the work is not applied")
    }


def test_a_site_with_another_version_than_its_group_is_not_as_wanted() -> None:
    notes = {FINGERPRINT: "c1/supernode=abc", "umbel.dev/template": "v1"}
    whole = {"metadata": {"annotations": notes, "labels": {"umbel.dev/group": "eu"}}}
    same = sightings(whole, work(state="online"), wanted="v1")["c1/supernode"]
    other = sightings(whole, work(state="online"), wanted="v2")["c1/supernode"]
    assert (same.fingerprint, other.fingerprint) == ("abc", "")
