"""A hub and its spokes as one thing: up, down, and what can be done to them meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from testbed import bringup, locks, relay
from testbed.api import Api, condition
from testbed.errors import BedError, NotUp
from testbed.fleet import Fleet
from testbed.kubelet import add_order
from testbed.layout import HUB, Layout, load, plan
from testbed.pods import network
from testbed.pods.clusters import RealNodes
from testbed.pods.commands import run
from testbed.pods.node import clean, load_images
from testbed.pods.plan import NodePlan, nodes_of
from testbed.processes import Processes, runs
from testbed.programs import program
from testbed.waiting import eventually

Tell = Callable[[str], None]
CLUSTER_API = "cluster.open-cluster-management.io/v1"


class NotOurs(BedError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds something else than a test bed: it is not touched",
            hint="name a folder of its own with --state",
        )


class Bed:
    """One test bed that was brought up; every command finds it again by its state folder."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.processes = Processes(layout.state)

    @classmethod
    def at(cls, state: Path) -> Bed:
        return cls(load(state))

    @classmethod
    def up(
        cls,
        state: Path,
        fleet: Fleet,
        tell: Tell,
        archives: Sequence[Path] = (),
        *,
        lasting: bool = True,
    ) -> Bed:
        """Start everything and wait until all clusters are Available.

        What an earlier test bed left in this folder is cleared first. If something fails, nothing
        keeps running; the logs stay. With images, every cluster has real nodes that have them.
        A bed that is not lasting may be cleared by anybody once this process is gone.
        """
        with locks.held(locks.of_state(state), f"the test bed in {state}"):
            _clear(state)
            if archives:
                take_nodes(state, lasting=lasting)
            bed = cls(plan(state, fleet.names, fleet.nodes if archives else {}))
            with ExitStack() as undo:
                undo.callback(bed.stop)
                real = RealNodes(bed.layout, bed.processes, archives) if archives else None
                bringup.bring_up(bed.layout, bed.processes, fleet, tell, real)
                undo.pop_all()
            if archives:
                bed.loaded.write_text(names_of(archives))
        return bed

    def stop(self) -> None:
        """End every process; agents and controllers before the API servers they speak to."""
        records = self.processes.all()
        for wave in (_is_client, _is_server, _is_store):
            self.processes.stop([record for record in records if wave(record.name)])
        state = self.layout.state
        if (state / "nodes").exists() and locks.has_nodes(state):
            clean(state)
            locks.give_nodes_back()

    def down(self) -> None:
        """End every process and remove every file."""
        clear(self.layout.state)

    def api(self, cluster: str = HUB) -> Api:
        """Open a client of the cluster's API server, with all rights."""
        return Api(self.layout.kubeconfig(cluster))

    def kubectl(self, cluster: str, *words: str) -> str:
        """Run kubectl on the cluster, with all rights; give what it printed."""
        kubeconfig = self.layout.kubeconfig(cluster)
        return run([str(program("kubectl")), f"--kubeconfig={kubeconfig}", *words])

    def nodes(self, cluster: str) -> list[NodePlan]:
        """Give the real nodes of the cluster; none where they are simulated."""
        return nodes_of(self.layout, cluster)

    def load(self, archives: Sequence[Path]) -> None:
        """Let every real node have these images; what it has already is not loaded again."""
        known = self.loaded.read_text().split() if self.loaded.exists() else []
        fresh = [path for path in archives if path.name not in known]
        if fresh:
            load_images(self.layout.state, fresh)
            self.loaded.write_text(names_of(archives))

    @property
    def loaded(self) -> Path:
        """The file that names what was loaded."""
        return self.layout.state / "nodes" / "images"

    def kill(self, name: str) -> None:
        self.processes.kill(name)

    def restart(self, name: str) -> None:
        self.processes.again(name)

    def cut(self, spoke: str) -> None:
        """Part the spoke's agent, its nodes and their pods from the hub and the hub's nodes."""
        self._change_link(spoke, cut=True)
        for node in self.nodes(spoke):
            network.part(node, self.nodes(HUB)[0].site, self.layout.clusters[HUB].api)

    def heal(self, spoke: str) -> None:
        """Join the spoke with the hub again, without delay."""
        self._change_link(spoke, cut=False, delay_ms=0)
        for node in self.nodes(spoke):
            network.join(node, self.nodes(HUB)[0].site, self.layout.clusters[HUB].api)

    def delay(self, spoke: str, milliseconds: float) -> None:
        """Let everything between the spoke's agent and the hub take so long, each way."""
        self._change_link(spoke, delay_ms=milliseconds)

    def behave(self, spoke: str, pattern: str, what: str) -> None:
        """Order the spoke's simulated pods whose namespace/name fits to behave so."""
        if spoke not in self.layout.spokes:
            raise NotUp(f"spoke {spoke}")
        try:
            add_order(self.layout.orders(spoke), pattern, what)
        except ValueError as error:
            raise BedError(str(error), hint="for example: oom=3") from error

    def available(self) -> dict[str, str]:
        """Tell for each cluster what the hub thinks of it."""
        with self.api() as hub:
            return {
                cluster["metadata"]["name"]: condition(cluster, "ManagedClusterConditionAvailable")
                for cluster in hub.list(CLUSTER_API, "ManagedCluster")
            }

    def _change_link(
        self, spoke: str, *, cut: bool | None = None, delay_ms: float | None = None
    ) -> None:
        """Write the new rules, tell the relay, wait until it says that they are in force."""
        if spoke not in self.layout.spokes:
            raise NotUp(f"spoke {spoke}")
        path = self.layout.rules
        rules = relay.read_rules(path).changed(spoke, cut=cut, delay_ms=delay_ms)
        relay.write_rules(path, rules)
        process = self.processes.record("relay")
        self.processes.assert_runs(process)
        os.kill(process.pid, signal.SIGHUP)
        wanted = f"{process.pid} {rules.generation}"
        eventually(
            f"the relay's obedience for {spoke}",
            lambda: relay.seen_file(path).read_text() == wanted,
            10,
        )


def names_of(archives: Sequence[Path]) -> str:
    return "\n".join(path.name for path in archives)


def take_nodes(state: Path, *, lasting: bool) -> None:
    """Have the nodes of this machine for the test bed there; what a crashed one left goes first."""
    former = locks.take_nodes(state, lasting=lasting)
    clean(state)  # nodes have one set of names on a machine
    if former:
        _clear(former)


def clear(state: Path) -> None:
    """End and remove what a test bed left in the folder, crashed or not."""
    with locks.held(locks.of_state(state), f"the test bed in {state}"):
        _clear(state)


def _clear(state: Path) -> None:
    if not state.exists() or not any(state.iterdir()):
        return
    if not (state / "layout.json").exists():
        raise NotOurs(state)
    Bed(Layout(state)).stop()
    shutil.rmtree(state)


def is_up(state: Path) -> bool:
    """Tell whether a test bed stands there with every process running."""
    records = Processes(state).all()
    return bool(records) and all(runs(record) for record in records)


def _is_server(name: str) -> bool:
    return name.endswith("-apiserver")


def _is_store(name: str) -> bool:
    return name == "etcd"


def _is_client(name: str) -> bool:
    return not _is_server(name) and not _is_store(name)
