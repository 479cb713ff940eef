"""Events: what `kubectl describe` shows under a federation."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from datetime import UTC, datetime

from umbel.errors import UmbelError
from umbel.kube.client import Kube
from umbel.kube.kinds import Object

log = logging.getLogger("umbel.operator")


class Events:
    """Written in the background: an event that is lost changes nothing."""

    def __init__(self, kube: Kube, instance: str) -> None:
        self._kube = kube
        self._instance = instance
        self._said: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, about: Object, reason: str, message: str) -> None:
        """Say something good, once until something else is said."""
        self._say(about, "Normal", reason, message)

    def warn(self, about: Object, reason: str, message: str) -> None:
        """Say something bad, once until something else is said."""
        self._say(about, "Warning", reason, message)

    def _say(self, about: Object, kind: str, reason: str, message: str) -> None:
        meta = about["metadata"]
        log.info("%s/%s: %s: %s", meta["namespace"], meta["name"], reason, message)
        text = f"{kind} {reason} {message}"
        if self._said.get(meta["uid"]) == text:
            return
        self._said[meta["uid"]] = text
        task = asyncio.create_task(self._write(about, kind, reason, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, about: Object, kind: str, reason: str, message: str) -> None:
        meta, now = about["metadata"], datetime.now(UTC)
        mark = hashlib.sha256(f"{reason}{message}{now.timestamp()}".encode()).hexdigest()[:10]
        stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{meta['name']}.{mark}", "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message[:1000],
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "source": {"component": "umbel-operator"},
            "reportingComponent": "umbel.dev/operator",
            "reportingInstance": self._instance,
        }
        try:
            await self._kube.create(event)
        except UmbelError as error:
            log.info("an event is lost: %s", error)
