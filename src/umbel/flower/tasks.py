"""Takes tasks from a Runtime API and runs them, with Flower's own code."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import ssl
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from umbel.flower import ended
from umbel.flower.environments import HEADER
from umbel.flower.fast import batch_client, guard, pages, silence
from umbel.flower.fast.guard import Way
from umbel.flower.fast.naps import Naps

SERVER_APP = "flwr-serverapp"
CLIENT_APP = "flwr-clientapp"
_FIRST_HEARTBEAT_S = 10.0  # a running task may be silent for a minute
_SERVER_ERROR = 500
_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 1.0)
_MODULES = (
    "flwr.supernode.runtime.run_clientapp",
    "flwr.superlink.runtime.run_serverapp",
    "flwr.superlink.grid.http_grid",
    "flwr.serverapp.strategy.strategy",
    "flwr.server.server",
    "flwr.cli.config_utils",
    "httpcore",
    "h11",
    "umbel.flower.instruments",
)
_premade: dict[bytes, Any] = {}  # clients by the CA that they trust
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


class _Named:
    """Says which environment's executor asks."""

    def __init__(self, environment: str) -> None:
        self._environment = environment

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        context.request.headers[HEADER] = self._environment
        return call_next(context)


class TaskSource:
    """Claims tasks at one Runtime API, in SuperExec's place and with its credential."""

    def __init__(self, address: str, ca: Path, secret: Path, environment: str = "") -> None:
        interceptors = import_module("flwr.supercore.interceptors")
        named = [_Named(environment)] if environment else []
        runtime = import_module("flwr.supercore.runtime").RuntimeHttpClient
        self._httpx: Any = import_module("httpx")
        self._client: Any = runtime.from_server_address(
            server_address=address,
            insecure=False,
            root_certificates=ca.read_bytes(),
            interceptors=[
                *named,
                interceptors.RuntimeVersionHttpInterceptor(component_name="SuperExec"),
                interceptors.SuperExecAuthHttpInterceptor(
                    master_secret=secret.read_bytes(), protected_methods=_ACQUIRE
                ),
            ],
        )
        proto = import_module("flwr.proto.runtime_pb2")
        self._request = proto.AcquireTaskRequest(supported_task_types=[SERVER_APP, CLIENT_APP])
        self._nothing = proto.AcquireTaskRequest()

    def acquire(self) -> Task | None:
        """Claim the next task, if there is one."""
        answer = self._ask(self._request)
        if not (answer.HasField("task") and answer.token):
            return None
        task = answer.task
        return Task(int(task.task_id), int(task.run_id), str(task.type), str(answer.token))

    def wait(self) -> None:
        """Return when there may be a task for our environment; nothing is claimed."""
        self._ask(self._nothing)

    def _ask(self, request: Any) -> Any:
        try:
            return self._client.AcquireTask(request)
        except (self._httpx.TransportError, self._httpx.HTTPStatusError) as error:
            raise Unreachable(str(error)) from error

    def close(self) -> None:
        """Give the connection up."""
        self._client.close()


@dataclass(frozen=True, slots=True)
class TaskInput:
    """What the Runtime API gives for a task, as it came, and the app that is in it."""

    raw: bytes
    fab_hash: str
    fab: bytes


class Refused(Exception):  # told as the task's failure
    """The Runtime API does not give the task's input."""


class TaskDesk:
    """Speaks in the name of claimed tasks, over one connection that stays open."""

    def __init__(self, address: str, ca: bytes) -> None:
        self._interceptors: Any = import_module("flwr.supercore.interceptors")
        self._httpx: Any = import_module("httpx")
        self._proto: Any = import_module("flwr.proto.runtime_pb2")
        runtime = import_module("flwr.supercore.runtime").RuntimeHttpClient
        self._version = self._interceptors.RuntimeVersionHttpInterceptor(component_name="SuperExec")
        self._client: Any = runtime.from_server_address(
            server_address=address, insecure=False, root_certificates=ca, interceptors=()
        )

    def _as(self, task: Task) -> Any:
        token = self._interceptors.RuntimeTokenHttpInterceptor(task.token)
        self._client._interceptors = (self._version, token)  # noqa: SLF001  # keeps the connection
        return self._client

    def _patiently(self, call: Callable[[], Any]) -> Any:
        """Ask again while nobody listens: a gate that was killed is back in a second."""
        for pause_s in _PAUSES_S:
            try:
                return call()
            except self._httpx.TransportError:
                time.sleep(pause_s)
        return call()

    def pull_input(self, task: Task) -> TaskInput:
        """Fetch the task's input; from then on the task counts as running."""
        try:
            request = self._proto.PullTaskInputRequest()
            answer = self._patiently(lambda: self._as(task).PullTaskInput(request))
        except (self._httpx.TransportError, self._httpx.HTTPStatusError) as error:
            raise Refused(f"did not get its input: {error}") from error
        fab = answer.fab
        return TaskInput(answer.SerializeToString(), str(fab.hash_str), bytes(fab.content))

    def heartbeat(self, task: Task) -> bool:
        """Say that the task lives; False when nobody wants it any more."""
        try:
            answer = self._as(task).SendTaskHeartbeat(self._proto.SendTaskHeartbeatRequest())
        except self._httpx.TransportError:
            return True  # not heard is not refused
        except self._httpx.HTTPStatusError as error:
            return bool(error.response.status_code >= _SERVER_ERROR)
        return bool(answer.success)

    def fail(self, task: Task, cause: str) -> bool:
        """Say in the name of a dead task that it failed; False when nobody hears it."""
        output = self._proto.PushTaskOutputRequest(sub_status="failed", details=cause)
        try:
            self._patiently(lambda: self._as(task).PushTaskOutput(output))
        except (self._httpx.TransportError, self._httpx.HTTPStatusError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of a task before its process starts."""

    raw: bytes = b""  # its input; empty: the process fetches it
    installed: bool = False  # the app's files are in place
    memory: str = ""  # its memory limit, in words


@functools.cache
def prepare() -> None:
    """Load, once, all that tasks of either kind need; children of this process share it."""
    for name in _MODULES:
        import_module(name)
    import_module("httpx").Client(verify=False).close()  # only loads lazy modules
    guard.open_to(Way.NAPS_GRID)
    pages.keep()
    silence.install()
    batch_client.install()


def premake(ca: bytes) -> None:
    """Have a client that trusts this CA, for children to use: it costs each of them 4 ms less."""
    if ca not in _premade and guard.open_to(Way.BATCH):  # the client's source is as known
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=ca.decode("ascii"))
        made = import_module("httpx").Client(verify=context, timeout=30.0, follow_redirects=True)
        _premade[ca] = made


def _use_premade() -> None:
    """Let the first client of this process be the one that is there; no connection is open yet."""
    runtime: Any = import_module("flwr.supercore.runtime").RuntimeHttpClient
    stock = runtime.from_server_address

    def from_server_address(
        server_address: str, insecure: bool, root_certificates: Any, interceptors: Any, **how: Any
    ) -> Any:
        made = None if insecure else _premade.pop(root_certificates, None)
        if made is None:
            return stock(server_address, insecure, root_certificates, interceptors, **how)
        client = runtime.__new__(runtime)
        client._base_url = f"https://{server_address}"  # noqa: SLF001
        client._interceptors = tuple(interceptors)  # noqa: SLF001
        client._retry_invoker = how.get("retry_invoker")  # noqa: SLF001
        client._client = made  # noqa: SLF001
        return client

    runtime.from_server_address = from_server_address


def run_client_task(address: str, ca: bytes, task: Task, given: Given) -> None:
    """Run a ClientApp task to its end; leaves by SystemExit."""
    prepare()
    module: Any = import_module("flwr.supernode.runtime.run_clientapp")
    ended.mind_refusals(module)
    _hand_over(module, given)
    if given.memory:
        find = module.get_load_client_app_fn
        module.get_load_client_app_fn = lambda **how: _then(
            find(**how), lambda app: _telling(app, given.memory)
        )
    module.run_clientapp(
        runtime_api_address=address, token=task.token, insecure=False, certificates=ca
    )


def run_server_task(address: str, ca: bytes, task: Task, given: Given) -> None:
    """Run a ServerApp task to its end; leaves by SystemExit."""
    prepare()
    queue = import_module("queue").Queue()
    logger = import_module("flwr.supercore.logger")
    logger.mirror_output_to_queue(queue)
    if guard.open_to(Way.NAPS_GRID):
        grid: Any = import_module("flwr.superlink.grid.http_grid")
        grid.time = Naps(threading.Event(), 3, Way.NAPS_GRID)
    module: Any = import_module("flwr.superlink.runtime.run_serverapp")
    _hand_over(module, given)
    if given.memory:
        module.run_ = _telling(module.run_, given.memory)
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


def _hand_over(module: Any, given: Given) -> None:
    """Let Flower's code find what is there already, instead of fetching it again."""
    if given.raw:
        answer = import_module("flwr.proto.runtime_pb2").PullTaskInputResponse()
        answer.ParseFromString(given.raw)
        runtime: Any = import_module("flwr.supercore.runtime").RuntimeHttpClient
        runtime.PullTaskInput = lambda _self, _request: answer
        module.HeartbeatSender = _later(module.HeartbeatSender)
    if _premade:
        _use_premade()
    if given.installed:
        module.install_from_fab = lambda *_args, **_how: None


def _later(stock: Any) -> Any:
    """Send the first heartbeat later: fetching the input counts as one, and most tasks are short."""

    class Later(stock):  # type: ignore[misc]
        def _run(self) -> None:
            if not self._stop_event.wait(_FIRST_HEARTBEAT_S):
                super()._run()

    return Later


def _then(find: Callable[..., Any], wrap: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda *args, **how: wrap(find(*args, **how))


def _telling(call: Callable[..., Any], limit: str) -> Callable[..., Any]:
    """Let what runs out of memory say that there is a limit."""

    @functools.wraps(call, updated=())
    def called(*args: Any, **how: Any) -> Any:
        try:
            return call(*args, **how)
        except MemoryError as error:
            raise MemoryError(f"the task reached its memory limit of {limit}: {error}") from error

    return called


def install_app(fab: bytes, flower_home: Path) -> bool:
    """Put an app's files in place in one step, checked by Flower; False: Flower refuses them."""
    install: Any = import_module("flwr.cli.install").install_from_fab
    click: Any = import_module("click")
    refusals = (click.ClickException, click.exceptions.Exit, ValueError, KeyError, OSError)
    apps = flower_home / "apps"
    apps.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=apps, prefix=".new-") as new:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                made: Path = install(fab, Path(new), skip_prompt=True)
            if (apps / made.name).exists():
                (apps / made.name).rename(Path(new) / "old")
            made.rename(apps / made.name)
        except (*refusals, zipfile.BadZipFile):
            return False
    return True


def plain_logs() -> None:
    """Make Flower's own log lines carry a time and no colour."""
    logger = import_module("flwr.supercore.logger")
    logger.update_console_handler(level="INFO", timestamps=True, colored=False)


def on_exception(report: Callable[[str, BaseException], None]) -> None:
    """Call `report` with each exception that Flower logs while it runs an app."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                report(record.getMessage(), record.exc_info[1])

    logging.getLogger("flwr").addHandler(Handler(level=logging.ERROR))
