"""A pull claims a message; the claim counts only once its receiver has confirmed it.

Flower marks a message as delivered when it answers a pull. If that answer never arrives, the message
is lost and the round waits for its time-out. Here a claim is given back when the same receiver asks
again without having confirmed. Confirming deletes the message's own object, so the database itself
knows what is unconfirmed, also after a restart.

What a SuperNode confirmed it keeps in memory. One that signs on anew has lost it, and its ServerApp
would wait for the reply until the message's time is over: it is told that the node was not there.
"""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict
from collections.abc import Collection
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from umbel.flower.fast.light import Both

REMEMBERED = 65_536  # pushed objects
LIMIT = 5  # a message that its node cannot take is not given again for ever

_UNCONFIRMED_INS = """
    SELECT message_id FROM message_ins
    WHERE dst_node_id = :node AND delivered_at != ''
      AND message_id IN (SELECT object_id FROM objects)
      AND message_id NOT IN (SELECT reply_to_message_id FROM message_res)
"""
_HALF_SENT = """
    SELECT session_id FROM object_push_session_roots
    JOIN message_res ON root_object_id = message_id WHERE src_node_id = :node
"""
_LOST = """
    UPDATE message_ins SET dst_node_id = 0
    WHERE dst_node_id = :node AND delivered_at != ''
      AND message_id NOT IN (SELECT object_id FROM objects)
      AND message_id NOT IN (SELECT reply_to_message_id FROM message_res)
"""  # no node has the id 0: Flower tells the ServerApp "node unavailable" when it asks next
_GIVE_BACK_INS = "UPDATE message_ins SET delivered_at = '' WHERE message_id = :id"
_GIVE_BACK_RES = """
    UPDATE message_res SET delivered_at = ''
    WHERE reply_to_message_id = :id AND delivered_at != ''
      AND message_id IN (SELECT object_id FROM objects)
"""
_CLAIMED = "SELECT 1 FROM message_res WHERE reply_to_message_id = :id AND delivered_at != ''"
_FORGET = (
    """
    DELETE FROM message_ins
    WHERE message_id IN (SELECT reply_to_message_id FROM message_res WHERE message_id = :id)
    """,
    "DELETE FROM message_res WHERE message_id = :id",
)

_THERE = """
    SELECT 1 FROM objects JOIN run_objects USING (object_id)
    WHERE object_id = :id AND run_id = :run AND is_available = 1
"""

_pulling: ContextVar[bool] = ContextVar("pulling", default=False)
_given_again: Counter[str] = Counter()
_pushed: OrderedDict[tuple[str, str], None] = OrderedDict()


def install() -> None:
    """Make claims of this SuperLink provisional."""
    state: Any = import_module("flwr.server.superlink.linkstate.sql_linkstate").SqlLinkState
    state.activate_node = _losing(state.activate_node)
    state.get_message_ins = _giving_back_ins(state.get_message_ins)
    state.get_message_res = _giving_back_res(state.get_message_res)
    state.delete_messages = _later(state.delete_messages)
    state.store_object = _there_already(state.store_object)
    handlers: Any = import_module("flwr.superlink.servicer.runtime.runtime_handlers")
    handlers.pull_messages = _keeping(handlers.pull_messages)
    handlers.confirm_message_received = _forgetting(handlers.confirm_message_received)


def _run(session: Any, statement: str, **values: Any) -> list[Any]:
    if isinstance(session, Both):
        return session.run(statement, values)
    result = session.execute(import_module("sqlalchemy").text(statement), values)
    return list(result) if result.returns_rows else []


def _losing(stock: Any) -> Any:
    signed: Any = import_module("flwr.supercore.utils").uint64_to_int64

    @functools.wraps(stock)
    def activate_node(self: Any, node_id: int, heartbeat_interval: float) -> bool:
        with self.session() as session:
            active = bool(stock(self, node_id, heartbeat_interval))
            if active:
                for (begun,) in _run(session, _HALF_SENT, node=signed(node_id)):
                    self._cleanup_push_session(begun, cleanup_messages=True)
                _run(session, _LOST, node=signed(node_id))
            return active

    return activate_node


def _giving_back_ins(stock: Any) -> Any:
    signed: Any = import_module("flwr.supercore.utils").uint64_to_int64

    @functools.wraps(stock)
    def get_message_ins(
        self: Any, node_id: int, limit: int | None, *, run_id: int | None = None
    ) -> Any:
        with self.session() as session:
            if run_id is None:  # a SuperNode asks; AgentApps name their run
                for (message_id,) in _run(session, _UNCONFIRMED_INS, node=signed(node_id)):
                    _given_again[message_id] += 1
                    if _given_again[message_id] <= LIMIT:
                        _run(session, _GIVE_BACK_INS, id=message_id)
            return stock(self, node_id, limit, run_id=run_id)

    return get_message_ins


def _giving_back_res(stock: Any) -> Any:
    @functools.wraps(stock)
    def get_message_res(self: Any, message_ids: Collection[str], run_id: int) -> Any:
        with self.session() as session:
            for message_id in message_ids:
                _run(session, _GIVE_BACK_RES, id=message_id)
            return stock(self, message_ids, run_id)

    return get_message_res


def _there_already(stock: Any) -> Any:
    """Take an object that is pushed again for stored: the answer to its first push was lost."""
    signed: Any = import_module("flwr.supercore.utils").uint64_to_int64

    @functools.wraps(stock)
    def store_object(
        self: Any, run_id: int, session_id: str, object_id: str, object_content: bytes
    ) -> bool:
        if stock(self, run_id, session_id, object_id, object_content):
            _pushed[session_id, object_id] = None
            if len(_pushed) > REMEMBERED:
                _pushed.popitem(last=False)
            return True
        if (session_id, object_id) in _pushed:  # its receiver may have taken it already
            return True
        with self.session() as session:
            return bool(_run(session, _THERE, id=object_id, run=signed(run_id)))

    return store_object


def _keeping(stock: Any) -> Any:
    """While a ServerApp pulls, no reply is deleted: it may not receive the answer."""

    @functools.wraps(stock)
    def pull_messages(*args: Any, **kwargs: Any) -> Any:
        token = _pulling.set(True)
        try:
            return stock(*args, **kwargs)
        finally:
            _pulling.reset(token)

    return pull_messages


def _later(stock: Any) -> Any:
    """Keep what has a claimed reply; a message that was told as failed must reach no node later."""

    @functools.wraps(stock)
    def delete_messages(self: Any, message_ins_ids: set[str]) -> None:
        gone = message_ins_ids
        if _pulling.get():
            with self.session() as session:
                gone = {i for i in gone if not _run(session, _CLAIMED, id=i)}
        stock(self, gone)

    return delete_messages


def _forgetting(stock: Any) -> Any:
    """What a ServerApp confirms is deleted then."""

    @functools.wraps(stock)
    def confirm_message_received(request: Any, state: Any, task: Any) -> Any:
        with state.session() as session:
            answer = stock(request, state, task)
            for statement in _FORGET:
                _run(session, statement, id=request.message_object_id)
            return answer

    return confirm_message_received
