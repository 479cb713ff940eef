"""Takes tasks from a Runtime API and runs them, with Flower's own code."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from umbel.flower.fast import batch_client, guard
from umbel.flower.fast.guard import Way
from umbel.flower.fast.naps import Naps

SERVER_APP = "flwr-serverapp"
CLIENT_APP = "flwr-clientapp"
_ACQUIRE = frozenset({"/flwr.proto.Runtime/AcquireTask"})


@dataclass(frozen=True, slots=True)
class Task:
    """A claimed task. The token is its key to the Runtime API: never printed, never in argv."""

    task_id: int
    run_id: int
    type: str
    token: str

    def __repr__(self) -> str:
        return f"Task({self.task_id}, run {self.run_id}, {self.type})"


class Unreachable(Exception):  # a passing state, caught by the loop
    """The Runtime API does not answer now."""


class TaskSource:
    """Claims tasks at one Runtime API, in SuperExec's place and with its credential."""

    def __init__(self, address: str, ca: Path, secret: Path) -> None:
        interceptors = import_module("flwr.supercore.interceptors")
        runtime = import_module("flwr.supercore.runtime").RuntimeHttpClient
        self._httpx: Any = import_module("httpx")
        self._client: Any = runtime.from_server_address(
            server_address=address,
            insecure=False,
            root_certificates=ca.read_bytes(),
            interceptors=[
                interceptors.RuntimeVersionHttpInterceptor(component_name="SuperExec"),
                interceptors.SuperExecAuthHttpInterceptor(
                    master_secret=secret.read_bytes(), protected_methods=_ACQUIRE
                ),
            ],
        )
        proto = import_module("flwr.proto.runtime_pb2")
        self._request = proto.AcquireTaskRequest(supported_task_types=[SERVER_APP, CLIENT_APP])

    def acquire(self) -> Task | None:
        """Claim the next task, if there is one."""
        try:
            answer = self._client.AcquireTask(self._request)
        except (self._httpx.TransportError, self._httpx.HTTPStatusError) as error:
            raise Unreachable(str(error)) from error
        if not (answer.HasField("task") and answer.token):
            return None
        task = answer.task
        return Task(int(task.task_id), int(task.run_id), str(task.type), str(answer.token))

    def close(self) -> None:
        """Give the connection up."""
        self._client.close()


def run_client_task(address: str, ca: bytes, task: Task) -> None:
    """Run a ClientApp task to its end; leaves by SystemExit."""
    batch_client.install()
    module = import_module("flwr.supernode.runtime.run_clientapp")
    module.run_clientapp(
        runtime_api_address=address, token=task.token, insecure=False, certificates=ca
    )


def run_server_task(address: str, ca: bytes, task: Task) -> None:
    """Run a ServerApp task to its end; leaves by SystemExit."""
    queue = import_module("queue").Queue()
    logger = import_module("flwr.supercore.logger")
    logger.mirror_output_to_queue(queue)
    batch_client.install()
    if guard.open_to(Way.NAPS_GRID):
        grid: Any = import_module("flwr.superlink.grid.http_grid")
        grid.time = Naps(threading.Event(), long_s=3)
    module = import_module("flwr.superlink.runtime.run_serverapp")
    try:
        module.run_serverapp(
            runtime_api_address=address,
            log_queue=queue,
            token=task.token,
            insecure=False,
            certificates=ca,
        )
    finally:
        logger.restore_output()


def report_failure(address: str, ca: bytes, task: Task, cause: str) -> bool:
    """Say in the name of a dead task that it failed; False when nobody hears it."""
    runtime = import_module("flwr.supercore.runtime").RuntimeHttpClient
    interceptors: Any = import_module("flwr.supercore.interceptors")
    httpx: Any = import_module("httpx")
    client = runtime.from_server_address(
        server_address=address,
        insecure=False,
        root_certificates=ca,
        interceptors=[
            interceptors.RuntimeVersionHttpInterceptor(component_name="SuperExec"),
            interceptors.RuntimeTokenHttpInterceptor(task.token),
        ],
    )
    proto: Any = import_module("flwr.proto.runtime_pb2")
    try:
        client.PushTaskOutput(proto.PushTaskOutputRequest(sub_status="failed", details=cause))
    except (httpx.TransportError, httpx.HTTPStatusError):
        return False
    finally:
        client.close()
    return True


def on_exception(report: Callable[[str, BaseException], None]) -> None:
    """Call `report` with each exception that Flower logs while it runs an app."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                report(record.getMessage(), record.exc_info[1])

    logging.getLogger("flwr").addHandler(Handler(level=logging.ERROR))
