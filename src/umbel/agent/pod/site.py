"""The agent of a site: makes its key, shows the public half, keeps its SuperNode, reports.

The key lives in a Secret of the site's own cluster and in this container's memory; only the public
half is shown, in a ConfigMap that the cluster's own agent reports to the hub.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from umbel import __version__
from umbel.agent import backoff
from umbel.agent.pod import places as names
from umbel.agent.pod import sharing
from umbel.agent.pod.account import Account
from umbel.agent.pod.places import Places
from umbel.errors import UmbelError
from umbel.files import write_private
from umbel.flower import commands, launch
from umbel.flower.fleet import Fleet
from umbel.identity import node_keys, tokens
from umbel.model.unit import Kind

OBJECT = "umbel-site"  # the Secret and the ConfigMap of the site
NODE_ID = "node.id"
LOOK_S = 1.0
NOT_YET_S = 1.0  # between tries while the hub does not know the key yet
NOT_YET_TRIES = 120
REPORT_AGAIN_S = 5.0
SIGN_OFF_S = 10  # a hub that does not answer does not keep a site from starting


class SiteAgent:
    """Single-threaded: waits for its child, for signals, and for files to change."""

    def __init__(self, places: Places, config: Mapping[str, Any]) -> None:
        self._places = places
        self._config = config
        self._account = Account(places.at(names.ACCOUNT))
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopping = False
        self._pid = 0
        self._started_s = 0.0
        self._failures = 0
        self._known = False  # has been connected once
        self._start_s = 0.0  # when to start the SuperNode
        self._renewing = False  # the SuperNode was told to end, to start with new files
        self._report: dict[str, str] = {}
        self._reported: dict[str, str] = {}
        self._report_s = 0.0

    def run(self) -> None:
        """Serve until told to stop; then let the SuperNode finish its message."""
        self._prepare()
        list(launch.preload(launch.OTHER_MODULES))
        self._stamp = self._files()
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while not self._stopping or self._pid:
            self._step()
            self._tell()
            timeout = LOOK_S if self._pid else max(0.0, self._start_s - time.monotonic())
            select.select([self._wake], [], [], min(LOOK_S, timeout))
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 512)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM if number == signal.SIGTERM else number)

    def _prepare(self) -> None:
        """Have the key, show its public half, have what the executor needs."""
        folder = self._places.own(names.KEYS)
        held = self._account.secret(OBJECT) or {}
        if held.get(node_keys.PRIVATE):
            write_private(folder / node_keys.PRIVATE, held[node_keys.PRIVATE])
        if held.get(NODE_ID):
            write_private(self._node_note, held[NODE_ID])
        key = node_keys.ensure(folder)
        self._kept = {node_keys.PRIVATE: key.path.read_bytes()}
        if held.get(node_keys.PRIVATE) != key.path.read_bytes():
            self._account.save_secret(OBJECT, self._kept)
        elif held.get(NODE_ID):
            self._kept[NODE_ID] = held[NODE_ID]
        self._report = {
            "publicKey": key.public_pem.decode(),
            "fingerprint": key.fingerprint,
            "version": __version__,
            "state": "starting",
            "message": "",
        }
        self._tell()
        self._shared = sharing.settle(self._places, self._account)
        tokens.ensure_secret(self._places.secret)
        write_private(self._places.runtime_ca, self._shared.tls.ca.read_bytes())

    def _step(self) -> None:
        if self._pid and (code := self._reap()) is not None:
            self._ended(code)
        if self._pid:
            self._judge()
            if self._files() != self._stamp and not self._renewing:
                self._renewing = True  # it ends when its message is done, and starts again
                os.kill(self._pid, signal.SIGTERM)
        elif not self._stopping and time.monotonic() >= self._start_s:
            self._start()

    def _reap(self) -> int | None:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def _ended(self, code: int) -> None:
        lifetime_s = time.monotonic() - self._started_s
        was_ready, self._pid = self._is_ready(), 0
        self._known = self._known or was_ready
        self._places.ready.unlink(missing_ok=True)
        if self._renewing or self._stopping:
            self._renewing, self._failures, self._start_s = False, 0, 0.0
            return
        self._failures = backoff.failures_after(self._failures, lifetime_s)
        if not self._known and self._failures < NOT_YET_TRIES:
            delay_s, state, message = NOT_YET_S, "starting", "the hub does not admit it yet"
        else:
            delay_s = backoff.delay_s(self._failures, Kind.SUPERNODE)
            state, message = "failing", f"the SuperNode ended with {code}, and starts again"
        self._start_s = time.monotonic() + delay_s
        self._report |= {"state": state, "message": message}
        self._sign_off()

    def _start(self) -> None:
        self._stamp, config = self._files(), self._read_config()
        self._started_s = time.monotonic()
        try:
            self._shared = sharing.settle(self._places, self._account)
        except UmbelError as error:
            self._start_s = self._started_s + REPORT_AGAIN_S
            self._report |= {"state": "failing", "message": str(error)}
            return
        self._pid = os.fork()
        if self._pid == 0:
            self._become(config)

    def _become(self, config: Mapping[str, Any]) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            places, shared = self._places, self._shared
            argv = commands.supernode_argv(
                fleet=str(config["fleet"]),
                ca=places.trust,
                key=places.own(names.KEYS) / node_keys.PRIVATE,
                runtime_port=names.NODE_RUNTIME_PORT,
                tls=commands.Tls(shared.tls.ca, shared.tls.certificate, shared.tls.key),
                superexec_secret=places.secret,
                node_config=config["nodeConfig"],
                host=shared.host,
            )
            launch.supernode(
                argv, places.wake, places.ready, drains=True, environments=shared.served
            )
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        finally:
            os._exit(code)

    @property
    def _node_note(self) -> Path:
        return self._places.ready.with_suffix(".node")

    def _remember(self) -> None:
        """Keep the node id with the key: a pod that was lost cannot sign off, the next one does."""
        try:
            known = self._node_note.read_bytes()
            if self._kept.get(NODE_ID) != known:
                self._account.save_secret(OBJECT, {**self._kept, NODE_ID: known})
                self._kept[NODE_ID] = known
        except (OSError, UmbelError) as error:
            print(f"cannot keep the node id: {error}", flush=True)  # noqa: T201

    def _judge(self) -> None:
        if self._is_ready():
            self._remember()
            self._known, self._failures = True, 0
            release = str(self._config.get("release", ""))
            self._report |= {"state": "online", "message": "", "release": release}

    def _is_ready(self) -> bool:
        try:
            return self._places.ready.read_text() == str(self._pid)
        except OSError:
            return False

    def _sign_off(self) -> None:
        """Sign off a SuperNode that died: a run that waits for its answer goes on without it."""
        note = self._node_note
        if not note.exists():
            return
        pid = os.fork()
        if pid == 0:
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(SIGN_OFF_S)
                key = self._places.own(names.KEYS) / node_keys.PRIVATE
                fleet = str(self._read_config()["fleet"])
                with contextlib.suppress(UmbelError):
                    Fleet(fleet, self._places.trust, key).deactivate(int(note.read_text()))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)

    def _tell(self) -> None:
        """Report a change; a cluster that does not answer is asked again."""
        now_s = time.monotonic()
        if self._report == self._reported or now_s < self._report_s:
            return
        try:
            self._account.save_config(OBJECT, self._report)
            self._reported = dict(self._report)
        except UmbelError as error:
            self._report_s = now_s + REPORT_AGAIN_S
            print(f"cannot report: {error}", flush=True)  # noqa: T201

    def _read_config(self) -> Mapping[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            self._config = json.loads(self._places.config("node").read_text())
        return self._config

    def _files(self) -> tuple[str, ...]:
        """Give what the SuperNode was started with; it reads these files only once."""
        found = []
        told = (self._places.config(name) for name in ("node", "environments"))
        for path in (self._places.trust, *told):
            try:
                found.append(path.read_text())
            except OSError:
                found.append("")
        return tuple(found)
