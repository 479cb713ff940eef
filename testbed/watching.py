"""Programs of ours that keep something in a cluster as it should be: list, do, wait for a change."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx

from testbed.api import Api, Object
from testbed.errors import BedError

REST_SECONDS = 1.0


@dataclass(frozen=True)
class Watch:
    """One list of one cluster, and what to do whenever it has changed. To do it twice is harmless."""

    kubeconfig: Path
    path: str
    work: Callable[[Api, list[Object]], None]


def tend(watches: Iterable[Watch]) -> None:
    """Do all of it, each in a thread, until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.excepthook = _fatal
    for watch in watches:
        threading.Thread(target=_follow, args=(watch,), daemon=True).start()
    ended.wait()
    os._exit(0)  # threads wait for answers that may come in minutes


def _fatal(seen: threading.ExceptHookArgs) -> None:
    """End the whole program with a thread that has a bug: a half that works would hide it."""
    sys.excepthook(seen.exc_type, seen.exc_value or seen.exc_type(), seen.exc_traceback)
    os._exit(1)


def _follow(watch: Watch) -> None:
    """Look, work, wait for a change; an API server that is away is asked again."""
    rest = threading.Event()
    with Api(watch.kubeconfig) as api:
        while True:
            try:
                seen = api.request("GET", watch.path)
                watch.work(api, seen["items"])
                api.await_change(watch.path, seen["metadata"]["resourceVersion"])
            except (httpx.TransportError, BedError) as error:
                print(f"{watch.path}: {error!r}", file=sys.stderr, flush=True)  # noqa: T201  # its log
                rest.wait(REST_SECONDS)
