"""The same objects on the same clusters by OCM's own means: Placements and one shared config."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from testbed.api import Api

from operator_looking import count, served, tell, until, works
from umbel.kube import kinds
from umbel.kube.client import Kube
from umbel.kube.kinds import Object
from umbel.model.federation import Federation
from umbel.targets.ocm import choosing, sites
from umbel.targets.ocm.names import Names

STOCK = Names("fl", "stock")
SETTLE_S = 15.0


async def stock(
    kube: Kube, api: Api, federation: Federation, size: int
) -> tuple[float, Counter[str]]:
    """Let OCM do it by itself; gives how long until every work exists, and the writes of all."""
    group = federation.spec.groups[0]
    made = sites.template(sites.Version(federation, STOCK, group, "umbel", "-"))
    placement = choosing.placement(STOCK, group)
    await kube.create(choosing.binding(STOCK, "global"))
    await kube.apply(placement)
    variables = [{"name": f"NODE_{n}", "value": ""} for n in range(sites.PIECES)]
    shared = {"name": "stock", "namespace": STOCK.namespace}
    await kube.apply(
        {
            "apiVersion": sites.ADDON_API,
            "kind": "AddOnDeploymentConfig",
            "metadata": shared,
            "spec": {"agentInstallNamespace": "", "customizedVariables": variables},
        }
    )
    await kube.apply(made)
    before, began_s = served(api), time.monotonic()
    await kube.apply(_stock_addon(made["metadata"]["name"], placement, shared))

    await until("works by OCM alone", works(kube, size))
    took_s = time.monotonic() - began_s
    await asyncio.sleep(SETTLE_S)
    writes = served(api) - before
    tell(f"{size}: OCM alone took {took_s:.1f} s {dict(writes.most_common(6))}")
    await _remove_stock(kube, made["metadata"]["name"], placement["metadata"]["name"])
    return took_s, writes


def _stock_addon(template: str, placement: Object, shared: Object) -> Object:
    addon = sites.addon(STOCK, template, {})
    configs = [
        {"group": sites.ADDON_GROUP, "resource": "addontemplates", "name": template},
        {"group": sites.ADDON_GROUP, "resource": "addondeploymentconfigs", **shared},
    ]
    where = {key: placement["metadata"][key] for key in ("name", "namespace")}
    strategy = {"type": "Placements", "placements": [{**where, "configs": configs}]}
    addon["spec"]["installStrategy"] = strategy
    return addon


async def _remove_stock(kube: Kube, template: str, placement: str) -> None:
    await kube.delete(kinds.ADDON, STOCK.addon)

    async def gone() -> bool:
        return await count(kube, kinds.WORK) + await count(kube, kinds.INSTALLED) == 0

    await until("OCM's own add-on to be gone", gone)
    await kube.delete(kinds.TEMPLATE, template)
    await kube.delete(kinds.PLACEMENT, placement, STOCK.namespace)
    await kube.delete(kinds.ADDON_CONFIG, "stock", STOCK.namespace)
