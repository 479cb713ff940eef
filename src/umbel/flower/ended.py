"""Lets a SuperNode give up a message whose run has ended: nobody waits for its reply.

Flower's SuperNode does one message at a time and waits for its reply however long that takes, also
when the run was stopped long ago. Ours asks now and then whether the run goes on. If not, the task
ends: its process learns so with its next heartbeat (`mind_refusals`), and the next message has its turn.

A run that is stopped while its message arrives leaves a task behind whose reply is nobody's. Flower's
SuperNode takes that one for the next message's, and is one reply late from then on. Ours ends the task,
and waits for the reply to the message that it has.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from umbel.flower.fast import guard
from umbel.flower.fast.guard import Way

ASK_S = 10.0
_UNFINISHED = ("pending", "starting", "running")
_REFUSED = (401, 403)  # nobody knows the task's token any more
log = logging.getLogger("flwr")


def _unasked(_run_id: int) -> None:
    """Answer nothing: nobody waits yet."""


class _Work:
    """The message that is in work, and how to ask after its run while its reply is waited for."""

    def __init__(self) -> None:
        self.message_id = ""
        self.run_id = 0
        self.get_run: Callable[[int], object] = _unasked
        self.waiting = False


class _Patience:
    """Stands in for `time` in the SuperNode's loop: whoever waits for a reply asks now and then."""

    def __init__(self, clock: Any, work: _Work) -> None:
        self._clock = clock
        self._work = work
        self._failure: Any = import_module("httpx").HTTPError
        self.asked_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def sleep(self, seconds: float) -> None:
        """Sleep; raise Flower's own exception when the run that is waited for has ended."""
        self._clock.sleep(seconds)
        if not self._work.waiting or time.monotonic() - self.asked_s < ASK_S:
            return
        guard.took(Way.ENDED)
        self.asked_s = time.monotonic()
        with contextlib.suppress(self._failure):  # who cannot ask goes on waiting
            self._work.get_run(self._work.run_id)


def install() -> None:
    """Change how the SuperNode of this process waits for replies."""
    loop: Any = import_module("flwr.supernode.start_client_internal")
    over: Any = import_module("flwr.supercore.run").RunNotRunningException
    pull, push = loop._pull_and_store_message, loop._push_messages  # noqa: SLF001
    work = _Work()
    patience = _Patience(loop.time, work)

    @functools.wraps(pull)
    def pulled(*, state: Any, object_store: Any, receive: Any, get_run: Any, **how: Any) -> Any:
        work.message_id, work.get_run = "", get_run

        def received() -> Any:
            found = receive()
            if found:
                about = found[0].metadata
                work.message_id, work.run_id = about.message_id, about.run_id
            return found

        how |= {"receive": received, "get_run": get_run}
        run_id = pull(state=state, object_store=object_store, **how)
        if run_id is None and work.message_id:
            _give_up(work, state, object_store)
        return run_id

    @functools.wraps(push)
    def pushed(*, state: Any, object_store: Any, **how: Any) -> None:
        patience.asked_s, work.waiting = time.monotonic(), True
        try:
            push(state=state, object_store=object_store, **how)
            while work.message_id in state.msg_store:  # that was the reply to another one
                push(state=state, object_store=object_store, **how)
        except over:
            _give_up(work, state, object_store)
        finally:
            work.waiting = False

    loop._pull_and_store_message, loop._push_messages = pulled, pushed  # noqa: SLF001
    loop.time = patience


def _give_up(work: _Work, state: Any, object_store: Any) -> None:
    """End the tasks of a run that has ended; whoever does them is told with the next heartbeat."""
    log.info("The message of run %s is given up: nobody waits for its reply", work.run_id)
    for task in state.get_tasks(run_ids=[work.run_id], statuses=_UNFINISHED):
        state.finish_task(task.task_id, sub_status="stopped", details="the run has ended")
    late = state.get_messages_legacy(run_ids=[work.run_id], is_reply=True)
    for message_id in (work.message_id, *(reply.metadata.message_id for reply in late)):
        state.delete_messages(message_ids=[message_id])
        object_store.delete(message_id)


def mind_refusals(module: Any) -> None:
    """Let the app of this process end when its heartbeat is refused: Flower's would go on unheard."""
    refused: Any = import_module("httpx").HTTPStatusError
    stock = module.make_task_heartbeat_fn_http

    @functools.wraps(stock)
    def made(client: Any) -> Callable[[], bool]:
        beat = stock(client)

        def minding() -> bool:
            try:
                return bool(beat())
            except refused as error:
                if error.response.status_code not in _REFUSED:
                    raise
                signal.raise_signal(signal.SIGINT)
                return True

        return minding

    module.make_task_heartbeat_fn_http = made
