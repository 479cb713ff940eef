"""Sends objects in batches, with Flower's own functions around it.

Flower's functions for one object are called twice: once to learn what they would send, once to let
them judge the answer. What is sent in between is one request. A server that knows no batches is
asked in the usual way from then on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from umbel.flower.fast import bulk, guard, parts, streams
from umbel.flower.fast.guard import Way

SMALL_BYTES = 256 << 10
BATCH_BYTES = 1 << 20
BATCH_PARTS = 512
_UNKNOWN = frozenset({400, 401, 404, 405, 415, 501})  # answers of a server without batches
_AWAY = frozenset({502, 503, 504})  # what Flower's clients ask again after
LARGE_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class _Call:
    """A request that was not sent."""

    client: Any
    path: str
    rpc_method: str
    request: Any
    kind: Any


class _Noted(BaseException):
    """Ends a call after its request was noted; no handler of Flower's may catch it."""


_note: ContextVar[list[_Call] | None] = ContextVar("note", default=None)
_given: ContextVar[Any] = ContextVar("given", default=None)
_no_batches: set[int] = set()  # clients whose server knows none


def install() -> None:
    """Let every client of this process send objects in batches."""
    if guard.open_to(Way.STREAMS):
        streams.install()
    if not guard.open_to(Way.BATCH):
        return
    bulk.install_client()
    install_calls()
    tools: Any = import_module("flwr.supercore.inflatable.inflatable_utils")
    pull = _pulling(tools.pull_objects)
    push = _pushing(tools.push_object_contents_from_iterable)
    for name in (
        "flwr.supercore.inflatable.inflatable_utils",
        "flwr.superlink.grid.http_grid",
        "flwr.supernode.start_client_internal",
    ):
        module: Any = import_module(name)
        if hasattr(module, "pull_objects"):
            module.pull_objects = pull
        if hasattr(module, "push_object_contents_from_iterable"):
            module.push_object_contents_from_iterable = push


def install_calls() -> None:
    """Let calls of one kind be made `together`, and nothing else; needs little of Flower."""
    if guard.open_to(Way.BATCH):
        client: Any = import_module("flwr.supercore.protobuf.client").ProtobufClient
        client._unary_unary = _listening(client._unary_unary)  # noqa: SLF001


def _listening(stock: Any) -> Any:
    @functools.wraps(stock)
    def unary(self: Any, *, path: str, rpc_method: str, request: Any, response_type: Any,
              timeout: float | None = None) -> Any:  # fmt: skip
        given = _given.get()
        if given is not None:
            return given
        noting = _note.get()
        if noting is not None:
            noting.append(_Call(self, path, rpc_method, request, response_type))
            raise _Noted
        return stock(self, path=path, rpc_method=rpc_method, request=request,
                     response_type=response_type, timeout=timeout)  # fmt: skip

    return unary


def _learn(call: Callable[[], Any]) -> _Call | None:
    """Find out what the call would send."""
    noted: list[_Call] = []
    token = _note.set(noted)
    try:
        call()
    except _Noted:
        return noted[0]
    finally:
        _note.reset(token)
    return None


@contextmanager
def _answered(call: _Call, body: bytes | memoryview) -> Iterator[None]:
    """Let the next call find this answer."""
    response = bulk.parsed(call.kind, body)
    token = _given.set(response)
    try:
        yield
    finally:
        _given.reset(token)


def _exchange(calls: Sequence[_Call]) -> list[tuple[int, bytes | memoryview]] | None:
    """Send the calls as one request; None when the server knows no batches."""
    first = calls[0]
    client = first.client
    if id(client) in _no_batches:
        return None
    base, _, route = first.path.rpartition("/")
    number = parts.ROUTES.index(route)
    content = parts.pack((number, c.request.SerializeToString(deterministic=True)) for c in calls)
    answer = _post(client, f"{base}/umbel-batch", first, content)
    if answer is None:
        _no_batches.add(id(client))
        return None
    guard.took(Way.BATCH)
    rows = parts.unpack(answer)
    if len(rows) != len(calls):
        raise parts.Malformed("another number of answers than of requests")
    return rows


def _tried(calls: Sequence[_Call]) -> list[tuple[int, bytes | memoryview]] | None:
    """Send a batch; None also when the way is broken: single requests have their caller's patience."""
    httpx: Any = import_module("httpx")
    try:
        return _exchange(calls)
    except httpx.TransportError:
        return None
    except httpx.HTTPStatusError as error:
        if error.response.status_code not in _AWAY:
            raise
        return None


def _post(client: Any, path: str, call: _Call, content: bytes) -> bytes | None:
    """Send with the client's own credentials and retries."""
    module: Any = import_module("flwr.supercore.protobuf.client")

    def send() -> Any:
        request = client._client.build_request(  # noqa: SLF001
            method="POST",
            url=f"{client._base_url}{path}",  # noqa: SLF001
            content=content,
            headers={"content-type": parts.MEDIA, "accept": parts.MEDIA},
        )
        context = module.ProtobufRequestContext(
            rpc_method=call.rpc_method, message=call.request, request=request
        )
        response = client._send(context)  # noqa: SLF001
        if response.status_code not in _UNKNOWN:
            response.raise_for_status()
        return response

    retry = client._retry_invoker  # noqa: SLF001
    response = retry.invoke(send) if retry is not None else send()
    if response.headers.get("content-type") != parts.MEDIA:
        return None
    body: bytes = response.content
    return body


def _pulling(stock: Any) -> Any:
    @functools.wraps(stock)
    def pull_objects(object_ids: Any, pull_object_fn: Any, **limits: Any) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        todo = list(object_ids)
        while len(todo) > 1:
            now = todo[:BATCH_PARTS]
            calls = [_learn(functools.partial(pull_object_fn, o)) for o in now]
            if None in calls:
                break
            rows = _tried([c for c in calls if c is not None])
            if rows is None or not _take(found, now, calls, rows, pull_object_fn):
                break
            todo = [o for o in todo if o not in found]
        if todo:
            found |= stock(todo, pull_object_fn, **limits)
        return found

    return pull_objects


def _take(
    found: dict[str, bytes], ids: Sequence[str], calls: Sequence[_Call | None],
    rows: Sequence[tuple[int, bytes | memoryview]], pull_object_fn: Any,
) -> bool:  # fmt: skip
    """Let Flower's function judge each answer; False when nothing came."""
    unavailable: Any = import_module(
        "flwr.supercore.inflatable.inflatable_utils"
    ).ObjectUnavailableError
    before = len(found)
    for object_id, call, (status, body) in zip(ids, calls, rows, strict=True):
        if status == parts.LATER or call is None:
            continue
        with _answered(call, body):
            try:
                found[object_id] = pull_object_fn(object_id)
            except unavailable:
                continue
    return len(found) > before


def _pushing(stock: Any) -> Any:
    @functools.wraps(stock)
    def push(object_contents: Iterable[Any], push_object_fn: Any, **limits: Any) -> None:
        small: list[tuple[str, bytes]] = []
        size = 0
        with ThreadPoolExecutor(LARGE_AT_ONCE) as large:
            pushing = []
            for object_id, content in object_contents:
                if len(content) > SMALL_BYTES:
                    pushing.append(large.submit(push_object_fn, object_id, content))
                    continue
                small.append((object_id, content))
                size += len(content)
                if size >= BATCH_BYTES or len(small) >= BATCH_PARTS:
                    _push_small(stock, small, push_object_fn, limits)
                    small, size = [], 0
            _push_small(stock, small, push_object_fn, limits)
            for one in pushing:
                one.result()

    return push


def _push_small(
    stock: Any, small: Sequence[tuple[str, bytes]], push_object_fn: Any, limits: Any
) -> None:
    if not small:
        return
    calls = [_learn(functools.partial(push_object_fn, *item)) for item in small]
    known = [call for call in calls if call is not None]
    rows = _tried(known) if len(known) == len(small) > 1 else None
    if rows is None:
        stock(small, push_object_fn, **limits)
        return
    for item, call, (_, body) in zip(small, known, rows, strict=True):
        with _answered(call, body):
            push_object_fn(*item)


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make calls of one kind as one request; gives their results, in order."""
    if not guard.open_to(Way.BATCH):  # nobody listens: to learn from a call would be to make it
        return [call() for call in calls]
    results: list[Any] = []
    for start in range(0, len(calls), BATCH_PARTS):
        some = calls[start : start + BATCH_PARTS]
        learnt = [_learn(call) for call in some]
        known = [call for call in learnt if call is not None]
        rows = _exchange(known) if len(known) == len(some) > 1 else None
        if rows is None:
            results += [call() for call in some]
            continue
        for call, made, (_, body) in zip(some, known, rows, strict=True):
            with _answered(made, body):
                results.append(call())
    return results
