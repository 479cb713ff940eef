"""A federation's hub as processes on this machine: what a kubelet would make of the operator's objects."""

from __future__ import annotations

import base64
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from umbel.agent.pod import places
from umbel.agent.pod.places import Places
from umbel.files import ensure_private_folder, write_private
from umbel.kube import kinds
from umbel.kube.client import Kube
from umbel.kube.kinds import Kind, Object
from umbel.targets.ocm.names import Names

ROLES = ("superlink", "desk", "gate")
CONTAINERS = (*ROLES, "exec")


class Hub:
    """The SuperLink, the desk and the gate of one federation, on their usual ports of loopback."""

    def __init__(self, root: Path, names: Names) -> None:
        self._places = Places(root)
        self._names = names
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            process.wait(20)

    async def start(self, kube: Kube) -> bool:
        """Start everything if the operator has made what it takes; says whether it has."""
        names = self._names
        mounts = (
            (kinds.CONFIG_MAP, f"{names.name}-trust", places.TRUST),
            (kinds.CONFIG_MAP, names.hub, places.CONFIG),
            (kinds.SECRET, names.gate_secret, places.GATE),
            (kinds.SECRET, names.user_secret("owner"), places.OWNER),
            (kinds.STATEFUL_SET, names.hub, ""),
        )
        found = [(await kube.get(kind, n, names.namespace), kind, at) for kind, n, at in mounts]
        if any(content is None for content, _, _ in found):
            return False
        for content, kind, at in found:
            if at and content is not None:
                self._mount(content, kind, at)
        for role in ROLES:
            self._running.append(self._start(role))
        return True

    def _mount(self, content: Object, kind: Kind, at: str) -> None:
        folder = self._places.at(at)
        folder.mkdir(parents=True, exist_ok=True)
        ensure_private_folder(folder)
        for name, value in content["data"].items():
            text = base64.b64decode(value) if kind is kinds.SECRET else value.encode()
            write_private(folder / name, text)

    def _start(self, role: str) -> subprocess.Popen[bytes]:
        root = self._places.root
        root.joinpath("tmp").mkdir(parents=True, exist_ok=True)
        with (root / f"{role}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "umbel.agent.pod.roles", role],
                env={**os.environ, "UMBEL_POD_ROOT": str(root)},
                stdout=log,
                stderr=log,
            )

    @property
    def is_up(self) -> bool:
        """Whether the gate and the desk are there."""
        return self._places.desk_socket.exists() and self._places.superlink_socket.exists()

    async def show_pod(self, kube: Kube) -> None:
        """Have the pod that these processes stand for, ready."""
        names = self._names
        meta = {
            "name": f"{names.hub}-0",
            "namespace": names.namespace,
            "labels": names.labels("hub"),
        }
        containers = [{"name": name, "image": "umbel"} for name in CONTAINERS]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
        await kube.apply(pod | {"spec": {"containers": containers}})
        ready = [
            {
                "name": name,
                "ready": True,
                "image": "umbel",
                "imageID": "",
                "restartCount": 0,
                "state": {"running": {}},
            }
            for name in CONTAINERS
        ]
        conditions = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "containerStatuses": ready, "conditions": conditions}
        await kube.apply(pod | {"status": status}, status=True)

    def registered(self) -> int:
        """Count the nodes that the SuperLink has registered."""
        path = self._places.database
        if not path.exists():
            return 0
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            try:
                row = database.execute("SELECT count(*) FROM node").fetchone()
            except sqlite3.OperationalError:
                return 0
        return int(row[0])

    def all_online(self) -> None:
        """Have every node online for good, as its SuperNode's heartbeats would."""
        now = datetime.now(UTC)
        with sqlite3.connect(self._places.database, timeout=30) as database:
            database.execute(
                "UPDATE node SET status = 'online', online_until = ?, last_activated_at = ?",
                (now.timestamp() + 1e6, now.isoformat()),
            )
