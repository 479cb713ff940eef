"""What Umbel asks of the Control API, through the gate, with Flower's own client."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from umbel.errors import RequestError, WorldError
from umbel.flower.commands import Scalar
from umbel.flower.fast import batch_client
from umbel.model.status import NodeSeen, RunStatus

FEDERATION = "@none/default"  # the only one that the open SuperLink has
_MODULES = (
    "flwr.supercore.control",
    "flwr.proto.control_pb2",
    "flwr.common.serde",
    "flwr.supercore.fab",
    "flwr.cli.config_utils",
    "httpx",
)
FAB_LIMIT = 10 * 1024 * 1024  # over this, StartRun answers run id 0 and no error


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a federation's Control API. The token is read from its file when used."""

    address: str
    ca: Path
    token_file: Path


class ControlRefused(RequestError):
    """The SuperLink said no."""

    code = "U310"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}", hint="umbel status shows what is there")


class ControlUnreachable(WorldError):
    """Nobody answers at the Control API."""

    code = "U213"

    def __init__(self, address: str, why: str) -> None:
        super().__init__(
            f"the Control API at {address} does not answer: {why}",
            hint="umbel status tells what is down; umbel up starts it again",
        )


class AppInvalid(RequestError):
    """The folder is not a Flower app that can be built."""

    code = "U311"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{path} is not a runnable Flower app: {why}",
            hint="a Flower app is a folder with a pyproject.toml that has [tool.flwr.app]; "
            "umbel init writes one",
        )


class AppTooLarge(RequestError):
    """The app bundle is larger than Flower takes."""

    code = "U312"

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the app bundle has {size / 2**20:.1f} MiB; Flower takes at most 10 MiB",
            hint="keep data and models out of the app folder, or name them in "
            "[tool.flwr.app] fab-exclude",
        )


class _Bearer:
    """Adds the user's token, as Flower's own command line does after a login."""

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}"

    def intercept(self, context: Any, call_next: Any) -> Any:
        context.request.headers["Authorization"] = self._header
        return call_next(context)


def load() -> None:
    """Load now what a conversation needs, so that the first is as fast as the others."""
    for name in _MODULES:
        import_module(name)


class Control:
    """A conversation with one federation's Control API."""

    def __init__(self, connection: Connection) -> None:
        client = import_module("flwr.supercore.control").ControlHttpClient
        self._address = connection.address
        self._proto: Any = import_module("flwr.proto.control_pb2")
        self._http: Any = import_module("httpx")
        token = connection.token_file.read_text().strip()
        self._client: Any = client.from_server_address(
            connection.address,
            insecure=False,
            root_certificates=connection.ca.read_bytes(),
            interceptors=[_Bearer(token)],
        )

    def close(self) -> None:
        """End the conversation."""
        self._client.close()

    def _call(self, what: str, request: Any) -> Any:
        try:
            return getattr(self._client, what)(request)
        except self._http.HTTPStatusError as error:
            status = error.response.status_code
            if status in {502, 503, 504}:
                raise ControlUnreachable(self._address, f"answer {status}") from error
            raise ControlRefused(what, _reason(error.response)) from error
        except self._http.TransportError as error:
            raise ControlUnreachable(self._address, str(error) or type(error).__name__) from error

    def nodes(self) -> list[NodeSeen]:
        """List the SuperNodes that are not unregistered."""
        answer = self._call("ListNodes", self._proto.ListNodesRequest())
        return [_node(info) for info in answer.nodes_info if info.status != "unregistered"]

    def register(self, public_pem: bytes, name: str) -> int:
        """Let the SuperNode with this key in; gives its node id."""
        request = self._proto.RegisterNodeRequest(public_key=public_pem, name=name)
        return int(self._call("RegisterNode", request).node_id)

    def register_all(self, keys: Sequence[tuple[str, bytes]]) -> list[int]:
        """Let many SuperNodes in, all or none; gives their node ids."""
        _install_batches()
        calls = [partial(self.register, pem, name) for name, pem in keys]
        try:
            return batch_client.together(calls)
        except self._http.HTTPStatusError as error:
            raise ControlRefused("RegisterNode", _reason(error.response)) from error
        except self._http.TransportError as error:
            raise ControlUnreachable(self._address, str(error) or type(error).__name__) from error

    def unregister(self, node_id: int) -> None:
        """Shut the SuperNode out, for ever: its key cannot come back."""
        self._call("UnregisterNode", self._proto.UnregisterNodeRequest(node_id=node_id))

    def runs(self) -> list[RunStatus]:
        """List the runs, newest first."""
        answer = self._call("ListRuns", self._proto.ListRunsRequest())
        runs = sorted(answer.run_dict.values(), key=lambda run: run.pending_at, reverse=True)
        return [_run(run) for run in runs]

    def start(self, app: Path, config: dict[str, Scalar]) -> tuple[int, str]:
        """Build the app, submit it; gives the run's id and the app's name."""
        return self._submit(*build(app), config)

    def submit(self, fab: bytes, config: dict[str, Scalar]) -> tuple[int, str]:
        """Submit an app that was built elsewhere; gives the run's id and the app's name."""
        return self._submit(fab, name_of(fab, "the uploaded bundle"), config)

    def _submit(self, fab: bytes, fab_id: str, config: dict[str, Scalar]) -> tuple[int, str]:
        serde = import_module("flwr.common.serde")
        fab_proto = serde.fab_to_proto(
            import_module("flwr.supercore.fab").Fab(hashlib.sha256(fab).hexdigest(), fab, {})
        )
        request = self._proto.StartRunRequest(
            fab=fab_proto,
            override_config=serde.user_config_to_proto(config),
            federation=FEDERATION,
        )
        run_id = int(self._call("StartRun", request).run_id)
        if run_id == 0:
            raise ControlRefused("StartRun", "the SuperLink took the app but gave no run id")
        return run_id, fab_id

    def stop(self, run_id: int) -> bool:
        """Stop the run; False when it had ended already."""
        return bool(self._call("StopRun", self._proto.StopRunRequest(run_id=run_id)).success)


def build(app: Path) -> tuple[bytes, str]:
    """Build the app's bundle (FAB); gives its bytes and the app's name and version."""
    module = import_module("flwr.cli.build")
    with _told(str(app)):
        fab: bytes = module.build_fab_from_disk(app)
    return fab, name_of(fab, str(app))


def name_of(fab: bytes, source: str) -> str:
    """Give name and version of the app in a bundle, which must be one that Flower takes."""
    metadata = import_module("flwr.cli.config_utils").get_fab_metadata
    with _told(source):
        fab_id, version = metadata(fab)
    if len(fab) > FAB_LIMIT:
        raise AppTooLarge(len(fab))
    return f"{fab_id}=={version}"


@contextmanager
def _told(source: str) -> Iterator[None]:
    """Turn what Flower finds wrong with an app into one error."""
    click, typer = import_module("click"), import_module("typer")
    try:
        yield
    except click.ClickException as error:
        raise AppInvalid(source, error.message) from error
    except (typer.Exit, ValueError, OSError, KeyError, BadZipFile) as error:
        raise AppInvalid(source, str(error) or type(error).__name__) from error


@cache
def _install_batches() -> None:
    """Once is enough: each time would wrap Flower's client once more."""
    batch_client.install_calls()


def _node(info: Any) -> NodeSeen:
    return NodeSeen(
        node_id=int(info.node_id),
        name=str(info.name),
        status=str(info.status),
        fingerprint=_fingerprint(bytes(info.public_key)),
        online_until=str(info.online_until or ""),
        last_activated_at=str(info.last_activated_at),
    )


def _fingerprint(public_key: bytes) -> str:
    serialization = import_module("cryptography.hazmat.primitives.serialization")
    try:
        key = serialization.load_pem_public_key(public_key)
    except ValueError:
        return ""
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(der).hexdigest()


_ENDED = {"completed": "completed", "failed": "failed", "stopped": "stopped"}


def _run(run: Any) -> RunStatus:
    status = str(run.status.status)
    if status == "finished":
        status = _ENDED.get(str(run.status.sub_status), "failed")
    return RunStatus(
        run_id=str(run.run_id),
        app=f"{run.fab_id}=={run.fab_version}",
        status=status,
        details=str(run.status.details),
        started_at=str(run.running_at or run.pending_at),
        finished_at=str(run.finished_at),
    )


def _reason(response: Any) -> str:
    try:
        body = response.json()
    except ValueError:
        return f"answer {response.status_code}"
    words = [body[k] for k in ("message", "detail", "details") if body.get(k)] if body else []
    told = ": ".join(str(word) for word in words) or "refused"
    return f"{told} (answer {response.status_code})"
