"""The executor's container: a nursery for the parents of tasks, and the dispatcher."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from umbel.agent import nursery_process, processes
from umbel.errors import WorldError
from umbel.exec.dispatcher import Dispatcher
from umbel.exec.settings import from_json
from umbel.files import ensure_private_folder
from umbel.sockets import is_answered

_LOOK_AGAIN_S = 0.1
_PATIENCE_S = 120.0


class PartMissing(WorldError):
    """A container of the pod did not leave what another needs."""

    code = "U251"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not there after {_PATIENCE_S:g} s: the container that makes it has not",
            hint="kubectl logs POD --all-containers tells why",
        )


def run(home: Path, settings: Mapping[str, Any], needs: Sequence[Path]) -> None:
    """Run tasks until told to stop; what the other containers make is waited for."""
    processes.become_subreaper()
    ensure_private_folder(home / "run")
    nursery = nursery_process.start(home)
    for path in needs:
        _until(path, path.exists)
    socket = nursery_process.socket_path(home)
    _until(socket, lambda: is_answered(socket))
    os.chdir(home)
    try:
        Dispatcher(from_json(settings)).run()
    finally:
        if nursery is not None:
            nursery.terminate()


def _until(path: Path, is_there: Any) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not is_there():
        if time.monotonic() > deadline_s:
            raise PartMissing(path)
        time.sleep(_LOOK_AGAIN_S)
