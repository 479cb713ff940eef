"""Nothing secret is seen where others could see it, and nothing listens that should not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.federation.conftest import Home

TASK_TOKEN = re.compile(rb"[0-9a-f]{256}")
LOGS = ("*.log", "*.log.1", "*.jsonl", "log.txt", "*.exit")
PRIVATE = ("*.key", "*.token", "*.secret", "*.db", "users.json", "sites.json", "gate.json", "*.log")
LISTENING = "0A"


def found_in(data: bytes, secrets: dict[str, bytes]) -> set[str]:
    found = {name for name, secret in secrets.items() if secret in data}
    tokens = [t for t in TASK_TOKEN.findall(data) if len(set(t)) > 8]  # a line of "a" is none
    return found | ({"a task token"} if tokens else set())


def exposed(home: Home, secrets: dict[str, bytes]) -> set[str]:
    """Read the arguments and the environment of every process of the federation."""
    found = set()
    for process in home.processes():
        for name in ("cmdline", "environ"):
            try:
                data = Path(f"/proc/{process.pid}/{name}").read_bytes()
            except OSError:
                continue
            found |= {f"{what} in {name} of {process}" for what in found_in(data, secrets)}
    return found


def logged(home: Home, secrets: dict[str, bytes]) -> set[str]:
    """Read every log, audit log and event of the home."""
    return {
        f"{what} in {path}"
        for pattern in LOGS
        for path in home.path.rglob(pattern)
        for what in found_in(path.read_bytes(), secrets)
    }


def test_no_secret_is_in_arguments_environment_or_logs_of_a_real_run(
    shared: Home, patient: tuple[Path, Path]
) -> None:
    secrets = shared.secrets()
    kinds = {Path(name).name.split()[0] for name in secrets}
    assert kinds >= {"owner.token", "exec.secret", "node.key", "server.key", "ca.key"}
    app, released = patient
    run_id = shared.submit(app, "-c", "num-server-rounds=1", "-c", "min-nodes=3")
    shared.until(lambda: len(shared.tasks(run_id)) == 4, "the hub and all sites are at work")
    assert exposed(shared, secrets) == set()
    released.touch()
    assert shared.until_over(run_id)["status"] == "completed"
    assert exposed(shared, secrets) == set()
    assert logged(shared, secrets) == set()
    assert any(path.stat().st_size for path in shared.path.rglob("audit.jsonl"))


@pytest.mark.parametrize("where", ["cmdline", "environ"])
def test_the_search_would_find_a_secret(shared: Home, where: str) -> None:
    """A process that shows the owner's token, as none of ours does."""
    secrets = shared.secrets()
    token = next(s for name, s in secrets.items() if name.endswith("owner.token raw")).decode()
    wait = [sys.executable, "-c", "import sys; sys.stdin.read()", str(shared.path)]
    shown = [token] if where == "cmdline" else []
    env = {**os.environ, **({} if shown else {"TOKEN": token})}
    with subprocess.Popen([*wait, *shown], stdin=subprocess.PIPE, env=env) as process:
        found = exposed(shared, secrets)
        assert process.stdin is not None
        process.stdin.close()
    assert any("owner.token raw" in what for what in found)


def test_the_search_would_find_a_task_token(shared: Home) -> None:
    log = shared.folder() / "hub" / "logs" / "planted.log"
    log.write_text(f"token {'0123456789abcdef' * 16} end")
    try:
        assert logged(shared, shared.secrets()) == {f"a task token in {log}"}
    finally:
        log.unlink()


def test_private_files_are_for_their_owner_alone(shared: Home) -> None:
    assert S_IMODE(shared.path.stat().st_mode) == 0o700
    files = [p for pattern in PRIVATE for p in shared.path.rglob(pattern) if p.is_file()]
    assert {p.suffix for p in files} >= {".key", ".token", ".secret", ".db", ".json", ".log"}
    open_files = {str(p): oct(S_IMODE(p.stat().st_mode)) for p in files if p.stat().st_mode & 0o077}
    assert open_files == {}
    folders = {p.parent for p in files}
    assert {str(f) for f in folders if S_IMODE(f.stat().st_mode) != 0o700} == set()


def listeners(home: Home) -> dict[tuple[str, int], str]:
    """Give each listening TCP address of the home's processes, and whose it is."""
    mine = {}
    for process in home.processes():
        try:
            links = [os.readlink(fd) for fd in Path(f"/proc/{process.pid}/fd").iterdir()]  # noqa: PTH115
        except OSError:
            continue
        mine.update(dict.fromkeys(links, process.unit or process.role or process.command))
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            host, _, port = fields[1].partition(":")
            owner = mine.get(f"socket:[{fields[9]}]")
            if fields[3] == LISTENING and owner is not None:
                found[host, int(port, 16)] = owner
    return found


def test_only_the_gates_doors_and_the_sites_runtime_ports_listen(shared: Home) -> None:
    doors = shared.status()["endpoint"]
    loopback = "0100007F"
    expected = {
        (loopback, int(doors[door].rpartition(":")[2])): "hub/gate"
        for door in ("fleet", "control", "runtime")
    }
    found = listeners(shared)
    assert {where: who for where, who in found.items() if who == "hub/gate"} == expected
    rest = sorted(who for where, who in found.items() if where not in expected)
    assert rest == [f"local-{number}/supernode" for number in (1, 2, 3)]
    assert {host for host, _ in found} == {loopback}


def test_the_superlink_has_no_port_and_its_socket_is_private(shared: Home) -> None:
    folder = shared.folder() / "hub" / "superlink"
    assert S_IMODE(folder.stat().st_mode) == 0o700
    assert S_IMODE((folder / "superlink.sock").stat().st_mode) == 0o600
    assert S_IMODE((shared.path / "run" / "umbel.sock").stat().st_mode) == 0o600
