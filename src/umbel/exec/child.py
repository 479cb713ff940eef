"""One task, in this process, to its end."""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from umbel.exec.recorder import EventFile, Recorder, raised
from umbel.exec.settings import ExecSettings, from_json, run_folder
from umbel.flower import instruments, launch, tasks

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
LOG = "log.txt"
EVENTS = "events.jsonl"
WORK = "work"


def run(settings: ExecSettings, task: tasks.Task) -> NoReturn:
    """Become the task's process: own session, own files, nothing inherited that is open."""
    ca = settings.ca.read_bytes()
    folder = run_folder(settings, task.run_id)
    _step_aside(folder)
    os.environ["FLWR_HOME"] = str(settings.flower_home)
    for ours in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        os.environ.pop(ours, None)  # the app may speak to others; Flower is given our CA below
    os.chdir(folder / WORK)
    _fresh_randomness()
    events = EventFile(folder / EVENTS)
    tasks.on_exception(
        lambda message, error: events.append(raised(task.run_id, settings.site, message, error))
    )
    launch.plain_logs()
    code: Any = 0
    try:
        if task.type == tasks.SERVER_APP:
            instruments.install(Recorder(task.run_id, folder, events))
            tasks.run_server_task(settings.address, ca, task)
        else:
            tasks.run_client_task(settings.address, ca, task)
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001  # the end of a forked process: the log is the only place
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # No clean-up of what the parent owns: this process only shares its memory.
        os._exit(code if isinstance(code, int) else int(bool(code)))


def _step_aside(folder: Path) -> None:
    """Leave the parent's session and open files, die when it dies, log to the run's folder."""
    if os.getpid() != os.getsid(0):
        os.setsid()
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, place in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(fd, place)
    os.closerange(3, 4096)


def _fresh_randomness() -> None:
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def to_pipe(settings: ExecSettings, task: tasks.Task) -> bytes:
    """Write settings and task for a fresh process, which reads them from standard input."""
    plain = {name: str(v) if isinstance(v, Path) else v for name, v in asdict(settings).items()}
    return json.dumps({"settings": plain, "task": asdict(task)}).encode()


def main() -> NoReturn:
    """Run the task that standard input describes."""
    order = json.load(sys.stdin)
    run(from_json(order["settings"]), tasks.Task(**order["task"]))


if __name__ == "__main__":
    main()
