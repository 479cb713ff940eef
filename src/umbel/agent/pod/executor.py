"""The executor's container: a nursery for the parents of tasks, and the dispatcher."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from umbel.agent import nursery_process, processes
from umbel.agent.pod.waiting import until
from umbel.exec.dispatcher import Dispatcher
from umbel.exec.settings import from_json
from umbel.files import ensure_private_folder
from umbel.sockets import is_answered


def run(home: Path, settings: Mapping[str, Any], needs: Sequence[Path]) -> None:
    """Run tasks until told to stop; what the other containers make is waited for."""
    processes.become_subreaper()
    ensure_private_folder(home / "run")
    nursery = nursery_process.start(home)
    for path in needs:
        until(path, path.exists)
    socket = nursery_process.socket_path(home)
    until(socket, lambda: is_answered(socket))
    os.chdir(home)
    try:
        Dispatcher(from_json(settings)).run()
    finally:
        if nursery is not None:
            nursery.terminate()
