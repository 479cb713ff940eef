"""From a document and its chosen sites to the units that must exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from umbel.model.federation import (
    OWNER,
    DeclaredSite,
    Federation,
    Group,
    Resources,
    Role,
    Target,
    TaskResources,
)
from umbel.model.kubernetes import POD_DATA, ClusterValues, HubOnKubernetes, SitesOnKubernetes
from umbel.model.site import Site, TaintSeen
from umbel.model.unit import HUB, Kind, Unit
from umbel.ports import Allotment

# Made once: a thousand sites have nothing of their own.
_USUAL, _PLAIN, _UNSAID = SitesOnKubernetes(), ClusterValues(), Resources()


def declared_sites(group: Group) -> tuple[DeclaredSite, ...]:
    """Name the sites of a local group: those declared, or GROUP-1, GROUP-2 and so on."""
    if group.on is not Target.LOCAL:
        return ()
    if isinstance(group.sites, int):
        return tuple(
            DeclaredSite(name=f"{group.name}-{number}") for number in range(1, group.sites + 1)
        )
    return group.sites


def as_site(declared: DeclaredSite, target: str) -> Site:
    """Describe a declared site as placement sees it."""
    return Site(
        name=declared.name,
        target=target,
        cluster_set=declared.cluster_set,
        labels=declared.labels,
        claims=declared.claims,
        taints=tuple(TaintSeen(t.key, t.value, t.effect) for t in declared.taints),
        allocatable_cpu=declared.allocatable.cpu or None,
        allocatable_memory=declared.allocatable.memory or None,
        capacity_cpu=declared.allocatable.cpu or None,
        capacity_memory=declared.allocatable.memory or None,
        gpu=declared.allocatable.gpu,
        scores=declared.scores,
    )


def users(federation: Federation) -> dict[str, str]:
    """List who may speak to the Control API: the owner, and those in the document."""
    listed = {user.name: str(user.role) for user in federation.spec.security.users}
    return {OWNER: str(Role.ADMIN), **listed}


def partition_count(group: Group, chosen: Collection[str], partitions: Mapping[str, int]) -> int:
    """Say how many partitions there are: as declared, else enough for the highest id in use."""
    highest = max((partitions[s] for s in chosen if s in partitions), default=-1)
    return max(group.data.partitions or 0, highest + 1)


def render(
    federation: Federation, chosen: Mapping[str, Collection[str]], allotment: Allotment
) -> dict[str, Unit]:
    """List the units that must exist, by name. `chosen` holds the sites of each group."""
    units = [*_hub(federation, allotment)]
    everybody = [site for sites in chosen.values() for site in sites]
    for group in federation.spec.groups:
        count = partition_count(group, everybody, allotment.partitions)
        for site in chosen.get(group.name, ()):
            units += _site(federation, group, site, count, allotment)
    return {unit.name: unit for unit in units}


def _hub(federation: Federation, allotment: Allotment) -> list[Unit]:
    spec, name = federation.spec, federation.name
    link = spec.superlink
    gate: dict[str, object] = {
        "endpoint": link.endpoint,
        "listen": link.listen,
        "names": sorted({link.endpoint, *link.alternative_names}),
        "ports": {door: allotment.ports.get(door, 0) for door in ("fleet", "control", "runtime")},
        "users": users(federation),
    }
    runtime = allotment.ports.get("runtime", 0)
    served = _exec(federation, runtime, spec.runtime.server_resources, Resources())
    if link.on is Target.OCM:
        pod = (link.kubernetes or HubOnKubernetes()).model_dump(mode="json")
        gate |= {"pod": pod, "image": spec.runtime.image.model_dump(mode="json")}
    return [
        Unit(name, HUB, Kind.SUPERLINK, {}),
        Unit(name, HUB, Kind.GATE, gate),
        Unit(name, HUB, Kind.SERVER_EXEC, served),
    ]


def _site(
    federation: Federation, group: Group, site: str, count: int, allotment: Allotment
) -> list[Unit]:
    config: dict[str, object] = {**group.data.node_config}
    if group.data.host_path is not None:
        config["data-path"] = group.data.host_path
    pod = _pod(federation, group, site)
    config |= pod.pop("node_config", {})
    if site in allotment.partitions:
        config |= {"partition-id": allotment.partitions[site], "num-partitions": count}
    port = allotment.ports.get(f"site/{site}", 0)
    supernode = {
        "group": group.name,
        "fleet": allotment.addresses.get("fleet")
        or f"{federation.spec.superlink.endpoint}:{allotment.ports.get('fleet', 0)}",
        "runtime_port": port,
        "node_config": config,
        **pod,
    }
    executor = _exec(federation, port, federation.spec.runtime.resources, _allocatable(group, site))
    return [
        Unit(federation.name, site, Kind.SUPERNODE, supernode),
        Unit(federation.name, site, Kind.CLIENT_EXEC, executor),
    ]


def _pod(federation: Federation, group: Group, site: str) -> dict[str, Any]:
    """Give what a site on Kubernetes has besides: its pod, and the path of its data there."""
    if group.on is not Target.OCM:
        return {}
    settings = group.kubernetes or _USUAL
    own = settings.clusters.get(site, _PLAIN)
    folder = own.host_path or group.data.host_path
    data = {"data-path": POD_DATA} if folder else {}
    shared = settings.model_dump(mode="json", exclude={"clusters", "rollout"})
    return {
        "node_config": {**data, **own.node_config},
        "pod": {
            **shared,
            **own.model_dump(mode="json", exclude_none=True, exclude={"node_config"}),
        },
        "data": folder,
        "image": federation.spec.runtime.image.model_dump(mode="json"),
    }


def _exec(
    federation: Federation, port: int, per_task: TaskResources, has: Resources
) -> dict[str, object]:
    runtime = federation.spec.runtime
    return {
        "runtime_port": port,
        "warm": runtime.exec == "warm",
        "task_timeout_s": runtime.task_timeout_seconds,
        "per_task": per_task.model_dump(),
        "has": {"cpu": has.cpu, "gpu": has.gpu},
        "wheels": runtime.wheels,
    }


def _allocatable(group: Group, site: str) -> Resources:
    found = (declared.allocatable for declared in declared_sites(group) if declared.name == site)
    return next(found, _UNSAID)
