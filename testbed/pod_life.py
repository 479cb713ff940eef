"""How a simulated pod lives: what its status should be, given its age and its orders. Pure."""

from __future__ import annotations

import datetime as dt
import fnmatch
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
ANNOTATION = "testbed.umbel.dev/behave"
RUN_SECONDS = 1.0  # of a pod that is meant to end
RESTART_SECONDS = 5.0


@dataclass(frozen=True)
class Behaviour:
    """What a pod was told to do: well, fail, slow=SECONDS, oom=SECONDS, never."""

    word: str = "well"
    seconds: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Behaviour:
        word, _, seconds = text.partition("=")
        if word not in {"well", "fail", "slow", "oom", "never"}:
            message = f"{word!r} is none of well, fail, slow=SECONDS, oom=SECONDS, never"
            raise ValueError(message)
        return cls(word, float(seconds or 0))


@dataclass(frozen=True)
class Order:
    """A behaviour for all pods whose namespace/name fits a pattern."""

    pattern: str
    behaviour: Behaviour


def behaviour_of(pod: Object, orders: Sequence[Order]) -> Behaviour:
    """Take the last order that fits; else what the pod's own annotation says."""
    meta = pod["metadata"]
    name = f"{meta['namespace']}/{meta['name']}"
    for order in reversed(orders):
        if fnmatch.fnmatch(name, order.pattern):
            return order.behaviour
    return Behaviour.parse(meta.get("annotations", {}).get(ANNOTATION, "well"))


def next_status(pod: Object, behaviour: Behaviour, now: dt.datetime) -> Object | None:
    """Give the status the pod should have now; nothing if it has it."""
    old = pod.get("status", {})
    if old.get("phase") in {"Succeeded", "Failed"}:
        return None
    started = old.get("startTime")
    age = (now - _read_time(started)).total_seconds() if started else 0.0
    phase, state, restarts, last = _stage(pod, behaviour, age)
    ready = "running" in state
    stamp = _stamp(now)
    new = {
        "phase": phase,
        "startTime": started or stamp,
        "podIP": _address(pod),
        "podIPs": [{"ip": _address(pod)}],
        "hostIP": "127.0.0.1",
        "conditions": _conditions(ready, stamp),
        "containerStatuses": [
            _container(c, state, restarts, last, started or stamp)
            for c in pod["spec"]["containers"]
        ],
    }
    return None if _essence(new) == _essence(old) else new


def _stage(pod: Object, behaviour: Behaviour, age: float) -> tuple[str, Object, int, Object]:
    """Give phase, container state, restarts and the state before."""
    ends = pod["spec"].get("restartPolicy", "Always") != "Always"
    match behaviour.word:
        case "never":
            return "Pending", {"waiting": {"reason": "ContainerCreating"}}, 0, {}
        case "slow" if age < behaviour.seconds:
            return "Pending", {"waiting": {"reason": "ContainerCreating"}}, 0, {}
        case "fail":
            return _ended(1, "Error", 1 + int(age // RESTART_SECONDS), ends)
        case "oom" if age >= behaviour.seconds:
            return _ended(137, "OOMKilled", 1, ends)
    if ends and age >= behaviour.seconds + RUN_SECONDS:
        return "Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}}, 0, {}
    return "Running", {"running": {}}, 0, {}


def _ended(code: int, reason: str, restarts: int, ends: bool) -> tuple[str, Object, int, Object]:
    gone = {"terminated": {"exitCode": code, "reason": reason}}
    if ends:
        return "Failed", gone, 0, {}
    crashed = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting"}}
    return "Running", crashed, restarts, gone


def _container(spec: Object, state: Object, restarts: int, last: Object, since: str) -> Object:
    shown = {"running": {"startedAt": since}} if "running" in state else state
    return {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": f"simulated://{spec['image']}",
        "ready": "running" in state,
        "started": "running" in state,
        "restartCount": restarts,
        "state": shown,
        "lastState": last,
    }


def _conditions(ready: bool, stamp: str) -> list[Object]:
    truth = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    return [
        {"type": kind, "status": str(holds), "lastTransitionTime": stamp}
        for kind, holds in truth.items()
    ]


def _essence(status: Object) -> Object:
    """Keep what a change of is worth a write; times are not."""
    return {
        "phase": status.get("phase"),
        "conditions": {c["type"]: c["status"] for c in status.get("conditions", [])},
        "containers": [
            (c["name"], c["ready"], c["restartCount"], *sorted(c.get("state", {})))
            for c in status.get("containerStatuses", [])
        ],
    }


def _address(pod: Object) -> str:
    number = zlib.crc32(str(pod["metadata"].get("uid", "")).encode())
    return f"10.200.{number >> 8 & 255}.{number & 253 | 1}"


def _read_time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _stamp(now: dt.datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
