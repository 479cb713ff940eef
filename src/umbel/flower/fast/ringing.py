"""Lets Flower's state ring a bell when it stores what somebody may wait for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from umbel.flower.fast.bells import Bells
from umbel.flower.fast.hold import node_bell, object_bell, reply_bell


def after(owner: Any, name: str, tell: Callable[..., object]) -> None:
    """Call `tell` with a method's arguments each time that the method has returned."""
    stock = getattr(owner, name)

    @functools.wraps(stock)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = stock(self, *args, **kwargs)
        tell(self, result, *args, **kwargs)
        return result

    setattr(owner, name, wrapped)


def superlink(bells: Bells, poke: Callable[[], None]) -> None:
    """Ring for messages, replies and objects of a SuperLink; poke for tasks."""
    state = import_module("flwr.server.superlink.linkstate.sql_linkstate").SqlLinkState

    def message(_: Any, stored: tuple[bool, Any], message: Any, *__: Any, **___: Any) -> None:
        if stored[0]:
            reply_to = message.metadata.reply_to_message_id
            bell = reply_bell(reply_to) if reply_to else node_bell(message.metadata.dst_node_id)
            bells.ring(bell)

    def stored_object(_: Any, stored: bool, __: int, ___: str, object_id: str, *____: Any) -> None:
        if stored:
            bells.ring(object_bell(object_id))

    after(state, "store_message_and_object_tree", message)
    after(state, "store_object", stored_object)
    after(state, "create_task", lambda *_, **__: poke())
    after(state, "create_run", lambda *_, **__: poke())


def supernode(bells: Bells, changed: Callable[[], None], poke: Callable[[], None]) -> None:
    """Ring for objects of a SuperNode, say when a reply or an object came, poke for tasks."""
    state = import_module("flwr.supernode.nodestate.in_memory_nodestate").InMemoryNodeState
    store = import_module("flwr.supercore.object_store.in_memory_object_store").InMemoryObjectStore

    def message(_: Any, __: Any, message: Any) -> None:
        if message.metadata.reply_to_message_id:
            changed()
        else:
            poke()  # the task was created before its message: only now it can be run

    def put(_: Any, __: Any, object_id: str, *___: Any) -> None:
        bells.ring(object_bell(object_id))
        changed()

    after(state, "store_message", message)
    after(store, "put", put)
    after(state, "finish_task", _answer_for_the_dead)


def _answer_for_the_dead(
    state: Any, finished: bool, task_id: int, sub_status: str, details: str
) -> None:
    """Reply in the name of a ClientApp that ended without a reply: else its node waits for ever."""
    if not finished or sub_status != "failed":
        return
    for task in state.get_tasks(task_ids=[task_id]):
        if task.type == "flwr-clientapp":
            with state.lock_msg_store:
                for entry in state.msg_store.values():
                    meta = entry.message.metadata
                    if meta.run_id == task.run_id and not meta.reply_to_message_id:
                        entry.is_retrieved = True  # it is answered now, also if nobody took it
            state._store_error_replies({task.run_id}, _crashed(details))  # noqa: SLF001


def _crashed(details: str) -> Any:
    stock: Any = import_module(
        "flwr.supernode.nodestate.in_memory_nodestate"
    ).CLIENT_APP_CRASHED_ERROR
    return import_module("flwr.app.error").Error(stock.code, details or stock.reason)


def connected(tell: Callable[[int], object]) -> None:
    """Say when a SuperNode is connected, and the node id that it learns then."""
    state = import_module("flwr.supernode.nodestate.in_memory_nodestate").InMemoryNodeState
    after(state, "set_node_id", lambda _, __, node_id: tell(node_id))
