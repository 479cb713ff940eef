"""Real federations, brought up by the real command in processes of its own."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from tests.integration.network import Network

from umbel.apps.quickstart import read_template_files
from umbel.exec.apps import recipe_of
from umbel.exec.environments import Environments, default_root
from umbel.sockets import reachable

BIN = Path(sys.executable).parent
APPS = Path(__file__).parents[2] / "apps"
LOOK_AGAIN_S = 0.1
LONGEST_S = 180.0
PRIVATE = ("*.key", "*.token", "*.secret", "users.json", "sites.json", "gate.json", "*.db", "*.log")
T = TypeVar("T")


def until(look: Callable[[], T], what: str, timeout_s: float = LONGEST_S) -> T:
    """Look again and again until there is something; gives it."""
    deadline_s, pause = time.monotonic() + timeout_s, threading.Event()
    while not (found := look()):
        assert time.monotonic() < deadline_s, f"not after {timeout_s:g} s: {what}; last: {found!r}"
        pause.wait(LOOK_AGAIN_S)
    return found


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What `-o json` printed: the whole of stdout."""
        return json.loads(self.out)

    def ok(self) -> Said:
        """Insist on success."""
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        assert "Traceback" not in self.err, self.err
        return self

    def refused(self, code: int, error: str) -> Said:
        """Insist on an error that is told as one: its code, and no traceback."""
        assert self.code == code, f"exit {self.code}\n{self.out}\n{self.err}"
        assert f"error[{error}]" in self.err, self.err
        assert "Traceback" not in self.err, self.err
        assert self.out == ""
        return self


@dataclass(frozen=True)
class Process:
    """A process of a federation, as /proc shows it now."""

    pid: int
    parent: int
    command: str
    log: str  # what its stdout is

    @property
    def unit(self) -> str:
        """SITE/KIND, or nothing for what is no unit."""
        found = re.search(r"/(?:sites/([^/]+)|(hub))/logs/([a-z-]+)\.log$", self.log)
        return f"{found[1] or found[2]}/{found[3]}" if found else ""

    @property
    def run(self) -> str:
        """The run that it works for, if it is a task."""
        found = re.search(r"/runs/(\d+)/log\.txt$", self.log)
        return found[1] if found else ""

    @property
    def role(self) -> str:
        """Daemon or nursery."""
        if "umbel.server.daemon" in self.command:
            return "daemon"
        return "nursery" if self.log.endswith("/nursery.log") else ""


def read_process(pid: int) -> Process | None:
    try:
        folder = Path(f"/proc/{pid}")
        stat = (folder / "stat").read_text()
        fields = stat[stat.rindex(")") + 2 :].split()
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        log = os.readlink(folder / "fd" / "1") if fields[0] != "Z" else ""  # noqa: PTH115
    except OSError:
        return None
    return Process(pid, int(fields[1]), command, log) if fields[0] != "Z" else None


def all_processes() -> dict[int, Process]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid: found for pid in pids if (found := read_process(pid)) is not None}


@dataclass
class Home:
    """A UMBEL_HOME: speaks the command's language, and looks at what really runs."""

    path: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        own = ("UMBEL_", "FLWR_", "COLUMNS")  # whoever runs the tests may have set them
        kept = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        path = f"{BIN}{os.pathsep}{kept.get('PATH', '')}"
        return {**kept, "PATH": path, "UMBEL_HOME": str(self.path), **self.extra}

    def begin(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command and do not wait for it."""
        return subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            env={**self.env, **more.pop("env", {})},
            cwd=more.pop("cwd", self.path.parent),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    @contextlib.contextmanager
    def beside(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command beside the test; it does not outlive the block."""
        with self.begin(*words) as process:
            try:
                yield process
            finally:
                if sys.exc_info()[0] is not None:
                    process.kill()

    def call(self, *words: str, **more: Any) -> Said:
        """Run any command of the environment to its end."""
        with self.begin(*words, **more) as process:
            try:
                out, err = process.communicate(timeout=LONGEST_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Said(process.returncode, out, err)

    def umbel(self, *words: str, **more: Any) -> Said:
        """Run `umbel …` to its end."""
        return self.call("umbel", *words, **more)

    def write(self, name: str, **spec: Any) -> Path:
        """Write a document beside the home."""
        path = self.path.parent / f"{self.path.name}-{name}.yaml"
        head = {"apiVersion": "umbel.dev/v1alpha1", "kind": "Federation"}
        document = {**head, "metadata": {"name": name}, "spec": spec}
        path.write_text(yaml.safe_dump(document).replace("'on':", "on:"))
        return path

    def ask(self, path: str) -> Any:
        """Ask the daemon itself: cheaper than a command for what is asked often."""
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.settimeout(30)
            with reachable(self.path / "run" / "umbel.sock") as short:
                sock.connect(short)
            connection = http.client.HTTPConnection("umbel")
            connection.sock = sock
            connection.request("GET", path)
            with connection.getresponse() as response:
                return json.loads(response.read())

    def status(self, name: str = "local") -> Any:
        """Give the status, or nothing while nobody answers."""
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            found = self.ask(f"/v1/federations/{name}")
            return found if "phase" in found else None
        return None

    @staticmethod
    def until(look: Callable[[], T], what: str, timeout_s: float = LONGEST_S) -> T:
        """Look again and again until there is something; gives it."""
        return until(look, what, timeout_s)

    @staticmethod
    def kill(pid: int) -> None:
        """End a process of the federation under test, and wait until it is gone."""
        assert pid > 1, "there is no such process"
        os.kill(pid, signal.SIGKILL)
        until(lambda: read_process(pid) is None, f"process {pid} is gone", 10)

    def until_ready(self, name: str = "local", timeout_s: float = LONGEST_S) -> Any:
        """Wait for the federation to take runs."""

        seen: list[Any] = []

        def ready() -> bool:
            seen[:] = [self.status(name)]
            return bool(seen[0]) and seen[0]["phase"] == "Ready"

        try:
            until(ready, f"{name} is ready", timeout_s)
        except AssertionError as error:
            error.add_note(json.dumps(seen[0], indent=1))
            raise
        return seen[0]

    def submit(self, app: str | Path, *words: str, name: str = "local") -> str:
        """Start a run and leave it; gives its id."""
        folder = str(APPS / app)
        said = self.umbel("run", folder, "--detach", "-o", "json", "-n", name, *words).ok()
        return str(said.data["run_id"])

    def until_over(self, run_id: str, name: str = "local", timeout_s: float = LONGEST_S) -> Any:
        """Wait for the run to end; gives its last status."""

        def over() -> Any:
            with contextlib.suppress(OSError, http.client.HTTPException):
                found = self.ask(f"/v1/federations/{name}/runs/{run_id}")
                return found if found.get("status") in ("completed", "failed", "stopped") else None
            return None

        return until(over, f"run {run_id} is over", timeout_s)

    def folder(self, name: str = "local") -> Path:
        """Where a federation's files are."""
        return self.path / "federations" / name

    def processes(self) -> list[Process]:
        """Find every process of this home, and all their descendants, whatever they call themselves."""
        everybody = all_processes()
        mine = {p.pid for p in everybody.values() if self._owns(p)}
        mine -= {os.getpid()}
        while more := {p.pid for p in everybody.values() if p.parent in mine} - mine:
            mine |= more
        return [everybody[pid] for pid in sorted(mine)]

    def _owns(self, process: Process) -> bool:
        home = f"{self.path}"
        if home in process.command or process.log.startswith(home):
            return True
        with contextlib.suppress(OSError):
            return f"FLWR_HOME={home}".encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
        return False

    def units(self, name: str = "local") -> dict[str, int]:
        """Give the process of each unit of a federation."""
        inside = f"{self.folder(name)}/"
        return {p.unit: p.pid for p in self.processes() if p.unit and p.log.startswith(inside)}

    def pid_of(self, role: str) -> int:
        """Give the daemon's or the nursery's process."""
        found = [p.pid for p in self.processes() if p.role == role]
        return min(found) if found else 0

    def tasks(self, run_id: str) -> list[Process]:
        """Give the processes that work for a run, and what they started."""
        mine = self.processes()
        pids = {p.pid for p in mine if p.run == run_id}
        return [p for p in mine if p.pid in pids or p.parent in pids]

    def secrets(self) -> dict[str, bytes]:
        """Give everything that must never be seen: by file, in every form it could take."""
        found: dict[str, bytes] = {}
        for path in sorted(self.path.rglob("*")):
            if path.suffix in (".token", ".secret") and path.is_file():
                raw = path.read_bytes().strip() if path.suffix == ".token" else path.read_bytes()
                found[f"{path} raw"] = raw
                found[f"{path} hex"] = raw.hex().encode()
                found[f"{path} base64"] = base64.b64encode(raw).rstrip(b"=")
            elif path.suffix == ".key" and path.is_file():
                for number, body in enumerate(_private_bodies(path.read_bytes())):
                    found[f"{path} {number}"] = body
        return found

    def end(self) -> None:
        """Leave nothing behind, whatever a test did: the command first, then by process id."""
        folders = self.folder("").glob("*") if self.processes() else ()
        for name in [p.name for p in folders if (p / "hub").exists()]:
            self.umbel("down", "-n", name)
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def _private_bodies(pem: bytes) -> list[bytes]:
    """Give the lines of private keys that no other key has: the last ones before the end."""
    blocks = re.findall(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)-----END", pem, re.DOTALL)
    return [b"".join(block.split())[-48:] for block in blocks]


MakeHome = Callable[..., Home]


@pytest.fixture(scope="session", autouse=True)
def environments(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The apps' environments are there before: our network has no way to an index of packages."""
    kept = Environments(default_root(Home(Path()).env))
    ours = read_template_files()["pyproject.toml"]
    with (tmp_path_factory.mktemp("environments") / "log").open("wb") as log:
        for project in (ours, (APPS / "message_numpy" / "pyproject.toml").read_bytes()):
            listed = tomllib.loads(project.decode())["project"]["dependencies"]
            kept.build(recipe_of(tuple(sorted(listed))), log)


@pytest.fixture(scope="module", autouse=True)
def alone(network: Network) -> Iterator[None]:
    """Federations beside ours would take ports that ours let go for a moment."""
    with network.entered():
        yield


@pytest.fixture(scope="session")
def make_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeHome]:
    """Give new homes; what still runs in them at the end is ended."""
    homes: list[Home] = []

    def make(name: str = "home", **extra: str) -> Home:
        homes.append(Home(tmp_path_factory.mktemp(name) / "my höme", extra))
        return homes[-1]

    yield make
    for home in homes:
        home.end()


@pytest.fixture
def new_home(make_home: MakeHome) -> Iterator[Home]:
    """Give a home that does not exist yet; what runs in it ends with the test."""
    home = make_home("new")
    yield home
    home.end()


@dataclass
class First:
    """The federation that most tests share, and what its first `umbel up` said."""

    home: Home
    said: Said


@pytest.fixture(scope="session")
def first(make_home: MakeHome, network: Network) -> First:
    """Come up without a document."""
    home = make_home("shared")
    with network.entered():
        return First(home, home.umbel("up").ok())


@pytest.fixture(scope="session")
def shared(first: First) -> Home:
    """Give the home of the shared federation: three sites."""
    return first.home


@dataclass
class Batch:
    """Apps that were submitted all at once, and the commands that follow some of them."""

    ids: dict[str, str]
    followers: dict[str, subprocess.Popen[str]]
    _said: dict[str, Said] = field(default_factory=dict)

    def said(self, app: str) -> Said:
        """Wait for the command that follows the app; gives what it said."""
        if app not in self._said:
            out, err = self.followers[app].communicate(timeout=LONGEST_S)
            self._said[app] = Said(self.followers[app].returncode, out, err)
        return self._said[app]


@pytest.fixture(scope="session")
def batch(shared: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batch]:
    """Submit the foreign apps; each test awaits its own."""
    left: dict[str, tuple[str, ...]] = {
        "prints_a_lot": ("-c", "lines=3000"),
        "message_numpy": ("-c", "num-server-rounds=1"),
        "legacy_numpy": ("-c", "num-server-rounds=1"),
        "custom_strategy": ("-c", "num-server-rounds=1"),
        "metrics_odd": ("-c", "num-server-rounds=2"),
        "context_counter": ("-c", "num-server-rounds=2"),
    }
    followed: dict[str, tuple[str, ...]] = {
        "server_crash": ("-c", "num-server-rounds=1"),
        "client_crash": ("-c", "num-server-rounds=1"),
        "import_error": ("-c", "num-server-rounds=1"),
        "grid_only": ("-c", "min-nodes=3", "-o", "json"),
    }
    begun = {a: shared.begin("umbel", "run", str(APPS / a), *w) for a, w in followed.items()}
    ids = {app: shared.submit(app, *words) for app, words in left.items()}
    own = tmp_path_factory.mktemp("apps") / "mine"
    shared.umbel("init", str(own)).ok()
    ids["mine"] = shared.submit(own, "-c", "num-server-rounds=1", "-c", 'dataset="made"')
    yield Batch(ids, begun)
    for process in begun.values():
        with process:
            process.kill()


@pytest.fixture(scope="session")
def lab(make_home: MakeHome, network: Network) -> Home:
    """Give a home with two small federations side by side, `lab` and `other`, for rough handling."""
    home = make_home("lab")
    one = [{"name": "local", "sites": 1}]
    users = [{"name": "ada", "role": "operator"}, {"name": "vic", "role": "viewer"}]
    with network.entered():
        home.umbel("up", "-f", str(home.write("lab", groups=one, security={"users": users}))).ok()
        home.umbel("up", "-f", str(home.write("other", groups=one))).ok()
    return home


@pytest.fixture
def patient(tmp_path: Path) -> tuple[Path, Path]:
    """Give an app whose sites train only when a file is there, and that file."""
    folder, released = tmp_path / "app", tmp_path / "released"
    shutil.copytree(APPS / "message_numpy", folder)
    client = folder / "message_numpy" / "client_app.py"
    waiting = (
        "import pathlib, threading\n"
        f"while not pathlib.Path({str(released)!r}).exists():\n"
        "    threading.Event().wait(0.05)\n"
    )
    client.write_text(waiting + client.read_text())
    return folder, released
