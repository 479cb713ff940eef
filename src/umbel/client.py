"""The engine's verbs, over HTTP on the daemon's socket. Light: the standard library only.

What can be asked of any federation, here or far away, is a `Conversation`; `umbel.remote` has the other.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from umbel.errors import Relayed, UmbelError, WorldError
from umbel.files import CannotWrite, ensure_private_folder
from umbel.sockets import reachable

START_TIMEOUT_S = 30.0
Json = Any


class DaemonFailed(WorldError):
    """The daemon does not start or does not answer."""

    code = "U225"

    def __init__(self, why: str, log: Path) -> None:
        super().__init__(f"the Umbel daemon does not answer: {why}", hint=f"its log is {log}")


class NothingRuns(WorldError):
    """No daemon runs, so there is no federation to speak of."""

    code = "U226"

    def __init__(self) -> None:
        super().__init__("no federation runs here", hint="umbel up starts one")


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("umbel")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with reachable(self._path) as short:
            self.sock.connect(short)


class Conversation(ABC):
    """What a federation answers to, wherever it is."""

    @abstractmethod
    def _request(self, method: str, path: str, body: str | None = None) -> http.client.HTTPResponse:
        """Ask; gives an answer that is a success."""

    @abstractmethod
    def _broken(self, error: Exception) -> UmbelError:
        """Say what it means that the other side broke off."""

    @abstractmethod
    def _is_broken(self, error: UmbelError) -> bool:
        """Whether it may be well again if somebody answers."""

    @abstractmethod
    def _mend(self, error: UmbelError | None, tries: int) -> None:
        """Have somebody answer again, or raise."""

    @abstractmethod
    def run(self, name: str, app: Path, config: Mapping[str, Any]) -> Json:
        """Submit an app."""

    @abstractmethod
    def pull(self, name: str, run: str, into: Path) -> list[Path]:
        """Fetch what a run left into a folder; gives what was written."""

    def federations(self) -> list[Json]:
        """Give the declared documents."""
        found: list[Json] = self._call("GET", "/v1/federations")
        return found

    def status(self, name: str) -> Json:
        """Judge what is there now."""
        return self._call("GET", federation_path(name))

    def runs(self, name: str) -> list[Json]:
        """List the runs."""
        found: list[Json] = self._call("GET", federation_path(name) + "/runs")
        return found

    def get_run(self, name: str, run: str) -> Json:
        """Give one run."""
        return self._call("GET", run_path(name, run))

    def stop(self, name: str, run: str) -> Json:
        """Stop a run."""
        return self._call("POST", run_path(name, run) + "/stop")

    def logs(self, name: str, run: str, *, site: str, follow: bool) -> Iterator[Json]:
        """Give a run's log lines."""
        query = urlencode({"site": site, "follow": int(follow)})
        return self._stream("GET", f"{run_path(name, run)}/logs?{query}")

    def events(self, name: str, run: str) -> Iterator[Json]:
        """Give a run's events until it ends, each once, also if who tells is killed meanwhile."""
        seen: set[str] = set()
        ended, tries = False, 0
        while True:
            broken: UmbelError | None = None
            try:
                for item in self._stream("GET", run_path(name, run) + "/events"):
                    tries = 0
                    key = json.dumps(item, sort_keys=True)
                    if key not in seen:
                        seen.add(key)
                        yield item
                    ended = ended or item.get("status") in ("completed", "failed", "stopped")
            except UmbelError as error:
                if not self._is_broken(error):
                    raise
                broken = error
            if ended and broken is None:
                return
            self._mend(broken, tries)
            tries += 1

    def _call(self, method: str, path: str, body: str | None = None) -> Json:
        try:
            return json.loads(self._request(method, path, body).read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._broken(error) from error

    def _stream(self, method: str, path: str, body: str | None = None) -> Iterator[Json]:
        response = self._request(method, path, body)
        try:
            for line in response:
                if not line.strip():
                    continue  # only a sign of life
                item = json.loads(line)
                if "problem" in item:
                    raise Relayed(item["problem"])
                yield item
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(error) from error


class Client(Conversation):
    """Speaks to the daemon of one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._socket = home / "run" / "umbel.sock"
        self._log = home / "daemon.log"

    def running(self) -> bool:
        """Whether the daemon answers."""
        try:
            self._call("GET", "/v1/version")
        except (NothingRuns, DaemonFailed):
            return False
        return True

    def left_behind(self) -> bool:
        """Whether a daemon was killed: one that ends properly takes its socket with it."""
        return self._socket.exists()

    def pids(self) -> list[int]:
        """Give the processes that leave with the last federation: the daemon and the nursery."""
        found: list[int] = self._call("GET", "/v1/version")["pids"]
        return found

    def until_gone(self, pids: list[int], timeout_s: float = 5.0) -> None:
        """Wait for the daemon's processes to leave, unless there is a federation left."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            with contextlib.suppress(NothingRuns, DaemonFailed):
                if self.federations():
                    return
            if not any(Path(f"/proc/{pid}").exists() for pid in pids):
                return
            select.select([], [], [], 0.02)

    def start(self) -> None:
        """Have a daemon; many may ask at once, one starts."""
        if self.running():
            return
        ensure_private_folder(self.home / "run")
        process = self._spawn()
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self.running():
            code = process.poll()
            if code:
                raise self._why()
            if time.monotonic() > deadline_s:
                raise DaemonFailed(f"not ready after {START_TIMEOUT_S:g} s", self._log)
            select.select([], [], [], 0.01)

    def _spawn(self) -> subprocess.Popen[bytes]:
        try:
            fd = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise CannotWrite(self._log, error) from error
        with os.fdopen(fd, "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "umbel.server.daemon", str(self.home)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )

    def _why(self) -> WorldError | Relayed:
        """Read why the daemon ended: its last line is the error, if it had time to say so."""
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError:
            return DaemonFailed("it left no log", self._log)
        last = lines[-1] if lines else "it says nothing"
        try:
            return Relayed(json.loads(last))
        except (ValueError, AttributeError):
            return DaemonFailed(last, self._log)

    def plan(self, name: str, document: str) -> Json:
        """Say what up would do."""
        return self._call("POST", f"{federation_path(name)}/plan", document)

    def up(
        self, name: str, document: str, basis: str = "", *, rotate_ca: bool = False
    ) -> Iterator[Json]:
        """Make the world as declared; gives progress, then the result."""
        query = urlencode({"basis": basis, "rotate_ca": int(rotate_ca)})
        return self._stream("PUT", f"{federation_path(name)}?{query}", document)

    def scale(self, name: str, group: str, count: int) -> Iterator[Json]:
        """Change the number of sites of a group."""
        order = json.dumps({"group": group, "count": count})
        return self._stream("POST", f"{federation_path(name)}/scale", order)

    def down(self, name: str, *, keep_data: bool) -> Iterator[Json]:
        """End the federation."""
        query = urlencode({"keep_data": int(keep_data)})
        return self._stream("DELETE", f"{federation_path(name)}?{query}")

    def run(self, name: str, app: Path, config: Mapping[str, Any]) -> Json:
        """Submit an app."""
        order = json.dumps({"app": str(app), "config": dict(config)})
        return self._call("POST", f"{federation_path(name)}/runs", order)

    def files(self, name: str, run: str) -> list[str]:
        """List what a run left."""
        found: list[str] = self._call("GET", run_path(name, run) + "/files")
        return found

    def pull(self, name: str, run: str, into: Path) -> list[Path]:
        """Copy what a run left into a folder; gives what was written."""
        files = [Path(path) for path in self.files(name, run)]
        source = next(p for path in files for p in path.parents if p.name == run)
        written = []
        for path in files:
            goal = into / path.relative_to(source)
            try:
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, goal)
            except OSError as error:
                raise CannotWrite(goal, error) from error
            written.append(goal)
        return written

    def _request(self, method: str, path: str, body: str | None = None) -> http.client.HTTPResponse:
        connection = _Connection(self._socket)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise NothingRuns from None
        except (OSError, http.client.HTTPException) as error:
            raise DaemonFailed(str(error) or type(error).__name__, self._log) from error
        if response.status >= 400:  # noqa: PLR2004
            raise self._problem(response)
        return response

    def _problem(self, response: http.client.HTTPResponse) -> WorldError | Relayed:
        try:
            return Relayed(json.loads(response.read()))
        except ValueError:
            return DaemonFailed(f"answer {response.status}", self._log)

    def _broken(self, error: Exception) -> UmbelError:
        return DaemonFailed(str(error) or type(error).__name__, self._log)

    def _is_broken(self, error: UmbelError) -> bool:
        return isinstance(error, NothingRuns | DaemonFailed)

    def _mend(self, error: UmbelError | None, tries: int) -> None:  # noqa: ARG002
        self.start()


def federation_path(name: str) -> str:
    """Say where a federation is asked about."""
    return f"/v1/federations/{quote(name, safe='')}"


def run_path(name: str, run: str) -> str:
    """Say where a run is asked about."""
    return f"{federation_path(name)}/runs/{quote(run, safe='')}"
