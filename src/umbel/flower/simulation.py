"""Runs an app in Flower's simulation runtime: the same bundle, no SuperLink, no sites.

Ray carries the simulated nodes. It listens on loopback only, asks for a token that stands in a
private file, keeps its files in our folder, and reports to nobody.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import secrets
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from umbel.errors import RequestError
from umbel.files import ensure_private_folder, write_private
from umbel.flower import instruments
from umbel.flower.commands import Scalar, quiet
from umbel.flower.control import AppInvalid, build
from umbel.model.unit import HUB

EVERY_NODE = "every node"
_BACKEND = "flwr.server.superlink.fleet.vce.backend.raybackend"
_ENGINE = "flwr.server.superlink.fleet.vce.vce_api"
_RUN_ID_BYTES = 8
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Raised:
    """What an app raised, and at which place; no traceback: its process died."""

    place: str
    message: str
    traceback: str


Report = Callable[[Raised], None]


class SimulationMissing(RequestError):
    """The packages that the simulation needs are not installed."""

    code = "U316"

    def __init__(self) -> None:
        super().__init__(
            "the simulation runtime is not installed here: Ray is missing",
            hint="pip install 'umbel[simulation]'",
        )


class CoresMissing(RequestError):
    """A simulated node wants more cores than the machine has."""

    code = "U317"

    def __init__(self, wanted: float, there: int) -> None:
        super().__init__(
            f"a node wants {wanted:g} cores, and this machine has {there}",
            hint=f"--cpus {there} or less",
        )


class SettingUnknown(RequestError):
    """A --config key is not one of the app's settings."""

    code = "U318"

    def __init__(self, key: str, known: Sequence[str]) -> None:
        there = f"its settings: {', '.join(known)}" if known else "it has none"
        super().__init__(
            f"the app has no setting {key!r}",
            hint=f"{there}; they stand in [tool.flwr.app.config] of its pyproject.toml",
        )


@dataclass(frozen=True, slots=True)
class Job:
    """What to simulate. `folder` is private and short-lived; Flower and Ray live in it."""

    app: Path
    folder: Path
    nodes: int
    cpus: float = 1.0
    gpus: float = 0.0

    @property
    def ray_folder(self) -> Path:
        """Ray's own files and sockets; short, for a socket's path may have 107 bytes."""
        return self.folder / "r"

    @property
    def token(self) -> Path:
        """What Ray's processes prove themselves with to each other."""
        return self.folder / "token"


def require_ray(cpus: float = 1.0) -> None:
    """Refuse at once, without loading anything, what could not be simulated."""
    if find_spec("ray") is None:
        raise SimulationMissing
    if cpus > cores():
        raise CoresMissing(cpus, cores())


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def environment(job: Job) -> dict[str, str]:
    """Keep Flower and Ray at home: no telemetry, no cluster of others, loopback and a token."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {
        **kept,
        **quiet(job.folder / "flower"),
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray's switch for machines that never form a cluster: everything binds to loopback.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(job.token),
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }


def prepare(job: Job) -> None:
    """Make the folders and the token; done by who starts the simulation's process."""
    ensure_private_folder(job.folder / "flower")
    ensure_private_folder(job.ray_folder)
    write_private(job.token, secrets.token_hex(32))


@dataclass(frozen=True, slots=True)
class Installed:
    """The app as Flower unpacked it from its bundle."""

    name: str
    folder: Path
    fab_hash: str
    server: str
    client: str
    config: Mapping[str, Scalar]


def install(job: Job, overrides: Mapping[str, Scalar]) -> Installed:
    """Build the app's bundle as for a real run and unpack it; gives it with its settings."""
    fab, name = build(job.app)
    flower = import_module("flwr.common.config")
    folder: Path = import_module("flwr.cli.install").install_from_fab(fab, skip_prompt=True)
    parts = flower.get_project_config(folder)["tool"]["flwr"]["app"]["components"]
    settings = flower.get_fused_config_from_dir(folder, {})
    for key in overrides:
        if key not in settings:
            raise SettingUnknown(key, sorted(settings))
    if "serverapp" not in parts or "clientapp" not in parts:
        raise AppInvalid(str(job.app), "a ServerApp and a ClientApp are needed")
    return Installed(
        name=name,
        folder=folder,
        fab_hash=hashlib.sha256(fab).hexdigest(),
        server=parts["serverapp"],
        client=parts["clientapp"],
        config={**settings, **overrides},
    )


def new_run_id() -> int:
    """Give a number as SuperLinks do."""
    return int.from_bytes(secrets.token_bytes(_RUN_ID_BYTES)) | 1


def simulate(
    job: Job,
    app: Installed,
    run: tuple[int, Mapping[str, Scalar]],
    observer: instruments.Observer,
    report: Report,
) -> None:
    """Run the app to its end; `run` is its id and its overrides. What an app raises is raised."""
    with Telling(report, EVERY_NODE):
        _load_client_app(app)
    module: Any = import_module("flwr.simulation.run_simulation")
    instruments.install(observer, import_module("flwr.superlink.grid.inmemory_grid").InMemoryGrid)
    ready = threading.Event()
    _name_nodes()
    _watch_clients(report, ready)

    def await_nodes() -> None:
        ready.wait()
        observer.round_began(0)

    _watch_server(module, report, await_nodes)
    module._run_simulation(  # noqa: SLF001  # the public form takes no run config
        server_app_attr=app.server,
        client_app_attr=app.client,
        num_supernodes=job.nodes,
        backend_config=backend_config(job),
        app_dir=str(app.folder),
        run=_flower_run(app, *run),
        server_app_context=_context(run[0], app),
        is_app=True,
        exit_event=import_module("flwr.supercore.telemetry").EventType.FLWR_SIMULATION_RUN_LEAVE,
    )


class Telling:
    """Reports what is raised inside the block, and lets it pass."""

    def __init__(self, report: Report, place: str) -> None:
        self._report = report
        self._place = place

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            self._report(describe(self._place, error))


def describe(place: str, error: BaseException) -> Raised:
    """Tell what was raised; of what came from Ray's workers, only what the app has to do with."""
    ray: Any = sys.modules.get("ray.exceptions")
    if ray is not None and isinstance(error, ray.RayTaskError):
        return Raised(place, str(getattr(error, "cause", "")), _app_part(str(error)))
    if ray is not None and isinstance(error, ray.RayError):
        return Raised(place, "died with its worker, which starts again", "")
    text = "".join(traceback.format_exception(error))
    return Raised(place, str(error) or type(error).__name__, text)


def _app_part(text: str) -> str:
    """Leave out colours, and the exceptions in which Flower and Ray wrap the app's own."""
    lines = _COLOUR.sub("", text).partition("\n\nThe above exception")[0].splitlines()
    kept = [line for line in lines[1:] if line.strip(" ^~")]
    return "\n".join(["Traceback (most recent call last):", *kept])


def node_name(partition: int | str) -> str:
    """Name a simulated node by its partition, which is all that it has."""
    return f"node-{partition}"


def backend_config(job: Job) -> dict[str, Any]:
    """Say what Ray is started with."""
    # Ray starts a worker for each core it is given: no more than the nodes can use.
    useful = max(1, min(cores(), math.ceil(job.nodes * job.cpus)))
    return {
        # A worker whose app ended it starts again, as a site's executor would.
        "client_resources": {"num_cpus": job.cpus, "num_gpus": job.gpus, "max_restarts": -1},
        "init_args": {
            "address": "local",
            "num_cpus": useful,
            "include_dashboard": False,
            "logging_level": "WARNING",
            "log_to_driver": True,
            "_temp_dir": str(job.ray_folder),
        },
    }


def _load_client_app(app: Installed) -> None:
    """Load it once before all else: Flower would wait ten seconds with the bad news."""
    load = import_module("flwr.clientapp.utils").get_load_client_app_fn
    load(default_app_ref=app.client, app_path=str(app.folder), multi_app=False)("", "", "")


def _flower_run(app: Installed, run_id: int, overrides: Mapping[str, Scalar]) -> Any:
    identity: Any = import_module("flwr.supercore.task_identity").TaskIdentity
    task_id = new_run_id()
    identity.task_id, identity.run_id = task_id, run_id
    identity.node_id = import_module("flwr.common.constant").SUPERLINK_NODE_ID
    run: Any = import_module("flwr.supercore.run").Run.create_empty(run_id=run_id)
    run.fab_id, run.fab_version = app.name.split("==")
    run.fab_hash = app.fab_hash
    run.override_config = dict(overrides)
    run.primary_task_id = task_id
    run.federation_id = import_module("flwr.supercore.constant").NOOP_FEDERATION_ID
    return run


def _context(run_id: int, app: Installed) -> Any:
    message = import_module("flwr.app")
    return message.Context(
        run_id=run_id,
        node_id=import_module("flwr.common.constant").SUPERLINK_NODE_ID,
        node_config={},
        state=message.RecordDict(),
        run_config=dict(app.config),
    )


def _name_nodes() -> None:
    """Give simulated nodes a name that tells their partition; Flower gives them none."""
    engine: Any = import_module(_ENGINE)
    stock = engine._register_nodes  # noqa: SLF001  # the only place that knows both

    @functools.wraps(stock)
    def register(num_nodes: int, state_factory: Any) -> Any:
        partitions = stock(num_nodes, state_factory)
        for node_id, partition in partitions.items():
            state_factory.state().nodes[node_id].name = node_name(partition)
        return partitions

    engine._register_nodes = register  # noqa: SLF001


def _watch_clients(report: Report, ready: threading.Event) -> None:
    """Tell when Ray is ready, and what a ClientApp raised where: the engine keeps it to itself."""
    backend: Any = import_module(_BACKEND).RayBackend
    stock_build, stock = backend.build, backend.process_message

    @functools.wraps(stock_build)
    def build(self: Any, app_fn: Any) -> None:
        stock_build(self, app_fn)
        ready.set()

    @functools.wraps(stock)
    def process_message(self: Any, message: Any, context: Any) -> Any:
        with Telling(report, node_name(context.node_config["partition-id"])):
            return stock(self, message, context)

    backend.build = build
    backend.process_message = process_message


def _watch_server(module: Any, report: Report, await_nodes: Callable[[], object]) -> None:
    """Start the ServerApp when the nodes can answer: its first round shall not count Ray's start.

    When Ray fails this thread waits for ever, and ends with the process.
    """
    stock = module._run  # noqa: SLF001

    @functools.wraps(stock)
    def run(*args: Any, **kwargs: Any) -> Any:
        await_nodes()
        with Telling(report, HUB):
            return stock(*args, **kwargs)

    module._run = run  # noqa: SLF001
