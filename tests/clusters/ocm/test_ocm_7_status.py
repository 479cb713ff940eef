"""Status back: what happens at a site is known at the hub within seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from testbed.api import Api
from testbed.waiting import eventually
from tests.clusters.ocm.stories import SYSTEM, Federation, Person, online, site_pod

from umbel.targets.ocm.install import METRICS_PORT, OPERATOR

pytestmark = pytest.mark.timeout(600)


def test_a_lost_supernode_is_seen_and_comes_back(
    hospitals: Federation, spokes: Mapping[str, Api]
) -> None:
    boston = spokes["boston"]
    pod = site_pod(boston, hospitals.names)
    assert pod is not None
    path = boston.path("v1", "Pod", hospitals.names.addon, pod["metadata"]["name"])
    boston.request("DELETE", path, {"gracePeriodSeconds": 0})
    seen = hospitals.wait(lambda seen: online(seen) == {"berlin"})
    assert seen["status"]["sitesText"] == "1/2"
    assert seen["status"]["phase"] != "Ready"
    hospitals.until_ready("berlin", "boston")
    again = site_pod(boston, hospitals.names)
    assert again is not None
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]


def test_people_without_an_account_on_the_hub_see_the_same(
    hospitals: Federation, owner: Person
) -> None:
    def same() -> bool:
        done = owner.umbel("status", "-n", "hospitals", "-o", "json")
        told = json.loads(done.stdout)
        seen = hospitals.seen()["status"]
        sites = {site["name"]: site["state"] for site in told["sites"]}
        return (
            done.returncode == 0
            and told["phase"] == seen["phase"] == "Ready"
            and sites == {site["name"]: site["state"] for site in seen["sites"]}
        )

    eventually("the same status through the gate", same, 30)


def test_a_run_is_counted_while_it_runs(hospitals: Federation, owner: Person) -> None:
    run = owner.starts(num_server_rounds=1, seconds=10.0)
    hospitals.wait(lambda seen: seen["status"]["runsActive"] == 1)
    assert owner.ends(run).status == "completed"
    hospitals.wait(lambda seen: seen["status"]["runsActive"] == 0)


def test_the_operator_tells_numbers(hub: Api, hospitals: Federation) -> None:
    service = hub.path("v1", "Service", SYSTEM, f"{OPERATOR}-metrics:{METRICS_PORT}")
    told = hub._http.get(f"{service}/proxy/metrics").text
    about = f'namespace="{hospitals.namespace}",federation="hospitals"'
    assert f'umbel_federation_sites{{{about},state="online"}} 2' in told
    assert f"umbel_federation_ready{{{about}}} 1" in told
    assert 'umbel_operator_writes_total{kind="StatefulSet"}' in told
