"""What the operator costs on a hub with many managed clusters, beside OCM's own add-on machinery.

    PYTHONPATH=. python bench/operator_cost.py [--sizes 100 1000] [--rest 60] [--state FOLDER] > operator.json

The hub is real (Kubernetes and OCM of the test bed, each with its own client limits); the clusters are
objects only, and one process answers their works. Hub programs of the federation (SuperLink, gate,
desk) run as processes; SuperNodes are not run.

First OCM alone installs an add-on of the same objects on all clusters (Placements, one shared config):
the time until every ManifestWork exists is `stock_s`. Then a Federation is applied, and it is ours: until
every ManifestWork exists, and until every site is registered at the SuperLink. Writes are counted by the
operator and by the API server; at rest, every object's version is compared too. Rows that are no times
have their unit in the name and an `aim`. BENCH_PROFILE=FILE profiles the operator.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from testbed.api import Api
from testbed.bed import Bed
from testbed.fleet import of_size
from testbed.ports import free_ports

import operator_fleet as fleet
from operator_hub import Hub
from operator_looking import served, tell, until, versions, works
from operator_stock import stock
from umbel.kube import kinds
from umbel.kube.client import Kube
from umbel.model.federation import Federation
from umbel.targets.ocm.crd import federation_crd
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.rendering import resource

NAMES = Names("fl", "lab")
SETTLE_S = 15.0
Case = dict[str, Any]


@dataclass
class Found:
    """What one fleet showed."""

    size: int
    stock_works_s: float | None = None
    stock_served: Counter[str] = field(default_factory=Counter)  # by the API server, for OCM alone
    works_s: float = 0.0
    admitted_s: float = 0.0
    ready_s: float = 0.0
    written: Counter[str] = field(default_factory=Counter)  # by the operator, until at rest
    served: Counter[str] = field(default_factory=Counter)  # by the API server, in all
    memory_mib: float = 0.0
    cpu_s: float = 0.0
    rest_written: int = 0
    rest_changed: int = 0
    rest_served: Counter[str] = field(default_factory=Counter)
    rest_cpu_percent: float = 0.0
    looks: int = 0
    again_written: int = 0  # by an operator that starts anew
    again_memory_mib: float = 0.0


def document(size: int) -> Federation:
    """Declare a federation on every cluster of the bench."""
    chosen = {"requiredClusterSelector": {"labelSelector": {"matchLabels": fleet.LABEL}}}
    group = {
        "name": "all",
        "on": "ocm",
        "placement": {"predicates": [chosen]},
        "data": {"partitions": size},
    }
    link = {"on": "ocm", "endpoint": "localhost"}
    spec = {"superlink": link, "groups": [group]}
    meta = {"name": NAMES.name, "namespace": NAMES.namespace}
    return Federation.model_validate({"metadata": meta, "spec": spec})


class Operator:
    """The operator's own process."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        probes, self._metrics = free_ports(2)
        env = {
            **os.environ,
            "UMBEL_KUBECONFIG": str(kubeconfig),
            "UMBEL_DIAL": "endpoint",
            "UMBEL_BIND_CLUSTER_SETS": "*",
            "UMBEL_PROBES_PORT": str(probes),
            "UMBEL_METRICS_PORT": str(self._metrics),
        }
        command = [sys.executable, "-m", "umbel.operator"]
        if profile := os.environ.get("BENCH_PROFILE"):
            command[1:1] = ["-m", "cProfile", "-o", profile]
        with log.open("wb") as out:
            self._process = subprocess.Popen(command, env=env, stdout=out, stderr=out)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End it, and wait."""
        self._process.terminate()
        self._process.wait(20)

    def numbers(self) -> tuple[Counter[str], int]:
        """Give its writes by kind (the lease aside) and its looks."""
        url = f"http://127.0.0.1:{self._metrics}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:  # our own
            lines = answer.read().decode().splitlines()
        found: Counter[str] = Counter()
        looks = 0
        for line in lines:
            name, _, value = line.rpartition(" ")
            if name.startswith("umbel_operator_writes_total{"):
                found[name.partition('"')[2].rstrip('"}')] = int(value)
            elif name == "umbel_operator_looks_total":
                looks = int(value)
        del found["Lease"]
        return found, looks

    def cpu_s(self) -> float:
        """Give the processor time that it has used."""
        words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mib(self) -> float:
        """Give the most memory that it ever had."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024


@contextmanager
def klusterlets(kubeconfig: Path, log: Path) -> Iterator[None]:
    """Run the process that answers works."""
    command = [sys.executable, str(Path(fleet.__file__)), str(kubeconfig)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


async def ours(kube: Kube, api: Api, folder: Path, found: Found, rest_s: float) -> None:
    """Apply a Federation, watch it converge, watch it rest."""
    size = found.size
    operator = Operator(folder / "kubeconfig", folder / "operator.log")
    with operator, Hub(folder / f"hub-{size}", NAMES) as hub:
        await until("the operator", _leads(kube))
        before, began_s = served(api), time.monotonic()
        await kube.apply(resource(document(size)))
        starting = asyncio.create_task(_start(kube, hub))
        await until("works", works(kube, size))
        found.works_s = time.monotonic() - began_s
        tell(f"{size}: every work exists after {found.works_s:.1f} s")
        await until("registered", _registered(hub, size))
        found.admitted_s = time.monotonic() - began_s
        tell(f"{size}: every site is registered after {found.admitted_s:.1f} s")
        await starting
        hub.all_online()
        await until("Ready", _ready(kube))
        found.ready_s = time.monotonic() - began_s
        tell(f"{size}: Ready after {found.ready_s:.1f} s")
        await until("OCM to be at rest", _rests(api))
        found.written, found.looks = operator.numbers()
        found.served = served(api) - before
        found.cpu_s, found.memory_mib = operator.cpu_s(), operator.peak_mib()
        tell(f"{size}: {dict(found.written)} {found.looks} looks {found.cpu_s} s")
        await _rest(kube, api, operator, found, rest_s)
        operator.end()
        await _again(folder, found)


async def _again(folder: Path, found: Found) -> None:
    """Start the operator anew where everything is as wanted."""
    with Operator(folder / "kubeconfig", folder / "operator-again.log") as operator:
        await until("a look of the new operator", _looked(operator))
        await asyncio.sleep(SETTLE_S)
        found.again_written = operator.numbers()[0].total()
        found.again_memory_mib = operator.peak_mib()


async def _rest(kube: Kube, api: Api, operator: Operator, found: Found, rest_s: float) -> None:
    was = await versions(kube)
    written, cpu_s, before = operator.numbers()[0].total(), operator.cpu_s(), served(api)
    await asyncio.sleep(rest_s)
    found.rest_written = operator.numbers()[0].total() - written
    found.rest_cpu_percent = 100 * (operator.cpu_s() - cpu_s) / rest_s
    found.rest_served = served(api) - before
    now = await versions(kube)
    found.rest_changed = sum(was.get(key) != now.get(key) for key in was.keys() | now.keys())
    found.memory_mib = operator.peak_mib()


async def _start(kube: Kube, hub: Hub) -> None:
    async def started() -> bool:
        return await hub.start(kube)

    async def answers() -> bool:
        return hub.is_up

    await until("what the hub is made of", started)
    await until("the hub's programs", answers)
    await hub.show_pod(kube)
    tell("the hub is up")


def _registered(hub: Hub, size: int) -> Callable[[], Any]:
    async def there() -> bool:
        return hub.registered() >= size

    return there


def _leads(kube: Kube) -> Callable[[], Any]:
    async def leads() -> bool:
        return await kube.get(kinds.LEASE, "umbel-operator", "umbel-system") is not None

    return leads


def _rests(api: Api) -> Callable[[], Any]:
    """Say when nobody has changed anything of the federation for a while."""
    last = [(-1, time.monotonic())]

    async def rests() -> bool:
        seen = served(api)
        total = sum(count for kind, count in seen.items() if kind.startswith(("managed", "mani")))
        if total != last[0][0]:
            last[0] = (total, time.monotonic())
        return time.monotonic() - last[0][1] > SETTLE_S

    return rests


def _looked(operator: Operator) -> Callable[[], Any]:
    async def looked() -> bool:
        try:
            return operator.numbers()[1] > 0
        except OSError:
            return False

    return looked


def _ready(kube: Kube) -> Callable[[], Any]:
    async def ready() -> bool:
        found = await kube.get(kinds.FEDERATION, NAMES.name, NAMES.namespace)
        return bool(found and found.get("status", {}).get("phase") == "Ready")

    return ready


def measure(folder: Path, size: int, chosen: argparse.Namespace) -> Found:
    """Bring a hub up with so many clusters, and watch both."""
    folder.mkdir(parents=True, exist_ok=True)
    bed = Bed.up(folder / "bed", of_size(1), tell)
    try:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(bed.layout.kubeconfig("hub").read_text())
        # Fake clusters have no lease: the controller that looks for it would call them lost.
        # The one real cluster, which a test bed must have, is not needed any more.
        idle = [r for r in bed.processes.all() if r.name.startswith(("cluster1-", "hub-registr"))]
        bed.processes.stop(idle)
        with bed.api() as api, klusterlets(kubeconfig, folder / "klusterlets.log"):
            for name in (NAMES.namespace, "umbel-system"):
                api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            api.apply(federation_crd())
            found = Found(size)
            asyncio.run(both(api, folder, found, chosen))
            return found
    finally:
        bed.down()


async def both(api: Api, folder: Path, found: Found, chosen: argparse.Namespace) -> None:
    """Make the clusters; let OCM alone, then the operator, do its work on them."""
    async with fleet.unlimited(folder / "kubeconfig") as kube:
        began_s = time.monotonic()
        await fleet.create(kube, found.size)
        tell(f"{found.size} clusters created in {time.monotonic() - began_s:.1f} s")
        if chosen.stock:
            peer = await stock(kube, api, document(found.size), found.size)
            found.stock_works_s, found.stock_served = peer
        await ours(kube, api, folder, found, chosen.rest)


def cases(found: Found) -> list[Case]:
    """Tell what one fleet showed."""
    size = found.size
    name = f"operator_{size}_clusters"
    stock_s, writes = found.stock_works_s, found.written
    each = (writes["AddOnDeploymentConfig"] + writes["ManagedClusterAddOn"]) / size
    return [
        _case(f"{name}_until_works_exist", found.works_s, stock_s),
        _case(f"{name}_until_registered", found.admitted_s),
        _case(f"{name}_until_ready", found.ready_s),
        _case(f"{name}_writes_a_cluster", each, aim=2, by_kind=dict(writes)),
        _case(
            f"{name}_all_writes_on_the_hub_a_cluster",
            found.served.total() / size,
            stock_writes=round(found.stock_served.total() / size, 3),
            by_resource=dict(found.served.most_common(12)),
        ),
        _case(
            f"{name}_writes_at_rest",
            found.rest_written,
            aim=0,
            changed_objects=found.rest_changed,
            by_resource=dict(found.rest_served),
        ),
        _case(f"{name}_memory_mib", found.memory_mib, aim=200),
        _case(f"{name}_writes_after_a_restart", found.again_written, aim=0),
        _case(f"{name}_memory_mib_after_a_restart", found.again_memory_mib, aim=200),
        _case(f"{name}_cpu_s_until_ready", found.cpu_s, looks=found.looks),
        _case(f"{name}_cpu_percent_at_rest", found.rest_cpu_percent),
    ]


def _case(name: str, value: float, stock_s: float | None = None, **more: Any) -> Case:
    ratio = round(stock_s / value, 2) if stock_s and value else None
    told = round(stock_s, 3) if stock_s is not None else None
    return {"name": name, "umbel_s": round(value, 3), "stock_s": told, "ratio": ratio, **more}


def growth(all_found: list[Found]) -> list[Case]:
    """Compare the smallest and the largest fleet: 1 is linear."""
    small, large = min(all_found, key=_size), max(all_found, key=_size)
    if small is large:
        return []
    times = large.size / small.size
    name = f"operator_growth_{small.size}_to_{large.size}_clusters"
    theirs = None
    if small.stock_works_s and large.stock_works_s:
        theirs = large.stock_works_s / small.stock_works_s / times
    ours_grow = large.works_s / small.works_s / times
    return [
        _case(f"{name}_time_over_linear", ours_grow, theirs, aim=1),
        _case(f"{name}_cpu_over_linear", large.cpu_s / small.cpu_s / times, aim=1),
    ]


def _size(found: Found) -> int:
    return found.size


def main() -> None:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rest", type=float, default=60.0, help="seconds to watch at rest")
    parser.add_argument("--state", type=Path, help="where everything is kept, to look at it later")
    parser.add_argument("--no-stock", dest="stock", action="store_false")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started ends with us
    with tempfile.TemporaryDirectory() as text:
        root = chosen.state or Path(text)
        found = [measure(root / str(size), size, chosen) for size in chosen.sizes]
    print(json.dumps({"cases": [c for f in found for c in cases(f)] + growth(found)}, indent=1))


if __name__ == "__main__":
    main()
