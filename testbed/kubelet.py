"""A simulated node of one cluster: takes every pod and walks it through its life.

No container runs. A pod becomes Ready at the next look unless its annotation or an order in the
cluster's order file says otherwise. With `--pods` real kubelets take this program's place.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import sys
import threading
from pathlib import Path

import httpx

from testbed.api import NOT_FOUND, Api, Object, Refused
from testbed.pod_life import Behaviour, Order, behaviour_of, next_status

LOOK_SECONDS = 0.5
CAPACITY = {"cpu": "8", "memory": "16Gi", "pods": "110"}
ALREADY_BOUND = 409
STRATEGIC = "application/strategic-merge-patch+json"


def read_orders(path: Path) -> list[Order]:
    """Read the orders; no file, no orders."""
    try:
        said = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    return [Order(one["pattern"], Behaviour.parse(one["behave"])) for one in said]


def add_order(path: Path, pattern: str, behave: str) -> None:
    """Add an order behind the others, where it wins."""
    Behaviour.parse(behave)
    known = json.loads(path.read_text()) if path.exists() else []
    kept = [one for one in known if one["pattern"] != pattern]
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps([*kept, {"pattern": pattern, "behave": behave}]))
    beside.replace(path)


def register(api: Api, node: str, capacity: dict[str, str]) -> None:
    """Make the node exist, be ready and take pods."""
    has = {**CAPACITY, **capacity}
    head: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    api.apply(head)
    ready = {"type": "Ready", "status": "True", "reason": "Simulated", "message": "no container"}
    api.apply({**head, "status": _node_status(has, ready)}, status=True)
    api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": None}})


def _node_status(has: dict[str, str], ready: dict[str, str]) -> Object:
    return {
        "capacity": has,
        "allocatable": has,
        "conditions": [ready],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
    }


def look(api: Api, node: str, orders: list[Order], now: dt.datetime) -> None:
    """Do for every pod what it needs now."""
    for pod in api.request("GET", "/api/v1/pods")["items"]:
        try:
            tend(api, node, pod, orders, now)
        except Refused as error:
            if error.status not in {NOT_FOUND, ALREADY_BOUND}:  # gone or bound meanwhile
                raise


def tend(api: Api, node: str, pod: Object, orders: list[Order], now: dt.datetime) -> None:
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    if meta.get("deletionTimestamp"):
        api.request("DELETE", path, {"gracePeriodSeconds": 0}, Content_Type="application/json")
        return
    if not pod["spec"].get("nodeName"):
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}}
        api.request(
            "POST",
            f"{path}/binding",
            {**binding, "target": target},
            Content_Type="application/json",
        )
    if status := next_status(pod, behaviour_of(pod, orders), now):
        api.request("PATCH", f"{path}/status", {"status": status}, Content_Type=STRATEGIC)


def main(kubeconfig: Path, node: str, orders: Path, capacity: str) -> None:
    """Tend the pods until SIGTERM; an API server that is away is asked again."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with Api(kubeconfig) as api:
        registered = False
        while not ended.wait(LOOK_SECONDS):
            try:
                if not registered:
                    register(api, node, json.loads(capacity))
                    registered = True
                look(api, node, read_orders(orders), dt.datetime.now(dt.UTC))
            except (httpx.TransportError, Refused) as error:
                sys.stderr.write(f"{error}\n")
                sys.stderr.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4])
