from __future__ import annotations

from typing import Any

from umbel.model.federation import DeclaredSite, Federation, Group
from umbel.model.unit import Kind, Unit
from umbel.planning import render
from umbel.ports import Allotment
from umbel.testing import federation

PORTS = {"fleet": 1, "control": 2, "runtime": 3, "site/local-1": 4, "site/local-2": 5}
GIVEN = Allotment(PORTS, {"local-1": 0, "local-2": 1})


def rendered(document: Federation, given: Allotment = GIVEN) -> dict[str, Unit]:
    chosen = {g.name: [s.name for s in render.declared_sites(g)] for g in document.spec.groups}
    return render.render(document, chosen, given)


def node_config(units: dict[str, Unit], site: str) -> Any:
    return units[f"{site}/supernode"].settings["node_config"]


def test_a_number_of_sites_is_named_after_its_group() -> None:
    assert [s.name for s in render.declared_sites(Group(name="gpu", sites=3))] == [
        "gpu-1",
        "gpu-2",
        "gpu-3",
    ]
    assert render.declared_sites(Group(name="gpu", sites=0)) == ()


def test_a_hub_has_three_units_and_each_site_two() -> None:
    units = rendered(federation(sites=2))
    assert sorted(units) == [
        "hub/gate",
        "hub/server-exec",
        "hub/superlink",
        "local-1/client-exec",
        "local-1/supernode",
        "local-2/client-exec",
        "local-2/supernode",
    ]
    assert all(name == unit.name for name, unit in units.items())


def test_a_site_that_is_not_chosen_has_no_units() -> None:
    units = render.render(federation(sites=2), {"local": ["local-2"]}, GIVEN)
    assert {unit.site for unit in units.values()} == {"hub", "local-2"}


def test_each_unit_gets_the_ports_that_were_allotted() -> None:
    units = rendered(federation(sites=2))
    assert units["hub/gate"].settings["ports"] == {"fleet": 1, "control": 2, "runtime": 3}
    assert units["hub/server-exec"].settings["runtime_port"] == 3
    assert units["local-2/supernode"].settings["fleet"] == "127.0.0.1:1"
    assert units["local-2/supernode"].settings["runtime_port"] == 5
    assert units["local-2/client-exec"].settings["runtime_port"] == 5


def test_a_site_is_told_its_partition_and_how_many_there_are() -> None:
    units = rendered(federation(sites=2))
    assert node_config(units, "local-1") == {"partition-id": 0, "num-partitions": 2}
    assert node_config(units, "local-2") == {"partition-id": 1, "num-partitions": 2}


def test_the_number_of_partitions_covers_the_highest_id_in_use() -> None:
    sticky = Allotment(PORTS, {"local-1": 0, "local-2": 6, "gone": 9})
    units = rendered(federation(sites=2), sticky)
    assert node_config(units, "local-1")["num-partitions"] == 7


def test_a_declared_number_of_partitions_holds_until_there_are_more_sites() -> None:
    groups = [{"name": "local", "sites": 2, "data": {"partitions": 5}}]
    assert node_config(rendered(federation(groups=groups)), "local-1")["num-partitions"] == 5
    sticky = Allotment(PORTS, {"local-1": 0, "local-2": 6})
    units = rendered(federation(groups=groups), sticky)
    assert node_config(units, "local-1")["num-partitions"] == 7


def test_partitions_are_counted_over_all_groups() -> None:
    groups = [{"name": "a", "sites": 1}, {"name": "b", "sites": 1}]
    units = rendered(federation(groups=groups), Allotment({}, {"a-1": 0, "b-1": 1}))
    assert node_config(units, "a-1") == {"partition-id": 0, "num-partitions": 2}
    assert node_config(units, "b-1") == {"partition-id": 1, "num-partitions": 2}


def test_a_groups_data_reaches_its_node_config_but_not_over_the_partition() -> None:
    data = {"hostPath": "/data/ct", "nodeConfig": {"batch": 8, "partition-id": 77}}
    units = rendered(federation(groups=[{"name": "local", "sites": 1, "data": data}]))
    assert node_config(units, "local-1") == {
        "batch": 8,
        "data-path": "/data/ct",
        "partition-id": 0,
        "num-partitions": 1,
    }


def test_a_site_without_an_allotment_yet_is_rendered_all_the_same() -> None:
    units = rendered(federation(sites=1), Allotment())
    assert node_config(units, "local-1") == {}
    assert units["local-1/supernode"].settings["runtime_port"] == 0


def test_the_owner_is_an_admin_beside_those_in_the_document() -> None:
    users = [{"name": "ada", "role": "operator"}, {"name": "bob"}]
    document = federation(security={"users": users})
    assert render.users(document) == {"owner": "admin", "ada": "operator", "bob": "viewer"}
    assert rendered(document)["hub/gate"].settings["users"] == render.users(document)


def test_a_new_user_changes_the_gate_and_nothing_else() -> None:
    before = rendered(federation())
    after = rendered(federation(security={"users": [{"name": "ada"}]}))
    assert [n for n, u in before.items() if u.fingerprint != after[n].fingerprint] == ["hub/gate"]


def test_the_runtime_section_changes_the_executors_and_nothing_else() -> None:
    before = rendered(federation(sites=1))
    after = rendered(federation(sites=1, runtime={"exec": "fresh", "taskTimeoutSeconds": 60}))
    assert [n for n, u in before.items() if u.fingerprint != after[n].fingerprint] == [
        "hub/server-exec",
        "local-1/client-exec",
    ]
    assert after["hub/server-exec"].settings == {
        "runtime_port": 3,
        "warm": False,
        "task_timeout_s": 60,
        "per_task": {"cpu": 0, "memory": 0, "gpu": 0},
        "has": {"cpu": 0, "gpu": 0},
        "wheels": None,
    }


def test_limits_are_of_the_task_and_the_site_that_they_are_declared_for() -> None:
    site = {"name": "berlin", "allocatable": {"cpu": 4, "gpu": 2}}
    runtime = {"resources": {"cpu": 2, "memory": 64}, "serverResources": {"memory": 128}}
    document = federation(groups=[{"name": "a", "sites": [site]}], runtime=runtime)
    units = rendered(document)
    client, server = units["berlin/client-exec"].settings, units["hub/server-exec"].settings
    assert client["per_task"] == {"cpu": 2, "memory": 64, "gpu": 0}
    assert client["has"] == {"cpu": 4, "gpu": 2}
    assert server["per_task"] == {"cpu": 0, "memory": 128, "gpu": 0}
    assert server["has"] == {"cpu": 0, "gpu": 0}


def test_no_unit_holds_a_secret() -> None:
    users = [{"name": "ada", "role": "operator"}]
    document = federation(security={"users": users, "caKey": {"passphraseFile": "/run/secret"}})
    for unit in rendered(document).values():
        assert "/run/secret" not in repr(unit.settings)


def test_placement_sees_a_declared_site_as_it_describes_itself() -> None:
    declared = DeclaredSite.model_validate(
        {
            "name": "berlin",
            "labels": {"gpu": "true"},
            "claims": {"id.k8s.io": "b"},
            "taints": [{"key": "slow", "effect": "PreferNoSelect"}],
            "clusterSet": "eu",
            "allocatable": {"cpu": 4, "memory": 8, "gpu": 1},
            "scores": {"quality/data": 7},
        }
    )
    site = render.as_site(declared, "local")
    assert (site.name, site.target, site.cluster_set, site.gpu) == ("berlin", "local", "eu", 1)
    assert (site.labels, site.claims, site.scores) == (
        {"gpu": "true"},
        {"id.k8s.io": "b"},
        {"quality/data": 7},
    )
    assert [(t.key, str(t.effect)) for t in site.taints] == [("slow", "PreferNoSelect")]
    assert (site.allocatable_cpu, site.allocatable_memory) == (4, 8)


def test_every_kind_is_rendered() -> None:
    assert {unit.kind for unit in rendered(federation(sites=1)).values()} == set(Kind)
