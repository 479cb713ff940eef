"""Plays a Flower app in this process: its ServerApp, and its ClientApp once a node."""

from __future__ import annotations

import importlib
import shutil
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BOTH = ("serverapp", "clientapp")


@dataclass
class Loopback:
    """A grid whose nodes live in this process: it hands every message to the ClientApp at once."""

    flower: Any
    client: Any
    contexts: list[Any]
    sent: list[Any] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)

    def get_node_ids(self) -> list[int]:
        return [context.node_id for context in self.contexts]

    def send_and_receive(
        self,
        messages: Iterable[Any],
        *,
        timeout: float | None = None,  # noqa: ARG002
    ) -> list[Any]:
        replies = [self._answer(message) for message in messages]
        self.replies += replies
        return replies

    def weights(self) -> list[Any]:
        """Give the arrays that were sent last."""
        arrays: list[Any] = self.sent[-1].content["arrays"].to_numpy_ndarrays()
        return arrays

    def metrics(self, message_type: str) -> list[dict[str, Any]]:
        """Give the metrics of all replies of one type, in order."""
        return [
            dict(next(iter(reply.content.metric_records.values())))
            for reply in self.replies
            if reply.metadata.message_type == message_type and not reply.has_error()
        ]

    def _answer(self, message: Any) -> Any:
        self.sent.append(message)
        context = self.contexts[message.metadata.dst_node_id - 1]
        try:
            return self.client(message=message, context=context)
        except RuntimeError as error:  # as Flower's own runtime does
            failure = self.flower.Error(code=0, reason=repr(error))
            return self.flower.Message(failure, reply_to=message)


@pytest.fixture(scope="session")
def flower() -> ModuleType:
    """Give `flwr.app`; what its imports warn of is not ours to change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("flwr.clientapp", "flwr.serverapp", "flwr.serverapp.strategy"):
            importlib.import_module(name)
        return importlib.import_module("flwr.app")


@pytest.fixture
def identity() -> Iterator[None]:
    """Let messages be made: Flower's own processes know their run and node."""
    ours = importlib.import_module("flwr.supercore.task_identity").TaskIdentity
    ours.task_id, ours.run_id, ours.node_id = 1, 1, 0
    yield
    ours.task_id, ours.run_id, ours.node_id = None, None, None


@pytest.fixture
def imported(
    flower: ModuleType,  # noqa: ARG001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Path, str], ModuleType]]:
    """Import a module of an app from a copy of its folder; nothing of it stays imported."""
    packages: set[str] = set()

    def load(folder: Path, module: str) -> ModuleType:
        copy = tmp_path / "copies" / folder.name
        if not copy.exists():
            shutil.copytree(folder, copy)
            monkeypatch.syspath_prepend(copy)
        packages.add(module.partition(".")[0])
        return importlib.import_module(module)

    yield load
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


@pytest.fixture
def play(
    flower: ModuleType,
    identity: None,  # noqa: ARG001
    imported: Callable[[Path, str], ModuleType],
) -> Callable[..., Loopback]:
    """Run an app from its folder on some nodes."""

    def run(folder: Path, nodes: int = 3, **config: Any) -> Loopback:
        app = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
        run_config = app["config"] | {key.replace("_", "-"): each for key, each in config.items()}
        server, client = (
            getattr(imported(folder, module), name)
            for module, name in (app["components"][part].split(":") for part in BOTH)
        )

        def context(node_id: int) -> Any:
            node = {"partition-id": node_id - 1, "num-partitions": nodes}
            return flower.Context(1, node_id, node, flower.RecordDict(), run_config)

        grid = Loopback(flower, client, [context(node + 1) for node in range(nodes)])
        server(grid, context(0))
        return grid

    return run
