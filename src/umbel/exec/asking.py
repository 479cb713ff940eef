"""Asks whether there is a task where nobody can poke us: a SuperNode in another pod."""

from __future__ import annotations

import contextlib
import threading

from umbel.exec.settings import ExecSettings
from umbel.flower.fast.poke import Poker
from umbel.flower.tasks import TaskSource, Unreachable


class Asking:
    """One question at a time, in the background; its answer is a poke. Claims nothing."""

    def __init__(self, settings: ExecSettings) -> None:
        self._settings = settings
        self._poke = Poker(settings.wake)
        self._wanted = threading.Event()
        threading.Thread(target=self._run, name="asking", daemon=True).start()

    def begin(self) -> None:
        """Ask: there was no task a moment ago."""
        self._wanted.set()

    def _run(self) -> None:
        settings = self._settings
        source = TaskSource(settings.address, settings.ca, settings.secret, settings.environment)
        while self._wanted.wait():
            self._wanted.clear()
            with contextlib.suppress(Unreachable):  # who is poked finds that out too, and retries
                source.wait()
            self._poke()
