from __future__ import annotations

from dataclasses import replace

import pytest

from umbel.model.site import Verdict
from umbel.model.status import CertificateStatus, Condition
from umbel.model.unit import Health, Sighting, Unknown
from umbel.planning import health
from umbel.testing import node, present, unit, world

HUB = ("hub/superlink", "hub/gate", "hub/server-exec")
SITES = ("a/supernode", "a/client-exec", "b/supernode", "b/client-exec")
UNITS = {name: unit(name) for name in (*HUB, *SITES)}
GOOD = world(UNITS)


def condition(kind: str, looked_at: health.World) -> Condition:
    return next(c for c in health.judge(looked_at) if c.type == kind)


def seen_with(name: str, sighting: Sighting) -> health.World:
    return replace(GOOD, seen={**GOOD.seen, name: sighting})


def certificate(name: str, days_left: int) -> CertificateStatus:
    return CertificateStatus(name, f"CN={name}", "2030-01-01T00:00:00+00:00", days_left)


def test_a_good_world_is_ready() -> None:
    conditions = health.judge(GOOD)
    assert [c.type for c in conditions] == [
        "Ready",
        "HubAvailable",
        "CertificatesValid",
        "SitesOnline",
    ]
    assert {c.status for c in conditions} == {"True"}
    assert health.phase(conditions, progressing=False) == "Ready"
    assert health.phase(conditions, progressing=True) == "Ready"


@pytest.mark.parametrize("name", HUB)
def test_a_hub_unit_that_is_not_there_is_named(name: str) -> None:
    kind = name.partition("/")[2]
    missing = replace(GOOD, seen={n: s for n, s in GOOD.seen.items() if n != name})
    ready = condition("Ready", missing)
    assert (ready.status, ready.reason) == ("False", "NotStarted")
    assert ready.message == f"{kind} is not there"
    assert health.phase(health.judge(missing), progressing=False) == "Down"
    assert health.phase(health.judge(missing), progressing=True) == "Progressing"


@pytest.mark.parametrize("name", HUB)
def test_a_hub_unit_that_fails_says_why(name: str) -> None:
    kind = name.partition("/")[2]
    bad = seen_with(name, present(UNITS[name], Health.FAILING, message="ended with 3"))
    found = condition("HubAvailable", bad)
    assert (found.status, found.reason) == ("False", f"{kind}-failing")
    assert found.message == "ended with 3"


def test_a_hub_unit_that_starts_is_not_yet_available() -> None:
    found = condition(
        "HubAvailable", seen_with("hub/gate", present(UNITS["hub/gate"], Health.STARTING))
    )
    assert (found.status, found.message) == ("False", "gate is starting")


def test_a_hub_that_nobody_could_see_is_unknown_not_down() -> None:
    blind = seen_with("hub/superlink", Unknown("no answer"))
    conditions = health.judge(blind)
    assert conditions[0] == Condition("Ready", "Unknown", "CannotLook", "no answer")
    assert health.phase(conditions, progressing=False) == "Unknown"


def test_an_ended_certificate_is_named_with_what_to_do() -> None:
    bad = replace(GOOD, certificates=[certificate("ca", 900), certificate("gate", -1)])
    found = condition("Ready", bad)
    assert (found.status, found.reason) == ("False", "Expired")
    assert found.message.startswith("gate ended on 2030-01-01")
    assert found.hint == "umbel up renews it"
    assert health.phase(health.judge(bad), progressing=False) == "Degraded"


def test_a_certificate_that_ends_soon_is_told_and_does_no_harm() -> None:
    soon = replace(GOOD, certificates=[certificate("gate", 6), certificate("a", 7)])
    found = condition("CertificatesValid", soon)
    assert (found.status, found.reason, found.message) == ("True", "ExpiresSoon", "gate in 6 d")
    assert condition("Ready", soon).status == "True"


def test_a_certificate_that_ends_today_has_not_ended() -> None:
    today = replace(GOOD, certificates=[certificate("gate", 0)])
    assert condition("CertificatesValid", today).status == "True"


def test_sites_that_are_missing_are_counted_and_named() -> None:
    bad = replace(GOOD, nodes=[node("a"), node("b", status="offline")])
    found = condition("SitesOnline", bad)
    assert (found.status, found.reason) == ("False", "SitesMissing")
    assert found.message == "1 of 2 online; not: b"


def test_a_long_list_of_missing_sites_is_cut() -> None:
    many = world({**UNITS, **{f"s{i}/supernode": unit(f"s{i}/supernode") for i in range(9)}})
    found = condition("SitesOnline", replace(many, nodes=[node("a"), node("b")]))
    assert found.message == "2 of 11 online; not: s0, s1, s2, s3, s4 …"


def test_nobody_could_ask_for_nodes_is_unknown_not_offline() -> None:
    blind = replace(GOOD, nodes=None, nodes_why="the gate does not answer")
    found = condition("SitesOnline", blind)
    assert found == Condition("SitesOnline", "Unknown", "CannotLook", "the gate does not answer")
    assert health.phase(health.judge(blind), progressing=False) == "Unknown"


def test_a_federation_without_sites_is_ready_when_its_hub_is() -> None:
    assert condition("Ready", world({name: UNITS[name] for name in HUB})).status == "True"


def test_a_node_with_another_key_is_not_the_site() -> None:
    impostor = replace(node("b"), fingerprint="key of a stranger")
    bad = replace(GOOD, nodes=[node("a"), impostor])
    assert sorted(health.online_sites(bad)) == ["a"]


def test_a_node_with_the_key_under_another_name_is_not_the_site() -> None:
    renamed = replace(node("b"), name="c")
    assert sorted(health.online_sites(replace(GOOD, nodes=[node("a"), renamed]))) == ["a"]


def test_the_first_thing_that_is_wrong_is_the_summary() -> None:
    bad = replace(
        seen_with("hub/gate", present(UNITS["hub/gate"], Health.FAILING, message="port taken")),
        nodes=None,
        certificates=[certificate("gate", -4)],
    )
    assert condition("Ready", bad).message == "port taken"


def test_units_that_fail_are_told_one_by_one() -> None:
    bad = seen_with("a/supernode", present(UNITS["a/supernode"], Health.FAILING, message="305"))
    assert health.failing_sites(bad) == ["a/supernode: 305"]
    assert health.failing_sites(GOOD) == []


CHOSEN = Verdict("a", chosen=True, reasons=("all",))
NOT_CHOSEN = Verdict("z", chosen=False, reasons=("no gpu", "tainted"))


def statuses(looked_at: health.World) -> tuple[tuple[str, str, str], ...]:
    found = health.site_statuses(looked_at, [CHOSEN, NOT_CHOSEN], {"a": "g", "z": "g"}, "local")
    return tuple((s.name, s.state, s.message) for s in found)


def test_a_site_that_is_not_chosen_says_why() -> None:
    assert statuses(GOOD) == (("a", "online", ""), ("z", "not-chosen", "no gpu; tainted"))


@pytest.mark.parametrize(
    ("sighting", "state", "message"),
    [
        (None, "starting", "supernode is not there yet"),
        (Unknown("no route"), "unknown", "no route"),
        (present(UNITS["a/supernode"], Health.FAILING, message="305"), "failing", "305"),
    ],
)
def test_a_sites_state_is_that_of_its_units_first(
    sighting: Sighting | None, state: str, message: str
) -> None:
    seen = {n: s for n, s in GOOD.seen.items() if n != "a/supernode"}
    if sighting is not None:
        seen["a/supernode"] = sighting
    assert statuses(replace(GOOD, seen=seen))[0] == ("a", state, message)


def test_a_site_without_its_executor_is_not_online() -> None:
    seen = {n: s for n, s in GOOD.seen.items() if n != "a/client-exec"}
    assert statuses(replace(GOOD, seen=seen))[0][1] == "starting"


def test_a_running_site_that_has_not_reported_is_offline() -> None:
    assert statuses(replace(GOOD, nodes=[]))[0][1] == "offline"
    blind = replace(GOOD, nodes=None, nodes_why="no answer")
    assert statuses(blind)[0] == ("a", "unknown", "no answer")


def test_a_site_that_starts_anew_is_not_online_whatever_the_superlink_believes() -> None:
    bad = seen_with("a/supernode", present(UNITS["a/supernode"], Health.STARTING, message="wait"))
    assert statuses(bad)[0] == ("a", "starting", "wait")
    assert condition("SitesOnline", bad).message == "1 of 2 online; not: a"


def test_a_sites_status_carries_partition_node_and_key() -> None:
    config = {"partition-id": 4, "num-partitions": 5}
    units = {**UNITS, "a/supernode": unit("a/supernode", node_config=config)}
    found = health.site_statuses(world(units), [CHOSEN], {"a": "g"}, "local")[0]
    assert (found.group, found.target, found.partition_id) == ("g", "local", 4)
    assert (found.node_id, found.fingerprint) == ("1", "key-of-a")
