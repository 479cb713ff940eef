"""A simulated pod does what it was told."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from testbed.api import condition
from testbed.pod_life import ANNOTATION, Behaviour, Order, behaviour_of, next_status

NOW = dt.datetime(2026, 1, 1, 12, 0, 0, tzinfo=dt.UTC)


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "flower", "name": "supernode-1", "uid": "u1"},
        "spec": {"containers": [{"name": "main", "image": "i"}], **spec},
    }


def after(living: dict[str, Any], seconds: float, behaviour: str) -> dict[str, Any]:
    """Let the pod start, and give its status so much later."""
    told = Behaviour.parse(behaviour)
    first = next_status(living, told, NOW)
    assert first is not None
    begun = {**living, "status": first}
    return next_status(begun, told, NOW + dt.timedelta(seconds=seconds)) or first


def ready(status: dict[str, Any]) -> bool:
    return condition({"status": status}, "Ready") == "True"


def test_a_pod_is_ready_at_once() -> None:
    status = after(pod(), 0, "well")
    assert status["phase"] == "Running"
    assert ready(status)
    assert status["containerStatuses"][0]["ready"]


def test_a_pod_that_is_as_it_should_be_is_not_written_again() -> None:
    status = next_status(pod(), Behaviour(), NOW)
    later = NOW + dt.timedelta(seconds=60)
    assert next_status({**pod(), "status": status}, Behaviour(), later) is None


def test_a_slow_pod_is_ready_when_its_time_has_come() -> None:
    assert not ready(after(pod(), 4, "slow=5"))
    assert ready(after(pod(), 6, "slow=5"))


def test_a_pod_that_never_starts_stays_pending() -> None:
    assert after(pod(), 3600, "never")["phase"] == "Pending"


def test_a_failing_pod_crashes_again_and_again() -> None:
    early, late = (after(pod(), age, "fail")["containerStatuses"][0] for age in (0, 11))
    assert early["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert late["restartCount"] > early["restartCount"]
    assert not ready(after(pod(), 11, "fail"))


def test_a_pod_out_of_memory_says_so() -> None:
    assert ready(after(pod(), 2, "oom=3"))
    container = after(pod(), 4, "oom=3")["containerStatuses"][0]
    assert container["lastState"]["terminated"] == {"exitCode": 137, "reason": "OOMKilled"}
    assert container["restartCount"] == 1


def test_a_pod_that_is_meant_to_end_succeeds_or_fails() -> None:
    assert after(pod(restartPolicy="Never"), 2, "well")["phase"] == "Succeeded"
    assert after(pod(restartPolicy="OnFailure"), 2, "fail")["phase"] == "Failed"
    assert after(pod(restartPolicy="Never"), 4, "oom=3")["phase"] == "Failed"


def test_a_pod_that_ended_is_left_alone() -> None:
    assert next_status({**pod(), "status": {"phase": "Failed"}}, Behaviour(), NOW) is None


def test_an_order_wins_over_the_annotation_and_a_later_one_over_an_earlier() -> None:
    living = pod()
    living["metadata"]["annotations"] = {ANNOTATION: "slow=5"}
    orders = [
        Order("flower/*", Behaviour("fail")),
        Order("flower/supernode-*", Behaviour("oom", 3)),
        Order("other/*", Behaviour("never")),
    ]
    assert behaviour_of(living, orders) == Behaviour("oom", 3)
    assert behaviour_of(living, orders[2:]) == Behaviour("slow", 5)


def test_a_word_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="explode"):
        Behaviour.parse("explode")
