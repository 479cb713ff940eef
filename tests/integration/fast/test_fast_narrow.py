"""A SuperLink's real state: a run sees the sites that can run its app."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flwr.common.constant import NOOP_FLWR_AID
from flwr.proto.runtime_pb2 import GetNodesRequest
from flwr.superlink.servicer.runtime import runtime_handlers

from umbel.flower.fast import narrow

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Link

Seen = Callable[[], set[str]]


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "environments.json"


@pytest.fixture
def seen(link: Link, told: Path, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Have two more nodes, with names; give what the run sees: it is one of the app a/b."""
    monkeypatch.setattr(runtime_handlers, "get_nodes", runtime_handlers.get_nodes)
    narrow.install(told)
    for name in ("berlin", "boston"):
        node_id = link.state.create_node(NOOP_FLWR_AID, "none", name.encode(), 30, name=name)
        assert link.state.activate_node(node_id, 30)

    def look() -> set[str]:
        answer = runtime_handlers.get_nodes(GetNodesRequest(), link.state, link.task)
        return {node.name for node in answer.nodes}

    return look


def test_without_a_file_every_run_sees_everybody(seen: Seen) -> None:
    assert seen() == {"", "berlin", "boston"}


def test_an_app_without_an_environment_sees_everybody(seen: Seen, told: Path) -> None:
    told.write_text(json.dumps({"other/app": ["berlin"]}))
    assert seen() == {"", "berlin", "boston"}


def test_an_app_with_an_environment_sees_who_has_it_from_then_on(seen: Seen, told: Path) -> None:
    told.write_text(json.dumps({"a/b": ["berlin"]}))
    assert seen() == {"berlin"}
    told.write_text(json.dumps({"a/b": ["berlin", "boston"]}))
    assert seen() == {"berlin", "boston"}
    told.write_text(json.dumps({"a/b": []}))
    assert seen() == set()
    told.unlink()
    assert seen() == {"", "berlin", "boston"}
