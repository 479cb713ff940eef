"""Cost at scale, in small: bench/operator_cost.py measures the same with a thousand clusters."""

from __future__ import annotations

import re

import pytest
from testbed.api import Api
from testbed.bed import Bed
from testbed.waiting import eventually
from tests.clusters.ocm.conftest import LEASE, operator_pods
from tests.clusters.ocm.stories import SYSTEM, Federation, kinds_of, marked

pytestmark = pytest.mark.timeout(600)
RENEWALS = 3
AIM_KIB = 200 << 10

Versions = dict[str, str]


def versions(hub: Api, federation: Federation) -> Versions:
    """Give the version of every object that makes the federation, by where it is."""
    marks = (federation.namespace, federation.names.addon)
    return {
        f"{path} {content['metadata'].get('namespace', '')}/{content['metadata']['name']}": str(
            content["metadata"]["resourceVersion"]
        )
        for path in kinds_of(hub)
        for content in hub.request("GET", path)["items"]
        if marked(content, *marks)
    }


def renewals(hub: Api, number: int) -> None:
    """Wait until the operator has renewed its lease so many times: its clock."""
    seen: set[str] = set()

    def enough() -> bool:
        lease = hub.get(*LEASE)
        assert lease is not None
        seen.add(lease["spec"]["renewTime"])
        return len(seen) > number

    eventually(f"{number} renewals of the lease", enough, 60)


def test_at_rest_nothing_is_written(hub: Api, hospitals: Federation) -> None:
    """Only the lease is: what was written after the last change has come to rest before."""
    before: list[Versions] = [versions(hub, hospitals)]

    def rested() -> bool:
        renewals(hub, 1)
        before.append(versions(hub, hospitals))
        return before[-1] == before[-2]

    eventually("rest", rested, 150, lambda: str(before[-1].items() ^ before[-2].items())[:2000])
    assert len(before[-1]) > 20
    renewals(hub, RENEWALS)
    assert versions(hub, hospitals) == before[-1]


def test_the_operator_needs_little_memory(pods: Bed, hub: Api) -> None:
    for pod in operator_pods(hub):
        where = ("-n", SYSTEM, pod["metadata"]["name"], "--", "cat", "/proc/1/status")
        told = pods.kubectl("hub", "exec", *where)
        most = re.search(r"^VmHWM:\s+(\d+) kB$", told, re.MULTILINE)
        assert most is not None, told
        assert int(most[1]) < AIM_KIB
