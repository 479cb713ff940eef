"""Values for a cluster that is not used are told, and hinder nobody."""

from __future__ import annotations

from umbel.model.federation import Federation
from umbel.model.site import Verdict
from umbel.targets.ocm.obstacles import unused_values


def federation(*clusters: str) -> Federation:
    values = {"clusters": {name: {"hostPath": "/data"} for name in clusters}}
    group = {"name": "all", "on": "ocm", "kubernetes": values}
    spec = {"superlink": {"on": "ocm"}, "groups": [group, {"name": "rest", "on": "ocm"}]}
    return Federation.model_validate({"metadata": {"name": "lab"}, "spec": spec})


def test_a_slip_in_a_clusters_name_is_told() -> None:
    placed = {"all": (Verdict("berlin", True, ()), Verdict("boston", False, ()))}
    assert unused_values(federation("berlin"), placed) == []
    (said,) = unused_values(federation("berlin", "berln", "boston"), placed)
    assert (said.status, said.reason) == ("True", "SomeUnused")
    assert said.message.endswith("does not use: berln, boston")
    assert "kubectl get managedclusters" in said.hint


def test_many_of_them_are_not_all_named() -> None:
    (said,) = unused_values(federation(*(f"c{n}" for n in range(9))), {})
    assert said.message.endswith("c0, c1, c2, c3, c4 …")
