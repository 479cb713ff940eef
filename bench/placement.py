"""Times placement from 100 to 100,000 sites and prints one JSON object.

No peer runs beside it: OCM's controller decides only on a Kubernetes API server. Its time for the
same number of clusters, measured elsewhere, stands in `reference_s`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from umbel.model.placement import Placement
from umbel.model.site import Site, TaintSeen, Verdict
from umbel.placement.engine import place

NOW_S = 1_750_000_000.0
OCM_10000_S = (1.2, 2.5)
SELECTORS = {
    "labelSelector": {
        "matchLabels": {"gpu": "true"},
        "matchExpressions": [{"key": "region", "operator": "In", "values": ["eu", "us"]}],
    },
    "claimSelector": {
        "matchExpressions": [{"key": "platform", "operator": "NotIn", "values": ["none"]}]
    },
}
TIERS = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["0", "1"]}]}
RICH = {
    "clusterSets": ["default", "edge"],
    "numberOfClusters": 1000,
    "predicates": [
        {"requiredClusterSelector": SELECTORS},
        {"requiredClusterSelector": {"labelSelector": TIERS}},
    ],
    "prioritizerPolicy": {
        "configurations": [
            {"scoreCoordinate": {"builtIn": "ResourceAllocatableMemory"}, "weight": 2},
            {
                "scoreCoordinate": {
                    "type": "AddOn",
                    "addOn": {"resourceName": "energy", "scoreName": "green"},
                },
                "weight": 3,
            },
        ]
    },
    "tolerations": [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60}],
}
SPREAD = {
    "spreadConstraints": [
        {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": "region"},
    ]
}
CEL = (
    "managedCluster.metadata.labels['gpu'] == 'true' && "
    "managedCluster.status.clusterClaims.exists(c, c.name == 'platform' && c.value != 'none')"
)
CEL_SELECTOR = {"celSelector": {"celExpressions": [CEL]}}
PLACEMENTS = {
    "place": RICH,
    "spread": {**RICH, "spreadPolicy": SPREAD},
    "cel": {**RICH, "predicates": [{"requiredClusterSelector": CEL_SELECTOR}]},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One measured case; stock_s and ratio are there for the tables that read every bench."""

    name: str
    umbel_s: float
    sites: int
    chosen: int
    microseconds_a_site: float
    runs: int
    stock_s: float | None = None
    ratio: float | None = None
    reference_s: tuple[float, float] | None = None
    note: str = ""


def fleet(number: int) -> list[Site]:
    """Make sites with labels, claims, taints, resources and scores, in no order."""
    dice = random.Random(number)  # noqa: S311  # a repeatable fleet, not a secret
    sites = [_site(index, dice) for index in range(number)]
    dice.shuffle(sites)
    return sites


def _site(index: int, dice: random.Random) -> Site:
    memory = dice.randrange(1, 1 << 36)
    return Site(
        name=f"site-{index:06d}",
        cluster_set=dice.choice(("default", "edge")),
        labels={
            "gpu": dice.choice(("true", "false")),
            "region": dice.choice(("eu", "us", "ap")),
            "zone": f"z{dice.randrange(12)}",
            "tier": str(dice.randrange(4)),
            **{f"team-{n}": str(n) for n in range(4)},
        },
        claims={
            "platform": dice.choice(("aws", "gcp", "none")),
            "kubeversion.open-cluster-management.io": f"v1.{dice.randrange(26, 34)}.0",
            "product": "hospital",
        },
        taints=(TaintSeen("maintenance"),) if dice.random() < 0.02 else (),
        allocatable_memory=memory,
        capacity_memory=1 << 36,
        scores={"energy/green": dice.randrange(-100, 101), "data/rows": dice.randrange(101)},
    )


def measure(kind: str, number: int, runs: int) -> Case:
    """Place a fleet some times over and keep the median time."""
    placement = Placement.model_validate(PLACEMENTS[kind])
    sites = fleet(number)
    previous = [site.name for site in sites[: number // 20]]
    load = {site.name: index % 7 for index, site in enumerate(sites)}
    seconds, verdicts = _median(
        lambda: place(placement, sites, now_s=NOW_S, previous=previous, load=load), runs
    )
    assert len(verdicts) == number
    is_reference = kind == "place" and number == 10_000
    return Case(
        name=f"{kind}_{number}_sites",
        umbel_s=round(seconds, 6),
        sites=number,
        chosen=sum(verdict.chosen for verdict in verdicts),
        microseconds_a_site=round(seconds / number * 1e6, 2),
        runs=runs,
        reference_s=OCM_10000_S if is_reference else None,
        note="reference_s: OCM's controller, 10,000 clusters, another run" if is_reference else "",
    )


def _median(work: Callable[[], Sequence[Verdict]], runs: int) -> tuple[float, Sequence[Verdict]]:
    times = []
    verdicts = work()
    for _ in range(runs):
        start = time.perf_counter()
        verdicts = work()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2], verdicts


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=100_000, help="the largest number of sites")
    most = parser.parse_args(arguments).most
    sizes = [size for size in (100, 1_000, 10_000, 100_000) if size <= most]
    cases = [measure("place", size, 3 if size >= 100_000 else 9) for size in sizes]
    cases += [measure(kind, min(most, 10_000), 5) for kind in ("spread", "cel")]
    print(json.dumps({"cases": [asdict(case) for case in cases]}, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
