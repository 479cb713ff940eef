"""Short calls into Flower, each made in a forked child of the nursery, where Flower is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from umbel.flower.control import Connection, Control
from umbel.flower.fleet import Fleet


def _connect(order: Mapping[str, Any]) -> Control:
    return Control(
        Connection(order["address"], Path(order["ca"]), Path(order["token_file"])),
    )


def nodes(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the SuperNodes."""
    return [asdict(node) for node in _connect(order).nodes()]


def look(order: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """List SuperNodes and runs in one conversation."""
    control = _connect(order)
    return {
        "nodes": [asdict(node) for node in control.nodes()],
        "runs": [asdict(run) for run in control.runs()],
    }


def enrol(order: Mapping[str, Any]) -> dict[str, int]:
    """Register each site's key under its name, once; gives the node ids by site."""
    control = _connect(order)
    known = {(node.name, node.fingerprint): node.node_id for node in control.nodes()}
    ids = {s["name"]: known.get((s["name"], s["fingerprint"]), 0) for s in order["sites"]}
    new = [(s["name"], s["public_pem"].encode()) for s in order["sites"] if not ids[s["name"]]]
    made = control.register_all(new) if new else []
    return ids | dict(zip((name for name, _ in new), made, strict=True))


def expel(order: Mapping[str, Any]) -> list[str]:
    """Unregister the sites with these fingerprints; gives the names of those that were there."""
    control = _connect(order)
    gone = [n for n in control.nodes() if n.fingerprint in set(order["fingerprints"])]
    for node in gone:
        control.unregister(node.node_id)
    return [node.name for node in gone]


def deactivate(order: Mapping[str, Any]) -> bool:
    """Sign a SuperNode off that cannot do so any more; False when it was not online."""
    fleet = Fleet(order["fleet"], Path(order["ca"]), Path(order["key"]))
    for node in _connect(order).nodes():
        if node.fingerprint == order["fingerprint"] and node.status == "online":
            fleet.deactivate(node.node_id)
            return True
    return False


def runs(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the runs."""
    return [asdict(run) for run in _connect(order).runs()]


def start(order: Mapping[str, Any]) -> dict[str, str]:
    """Build and submit an app."""
    run_id, app = _connect(order).start(Path(order["app"]), dict(order["config"]))
    return {"run_id": str(run_id), "app": app}


def stop(order: Mapping[str, Any]) -> bool:
    """Stop a run; False when it had ended already."""
    return _connect(order).stop(int(order["run_id"]))


ERRANDS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "nodes": nodes,
    "look": look,
    "enrol": enrol,
    "expel": expel,
    "deactivate": deactivate,
    "runs": runs,
    "start": start,
    "stop": stop,
}
