"""Which sites of a document are used, where we decide that ourselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from umbel.model.federation import Federation
from umbel.model.site import Site, Verdict
from umbel.placement.engine import place
from umbel.planning.render import declared_sites


def choose_sites(
    federation: Federation, sites: Mapping[str, Site], running: Collection[str], now_s: float
) -> dict[str, tuple[Verdict, ...]]:
    """Judge the declared sites of each group; `running` are those that are used already."""
    verdicts = {}
    for group in federation.spec.groups:
        own = [sites[declared.name] for declared in declared_sites(group)]
        verdicts[group.name] = place(
            group.placement, own, now_s=now_s, previous=set(running) & {s.name for s in own}
        )
    return verdicts
