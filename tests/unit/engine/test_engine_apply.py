from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from umbel.engine import engine as module
from umbel.engine.engine import (
    CannotLook,
    Engine,
    FederationUnknown,
    Interrupted,
    PlanOutdated,
    RunsActive,
    TargetNotHere,
    UnitFailed,
)
from umbel.errors import WorldError
from umbel.flower.versions import FlowerVersionDiffers
from umbel.model.federation import Federation
from umbel.model.plan import Plan
from umbel.store.memory import MemoryStore
from umbel.testing import FakeFlower, FakeTarget, federation, run


class NoAnswer(WorldError):
    """The SuperLink is away, for a test."""

    code = "U299"


@dataclass
class House:
    """An engine over fakes, and what it said."""

    store: MemoryStore = field(default_factory=MemoryStore)
    said: list[str] = field(default_factory=list)
    heard: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    def __post_init__(self) -> None:
        self.target = FakeTarget(self.store)
        self.flower = FakeFlower(self.target)
        self.engine = Engine(self.store, self.target, self.flower)

    def listen(self, text: str) -> None:
        self.said.append(text)
        self.heard[text].set()

    async def up(self, document: Federation, basis: str = "") -> Plan:
        return await self.engine.apply(document, self.listen, basis)

    def asked(self, verb: str) -> list[list[str]]:
        return [rest for first, *rest in self.target.log if first == verb]


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.0)
    return House()


async def test_a_plan_says_what_would_be_done_and_does_nothing(house: House) -> None:
    plan = await house.engine.plan(federation(sites=2))
    assert len(plan.changes) == 7
    assert {step.reason for step in plan.changes} == {"does not exist"}
    assert [v.site for v in plan.verdicts if v.chosen] == ["local-1", "local-2"]
    assert house.target.log == []
    assert house.engine.known() == {}


async def test_a_federation_comes_up_in_stages_after_its_identity(house: House) -> None:
    await house.up(federation(sites=2))
    first, *stages = house.target.log
    assert first == ("prepare", "lab")
    assert [sorted(stage[1:]) for stage in stages] == [
        ["hub/gate", "hub/superlink"],
        ["hub/server-exec", "local-1/supernode", "local-2/supernode"],
        ["local-1/client-exec", "local-2/client-exec"],
    ]
    assert house.said[0] == "identity: CA, certificates, keys"
    assert "starting 2 units: gate, superlink" in house.said
    assert "waiting for 2 sites to report" in house.said


async def test_coming_up_twice_changes_nothing_the_second_time(house: House) -> None:
    await house.up(federation())
    house.target.log.clear()
    plan = await house.up(federation())
    assert plan.changes == ()
    assert house.asked("ensure") == house.asked("remove") == []


async def test_what_the_document_no_longer_has_goes_before_anything_starts(house: House) -> None:
    await house.up(federation(sites=3))
    house.target.log.clear()
    await house.up(federation(sites=2, security={"users": [{"name": "ada"}]}))
    verbs = [entry[0] for entry in house.target.log]
    assert verbs.index("remove") < verbs.index("ensure")
    assert house.asked("remove") == [["local-3/client-exec", "local-3/supernode"]]


async def test_a_site_that_comes_back_has_its_old_partition(house: House) -> None:
    await house.up(federation(sites=3))
    before = house.store.allotment("lab").partitions
    await house.up(federation(sites=1))
    await house.up(federation(sites=3))
    assert (
        house.store.allotment("lab").partitions
        == before
        == {
            "local-1": 0,
            "local-2": 1,
            "local-3": 2,
        }
    )


async def test_the_stage_of_the_sites_waits_for_the_hub(house: House) -> None:
    house.target.slow = {"hub/gate"}
    coming_up = asyncio.create_task(house.up(federation()))
    await house.heard["starting 2 units: gate, superlink"].wait()
    assert "starting 3 units: server-exec, supernode" not in house.said
    assert len(house.asked("ensure")) == 1
    house.target.slow = set()
    await coming_up
    assert len(house.asked("ensure")) == 3


async def test_a_plan_that_the_world_outran_is_refused(house: House) -> None:
    basis = (await house.engine.plan(federation(sites=1))).basis
    await house.up(federation(sites=2))
    house.target.log.clear()
    with pytest.raises(PlanOutdated):
        await house.up(federation(sites=1), basis)
    assert house.target.log == []


async def test_a_plan_that_still_holds_is_followed(house: House) -> None:
    basis = (await house.engine.plan(federation(sites=1))).basis
    await house.up(federation(sites=1), basis)
    assert "lab" in house.engine.known()


async def test_nothing_is_changed_when_nobody_can_look(house: House) -> None:
    await house.up(federation(sites=3))
    house.target.log.clear()
    house.target.blind = "no route"
    with pytest.raises(CannotLook, match="no route"):
        await house.up(federation(sites=1))
    assert house.target.log == []
    assert len(house.engine.known()["lab"].spec.groups) == 1
    assert house.engine.known()["lab"].spec.groups[0].sites == 3


async def test_a_blind_status_is_unknown_not_down(house: House) -> None:
    await house.up(federation(sites=1))
    house.target.blind = "no route"
    status = await house.engine.status("lab")
    assert status.phase == "Unknown"
    assert status.sites[0].state == "unknown"
    assert status.runs is None


@pytest.mark.parametrize("name", ["hub/superlink", "hub/gate", "hub/server-exec"])
async def test_a_hub_unit_that_ends_again_and_again_is_an_error(house: House, name: str) -> None:
    house.target.failing = {name: "ended with 3: port taken"}
    with pytest.raises(UnitFailed, match="port taken"):
        await house.up(federation())
    assert "lab" in house.engine.known()


async def test_a_site_that_fails_is_told_and_waited_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_TIMEOUT_S", 0.0)
    house.target.failing = {"local-1/supernode": "305"}
    house.flower.offline = {"local-1"}
    with pytest.raises(module.NotReady, match="not: local-1"):
        await house.up(federation())
    assert "local-1/supernode: 305" in house.said


async def test_what_the_target_refuses_reaches_the_caller_and_frees_the_lock(house: House) -> None:
    house.target.refuses = NoAnswer("disk full")
    with pytest.raises(NoAnswer):
        await house.up(federation())
    house.target.refuses = None
    await house.up(federation())
    assert (await house.engine.status("lab")).phase == "Ready"


async def test_going_down_interrupts_coming_up(house: House) -> None:
    house.flower.offline = {"local-1"}
    coming_up = asyncio.create_task(house.up(federation()))
    await house.heard["sites online: 1"].wait()
    assert (await house.engine.status("lab")).phase == "Progressing"
    await house.engine.down("lab", keep_data=False)
    with pytest.raises(Interrupted):
        await coming_up
    assert house.engine.known() == {}
    assert house.target.log[-1] == ("destroy", "lab", "all")


async def test_two_at_once_come_up_one_after_the_other(house: House) -> None:
    plans = await asyncio.gather(house.up(federation()), house.up(federation()))
    assert sorted(len(plan.changes) for plan in plans) == [0, 7]


async def test_federations_do_not_wait_for_each_other(house: House) -> None:
    house.flower.offline = {"local-1"}
    slow = asyncio.create_task(house.up(federation("slow")))
    await house.heard["sites online: 1"].wait()
    house.flower.offline = set()
    await house.up(federation("quick"))
    await slow


async def test_down_forgets_the_document_and_keeps_the_allotment_only_when_told(
    house: House,
) -> None:
    await house.up(federation())
    before = house.store.allotment("lab")
    await house.engine.down("lab", keep_data=True)
    assert house.engine.known() == {}
    assert house.store.allotment("lab") == before
    await house.up(federation())
    assert house.store.allotment("lab") == before
    await house.engine.down("lab", keep_data=False)
    assert house.store.allotment("lab").ports == {}


async def test_an_unknown_federation_is_told_with_the_known_ones(house: House) -> None:
    with pytest.raises(FederationUnknown, match="there is none yet"):
        await house.engine.status("nope")
    await house.up(federation("one"))
    for ask in (house.engine.status("nope"), house.engine.down("nope", keep_data=False)):
        with pytest.raises(FederationUnknown, match="there are: one"):
            await ask


async def test_a_target_of_the_future_is_refused_before_anything_happens(house: House) -> None:
    for document in (
        federation(groups=[{"name": "far", "on": "join"}]),
        federation(superlink={"on": "ocm"}),
    ):
        with pytest.raises(TargetNotHere):
            await house.up(document)
    assert house.target.log == []


async def test_another_flower_than_the_installed_one_is_refused(house: House) -> None:
    with pytest.raises(FlowerVersionDiffers):
        await house.up(federation(runtime={"flower": "1.39"}))
    assert house.target.log == []


async def test_a_status_names_doors_versions_sites_and_runs(house: House) -> None:
    await house.up(federation(sites=1))
    house.flower.listed = [run("7")]
    status = await house.engine.status("lab")
    assert status.phase == "Ready"
    assert status.endpoint == {
        "fleet": "127.0.0.1:20000",
        "control": "127.0.0.1:20001",
        "runtime": "127.0.0.1:20002",
    }
    assert set(status.versions) == {"umbel", "flower"}
    assert [(s.name, s.group, s.state, s.partition_id) for s in status.sites] == [
        ("local-1", "local", "online", 0)
    ]
    assert status.runs is not None
    assert [r.run_id for r in status.runs] == ["7"]


async def test_a_superlink_that_does_not_answer_leaves_nodes_and_runs_unknown(
    house: House,
) -> None:
    await house.up(federation(sites=1))
    house.flower.unreachable = NoAnswer("no answer in time")
    status = await house.engine.status("lab")
    assert status.phase == "Unknown"
    assert status.conditions[0].message == "no answer in time"
    assert status.runs is None


async def test_a_site_that_is_not_chosen_gets_nothing_and_says_why(house: House) -> None:
    sites = [{"name": "a", "labels": {"gpu": "true"}}, {"name": "b"}]
    selector = {"labelSelector": {"matchLabels": {"gpu": "true"}}}
    placement = {"predicates": [{"requiredClusterSelector": selector}]}
    groups = [{"name": "g", "sites": sites, "placement": placement}]
    await house.up(federation(groups=groups))
    started = [name for stage in house.asked("ensure") for name in stage]
    assert {name.partition("/")[0] for name in started} == {"hub", "a"}
    by_name = {s.name: s for s in (await house.engine.status("lab")).sites}
    assert by_name["a"].state == "online"
    assert by_name["b"].state == "not-chosen"
    assert by_name["b"].message


async def test_a_new_ca_is_refused_while_an_app_runs(house: House) -> None:
    await house.up(federation())
    house.flower.listed = [run("9", "running"), run("8")]
    house.target.log.clear()
    with pytest.raises(RunsActive, match="9"):
        await house.engine.rotate_authority(federation(), house.listen)
    assert house.target.log == []


async def test_a_new_ca_replaces_the_old_one_around_an_apply(house: House) -> None:
    await house.up(federation())
    house.target.log.clear()
    await house.engine.rotate_authority(federation(), house.listen)
    assert [entry[0] for entry in house.target.log] == ["rotate", "prepare", "end-rotation"]


async def test_a_port_that_somebody_else_took_is_replaced(house: House) -> None:
    house.target.lost = {"hub/gate"}
    house.target.failing = {"hub/gate": "U241 port taken"}
    await house.up(federation(sites=1))
    assert ("release", "hub/gate") in house.target.log
    assert (await house.engine.status("lab")).phase == "Ready"
