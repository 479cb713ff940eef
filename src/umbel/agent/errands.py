"""Short calls into Flower, made where it is loaded: in a nursery's child, or at the desk."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from umbel.flower.control import Connection, Control, ControlRefused
from umbel.flower.fleet import Fleet


@contextmanager
def _connect(order: Mapping[str, Any]) -> Iterator[Control]:
    """Speak to the Control API while the block lasts."""
    connection = Connection(order["address"], Path(order["ca"]), Path(order["token_file"]))
    with closing(Control(connection)) as control:
        yield control


def nodes(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the SuperNodes."""
    with _connect(order) as control:
        return [asdict(node) for node in control.nodes()]


def look(order: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """List SuperNodes and runs in one conversation."""
    with _connect(order) as control:
        return {
            "nodes": [asdict(node) for node in control.nodes()],
            "runs": [asdict(run) for run in control.runs()],
        }


def enrol(order: Mapping[str, Any]) -> dict[str, int]:
    """Register each site's key under its name, once; gives the node ids by site."""
    with _connect(order) as control:
        known = {(node.name, node.fingerprint): node.node_id for node in control.nodes()}
        ids = {s["name"]: known.get((s["name"], s["fingerprint"]), 0) for s in order["sites"]}
        new = [(s["name"], s["public_pem"].encode()) for s in order["sites"] if not ids[s["name"]]]
        made = control.register_all(new) if new else []
    return ids | dict(zip((name for name, _ in new), made, strict=True))


def enrol_each(order: Mapping[str, Any]) -> dict[str, Any]:
    """Register new keys one by one; gives the node ids, and the reason for each that is refused."""
    ids: dict[str, int] = {}
    refused: dict[str, str] = {}
    with _connect(order) as control:
        for site in order["sites"]:
            try:
                ids[site["name"]] = control.register(site["public_pem"].encode(), site["name"])
            except ControlRefused as error:
                refused[site["name"]] = error.fact
    return {"ids": ids, "refused": refused}


def expel(order: Mapping[str, Any]) -> list[str]:
    """Unregister the sites with these fingerprints; gives the names of those that were there."""
    with _connect(order) as control:
        gone = [n for n in control.nodes() if n.fingerprint in set(order["fingerprints"])]
        for node in gone:
            control.unregister(node.node_id)
    return [node.name for node in gone]


def deactivate(order: Mapping[str, Any]) -> bool:
    """Sign a SuperNode off that cannot do so any more; False when it was not online."""
    fleet = Fleet(order["fleet"], Path(order["ca"]), Path(order["key"]))
    with _connect(order) as control:
        for node in control.nodes():
            if node.fingerprint == order["fingerprint"] and node.status == "online":
                fleet.deactivate(node.node_id)
                return True
    return False


def runs(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the runs."""
    with _connect(order) as control:
        return [asdict(run) for run in control.runs()]


def start(order: Mapping[str, Any]) -> dict[str, str]:
    """Build and submit an app."""
    with _connect(order) as control:
        run_id, app = control.start(Path(order["app"]), dict(order["config"]))
    return {"run_id": str(run_id), "app": app}


def submit(order: Mapping[str, Any]) -> dict[str, str]:
    """Submit an app that was built elsewhere; `fab` is its bundle in base64."""
    with _connect(order) as control:
        run_id, app = control.submit(b64decode(order["fab"]), dict(order["config"]))
    return {"run_id": str(run_id), "app": app}


def stop(order: Mapping[str, Any]) -> bool:
    """Stop a run; False when it had ended already."""
    with _connect(order) as control:
        return control.stop(int(order["run_id"]))


ERRANDS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "nodes": nodes,
    "look": look,
    "enrol": enrol,
    "enrol_each": enrol_each,
    "expel": expel,
    "deactivate": deactivate,
    "runs": runs,
    "start": start,
    "submit": submit,
    "stop": stop,
}
