"""Containers of one pod start in any order: what another one makes is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from umbel.errors import WorldError

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


def until(path: Path, is_there: Callable[[], bool]) -> None:
    """Return when it is there."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while not is_there():
        if time.monotonic() > deadline_s:
            raise PartMissing(path)
        time.sleep(_LOOK_AGAIN_S)
