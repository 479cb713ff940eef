"""Builds of environments, each in a process of its own that the executor watches."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from umbel.errors import UmbelError
from umbel.exec.environments import BuildFailed, Environments, Recipe

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_ATTEMPTS = 2  # somebody killed the first
T = TypeVar("T")


@dataclass(slots=True)
class Build(Generic[T]):
    """A build that goes on, and who waits for it."""

    recipe: Recipe
    log: Path
    pid: int
    pidfd: int
    result: int  # a pipe
    began_s: float
    attempt: int = 1
    waiting: list[T] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Built:
    """How a build ended."""

    seconds: float
    failed: str = ""


class Builds(Generic[T]):
    """All builds of one executor: one a key."""

    def __init__(self, environments: Environments) -> None:
        self._environments = environments
        self._going: dict[str, Build[T]] = {}

    def fds(self) -> dict[int, str]:
        """Give what to wait for, by the key that it belongs to."""
        return {build.pidfd: key for key, build in self._going.items()}

    def waiting(self) -> list[T]:
        """List everybody who waits."""
        return [one for build in self._going.values() for one in build.waiting]

    def want(self, recipe: Recipe, log: Path, who: T) -> None:
        """Build, unless it is being built; `who` is given back when it is done."""
        build = self._going.get(recipe.key)
        if build is None:
            build = self._going[recipe.key] = self._begin(recipe, log)
        build.waiting.append(who)

    def leave(self, who: T) -> None:
        """Wait no longer; the build goes on, for it will be wanted again."""
        for build in self._going.values():
            if who in build.waiting:
                build.waiting.remove(who)

    def end(self, key: str) -> tuple[Built | None, list[T]]:
        """Take the result of a build whose process ended; None: it was killed and begins again."""
        build = self._going.pop(key)
        _end(build.pid)
        with os.fdopen(build.result, "rb") as pipe:
            told = pipe.read()
        os.close(build.pidfd)
        seconds = round(time.monotonic() - build.began_s, 3)
        if told:
            return Built(seconds, json.loads(told)["failed"]), build.waiting
        if build.attempt >= _ATTEMPTS:
            return Built(seconds, "the builder was killed"), build.waiting
        again = self._going[key] = self._begin(build.recipe, build.log)
        again.attempt, again.waiting = build.attempt + 1, build.waiting
        return None, []

    def stop(self) -> None:
        """End all builds; what they began is cleared away by the next."""
        for build in self._going.values():
            _end(build.pid)
        self._going.clear()

    def _begin(self, recipe: Recipe, log: Path) -> Build[T]:
        result, told = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become(parent, log, told, lambda: self._build(recipe, log))
        os.close(told)
        return Build(recipe, log, pid, os.pidfd_open(pid), result, time.monotonic())

    def _build(self, recipe: Recipe, log: Path) -> str:
        """Build and clear away what is superfluous; gives what went wrong."""
        try:
            with log.open("ab") as file:
                self._environments.build(recipe, file)
            self._environments.collect(sparing=recipe.key)
        except BuildFailed as error:
            return str(error)
        except (UmbelError, OSError) as error:
            return f"the environment cannot be written: {error}"
        return ""


def _end(pid: int) -> None:
    """End the builder with all that it started: packages may build themselves in processes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # it may not lead a group yet
    os.waitpid(pid, 0)


def _become(parent: int, log: Path, told: int, work: Callable[[], str]) -> NoReturn:
    """Be the builder's process, to its end."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            log.parent.mkdir(parents=True, exist_ok=True)
            os.dup2(told, 3)
            os.closerange(4, 4096)
            os.write(3, json.dumps({"failed": work()}).encode())
    finally:
        os._exit(0)
