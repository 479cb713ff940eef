"""Flower's state by SQLAlchemy and by the short way: the same calls, the same answers, the same rows."""

from __future__ import annotations

import copy
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pytest
from flwr.app import ArrayRecord
from flwr.server.superlink.linkstate import sql_linkstate
from flwr.server.superlink.linkstate import utils as linkstate_utils
from flwr.supercore.corestate import sql_corestate
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.object_store import NoObjectInStoreError, sql_object_store
from flwr.supercore.sql_mixin import SqlMixin

from umbel.flower.fast import light

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Contents, Link

OWNERS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (SqlMixin, ("session", "dialect_insert")),
    (sql_object_store.SqlObjectStore, light.OBJECT_STORE),
    (sql_corestate.SqlCoreState, ("dialect_insert", *light.CORE_STATE)),
    (sql_linkstate.SqlLinkState, light.LINK_STATE),
)
STEPS = 120
BEGAN = datetime.now(UTC)


class Clock:
    """Goes on a little at each look, and can be put forward."""

    def __init__(self) -> None:
        self.at = BEGAN
        self.names = 0

    def now(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at

    def uuid4(self) -> UUID:
        self.names += 1
        return UUID(int=self.names)


@contextmanager
def relit() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for owner, names in OWNERS:
            for name in names:
                if name in vars(owner):
                    monkeypatch.setattr(owner, name, vars(owner)[name])
        light.install()
        yield


def rows(database: Path) -> dict[str, list[Any]]:
    with sqlite3.connect(database) as connection:
        names = [
            n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = {n: sorted(map(repr, connection.execute(f"SELECT * FROM {n}"))) for n in names}  # noqa: S608
    connection.close()
    return found


class Story:
    """Random calls of a federation's life, the same for the same seed."""

    def __init__(self, link: Link, clock: Clock, seed: int, contents: Contents) -> None:
        self.link = link
        self.contents = contents
        self.clock = clock
        self.chance = random.Random(seed)  # noqa: S311  # a story, not a secret
        self.asked: list[Any] = []
        self.replies: list[Any] = []
        self.sessions: list[str] = ["", "no such session"]

    def told(self, messages: dict[str, Any]) -> list[Any]:
        steps: tuple[Callable[[], Any], ...] = (
            lambda: self.announce(messages),
            lambda: self.announce(messages),
            *(self.push,) * 6,
            self.node_pulls,
            self.serverapp_pulls,
            self.reads,
            self.confirms,
            self.others,
            *(self.others,) * 3,
            self.expires,
        )
        seen = []
        for _ in range(STEPS):
            try:
                seen.append(repr(self.chance.choice(steps)()))
            except (ValueError, NoObjectInStoreError) as error:
                seen.append(repr(error))
        return seen

    def announce(self, messages: dict[str, Any]) -> Any:
        kind = self.chance.choice(sorted(messages))
        message = messages[kind]
        (self.replies if message.metadata.reply_to_message_id else self.asked).append(message)
        session = self.link.state.start_session(self.link.run_id)
        self.sessions.append(session)
        return self.link.state.store_message_and_object_tree(
            message, get_object_tree(message), session
        )

    def one(self) -> Any:
        return self.chance.choice([*self.asked, *self.replies] or [self.link.made("unknown")])

    def push(self) -> Any:
        object_id, body = self.chance.choice(sorted(self.contents(self.one()).items()))
        session = self.chance.choice(self.sessions[-3:] + self.sessions[:2])
        body = self.chance.choice([body, body, body, b"something else"])
        return self.link.state.store_object(self.link.run_id, session, object_id, body)

    def node_pulls(self) -> Any:
        limit = self.chance.choice([1, 1, None])
        found = self.link.state.get_message_ins(self.link.site.node_id, limit)
        return [(m.metadata, self.tree(m.metadata.message_id)) for m in found]

    def tree(self, message_id: str) -> str:
        return repr(self.link.state.object_store.get_object_tree(message_id))

    def serverapp_pulls(self) -> Any:
        ids = {m.metadata.message_id for m in self.asked if self.chance.random() < 0.8}
        found = self.link.state.get_message_res(ids, self.link.run_id)
        return sorted((m.metadata.reply_to_message_id, m.has_error()) for m in found)

    def reads(self) -> Any:
        object_id = self.chance.choice(sorted(self.contents(self.one())))
        return (
            self.link.state.get_object(self.link.run_id, object_id),
            self.link.state.get_task_by_token(self.chance.choice([self.link.token, "no"])),
            self.link.state.get_run_status({self.link.run_id, 7}),
            self.link.state.get_node_id_by_public_key(self.link.site.public),
            self.link.state.get_nodes(self.link.run_id),
        )

    def confirms(self) -> Any:
        message_id = self.one().metadata.message_id
        if self.chance.random() < 0.5:
            return self.link.state.object_store.delete(message_id)
        return self.link.state.delete_messages({message_id})

    def others(self) -> Any:
        run_id, task_id = self.link.run_id, self.link.task.task_id
        self.link.state.store_traffic(run_id, bytes_sent=3, bytes_recv=0)
        self.link.state.add_clientapp_runtime(run_id, 0.5)
        return (
            self.link.state.acknowledge_node_heartbeat(self.link.site.node_id, 30),
            self.link.state.acknowledge_node_heartbeat(7, 30),
            self.link.state.acknowledge_task_heartbeat(task_id),
        )

    def expires(self) -> None:
        """Let time pass; the run's own task is kept alive, as a rule."""
        for _ in range(self.chance.choice([1, 2, 10, 20])):
            self.clock.at += timedelta(seconds=20)
            if self.chance.random() < 0.99:
                self.link.state.acknowledge_task_heartbeat(self.link.task.task_id)


def lived(
    link: Link, database: Path, seed: int, messages: dict[str, Any], contents: Contents
) -> list[Any]:
    """Live the story on this copy of the link's database; gives what was seen."""
    clock = Clock()
    there = copy.copy(link)
    there._database = database
    there._open()
    with pytest.MonkeyPatch.context() as monkeypatch:
        for module in (sql_linkstate, sql_corestate, linkstate_utils):
            monkeypatch.setattr(module, "now", clock.now)
        monkeypatch.setattr(sql_corestate, "uuid4", clock.uuid4)
        with relit() if database.name == "light.db" else nullcontext():
            seen = Story(there, clock, seed, contents).told(messages)
    there.close()
    return seen


def made(link: Link) -> dict[str, Any]:
    """Make messages and replies, good ones and bad ones."""
    arrays = ArrayRecord([np.arange(6.0), np.ones(3), np.ones(3)])
    asked = [link.made("one"), link.made(arrays), link.made("three")]
    replies = [link.made(f"reply {i}", m.metadata.message_id) for i, m in enumerate(asked)]
    second = link.made("another reply", asked[0].metadata.message_id)
    stray = link.made("a reply to nothing", "0" * 64)
    lost = link.made("to nobody")
    lost.metadata.__dict__["_dst_node_id"] = 7
    alien = link.made("of another run")
    alien.metadata.__dict__["_run_id"] = 7
    all_ = [*asked, *replies, second, stray, lost, alien]
    return {f"{i:02}": message for i, message in enumerate(all_)}


@pytest.mark.parametrize("seed", range(8))
def test_the_short_way_gives_the_same_answers_and_leaves_the_same_rows(
    link: Link, contents: Contents, tmp_path: Path, seed: int
) -> None:
    messages = made(link)
    link.close()
    files = [tmp_path / name for name in ("stock.db", "light.db")]
    for file in files:
        shutil.copy(tmp_path / "state.db", file)

    stock, lit = (lived(link, file, seed, messages, contents) for file in files)

    assert lit == stock
    assert rows(files[1]) == rows(files[0])
    assert len(set(stock)) > 8  # something happened
