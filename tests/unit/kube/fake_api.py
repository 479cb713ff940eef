"""An API server in memory, behind httpx's transport: get, list, watch, apply, merge, delete."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx

from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kinds import EVERY, Kind, Object
from umbel.kube.kubeconfig import Reach

_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<ns>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?P<status>/status)?"
)
_BY_PLURAL = {
    (replace(kind, api=api).root, kind.plural): kind
    for kind in EVERY
    for api in (kind.api, *kind.older)
}
_ROOTS = {root for root, _ in _BY_PLURAL}
Key = tuple[Kind, str, str]  # kind, namespace, name


@asynccontextmanager
async def kept_up(cache: Cache) -> AsyncIterator[None]:
    """Have a cache that is filled, and follows what changes."""
    watching = asyncio.create_task(cache.run())
    await cache.filled()
    yield
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


class FakeApi(httpx.AsyncBaseTransport):
    """Holds objects; counts versions; tells watchers."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.asked: list[str] = []
        self.served: set[Kind] = set(EVERY)
        self.older: dict[Kind, str] = {}  # kinds that are served in an older version
        self.refusals: dict[str, tuple[int, str]] = {}  # "METHOD path" begins so: status, reason
        self.silent = False
        self.page = 0  # objects a page; 0: as asked
        self._version = 100
        self._watchers: list[tuple[Kind, str, str, asyncio.Queue[str | None]]] = []

    def kube(self, **more: Any) -> Kube:
        reach = Reach("https://hub.example", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        return Kube(reach, transport=self, **more)

    def put(self, kind: Kind, name: str, namespace: str = "", **content: Any) -> Object:
        """Have an object, as somebody else would."""
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        meta |= content.pop("metadata", {})
        return self._store(kind, {"metadata": meta, **content})

    def drop(self, kind: Kind, name: str, namespace: str = "") -> None:
        gone = self.objects.pop((kind, namespace, name))
        self._version += 1
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._tell(kind, "DELETED", gone)

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        return self.objects.get((kind, namespace, name))

    async def until(self, holds: Callable[[], Any]) -> Any:
        """Let everybody take turns until something is true."""
        async with asyncio.timeout(20):
            while not (found := holds()):  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0)
        return found

    def watching(self, kind: Kind) -> bool:
        """Whether somebody watches the kind now."""
        return any(watched is kind for watched, *_ in self._watchers)

    def end_watches(self, *, gone: bool = False) -> None:
        """Let every watch end: quietly, or because the server forgot the version."""
        for _, _, _, queue in self._watchers:
            if gone:
                queue.put_nowait(json.dumps({"type": "ERROR", "object": {"code": 410}}))
            queue.put_nowait(None)
        self._watchers.clear()

    def bookmark(self, kind: Kind) -> str:
        """Tell watchers how far they are, as a server does now and then."""
        self._version += 1
        content = {"metadata": {"resourceVersion": str(self._version)}}
        for watched, _, _, queue in self._watchers:
            if watched is kind:
                queue.put_nowait(json.dumps({"type": "BOOKMARK", "object": content}))
        return str(self._version)

    def _store(self, kind: Kind, content: Object) -> Object:
        meta = content["metadata"]
        key = (kind, meta.get("namespace", ""), meta["name"])
        before = self.objects.get(key)
        self._version += 1
        changed = before is None or before.get("spec") != content.get("spec")
        generation = (before or {}).get("metadata", {}).get("generation", 0) + bool(changed)
        uid = (before or {}).get("metadata", {}).get("uid", f"uid-{self._version}")
        known = {"resourceVersion": str(self._version), "generation": generation, "uid": uid}
        made = {"apiVersion": kind.api, "kind": kind.name, **content, "metadata": {**meta, **known}}
        self.objects[key] = made
        self._tell(kind, "MODIFIED" if before else "ADDED", made)
        return made

    def _tell(self, kind: Kind, what: str, content: Object) -> None:
        meta = content["metadata"]
        for watched, namespace, labels, queue in self._watchers:
            here = namespace in ("", meta.get("namespace", ""))
            if watched is kind and here and _fits(content, labels):
                queue.put_nowait(json.dumps({"type": what, "object": content}))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        if self.silent:
            raise httpx.ConnectError("nobody there")
        path, query = request.url.path, dict(request.url.params)
        asked = f"{request.method} {path}"
        self.asked.append(f"WATCH {path}" if query.get("watch") else asked)
        for begins, (status, reason) in self.refusals.items():
            if asked.startswith(begins):
                return _answer(status, {"reason": reason, "message": f"it said {reason}"})
        if path in _ROOTS:
            return self._discovery(path)
        found = _PATH.fullmatch(path)
        kind = _BY_PLURAL.get((found["root"], found["plural"])) if found else None
        if found is None or kind is None or self._root(kind) != found["root"]:
            return _answer(404, {"reason": "NotFound", "message": "no such kind"})
        if query.get("watch"):
            return self._watch(kind, found["ns"] or "", query.get("labelSelector", ""))
        body = json.loads(await request.aread() or b"null")
        key = (kind, found["ns"] or "", found["name"] or "")
        return self._serve(request.method, key, body, query | _extra(request, found))

    def _root(self, kind: Kind) -> str:
        """Give where the kind is served; nothing if it is not."""
        one = replace(kind, api=self.older.get(kind, kind.api))
        return one.root if kind in self.served else ""

    def _discovery(self, path: str) -> httpx.Response:
        names = [{"name": kind.plural} for kind in self.served if self._root(kind) == path]
        return _answer(200, {"resources": names}) if names else _answer(404, {})

    def _serve(self, method: str, key: Key, body: Any, query: Mapping[str, str]) -> httpx.Response:
        kind, namespace, name = key
        if not name:
            return self._list(kind, namespace, query) if method == "GET" else self._made(kind, body)
        found = self.objects.get(key)
        makes = "apply-patch" in query["content-type"] and not query["status"]
        if found is None and not makes:
            return _answer(404, {"reason": "NotFound", "message": f"no {kind.name} {name}"})
        match method:
            case "DELETE":
                self.drop(kind, name, namespace)
            case "PUT":
                return self._replaced(kind, found or {}, body)
            case "PATCH":
                found = self._store(kind, _patched(found or {}, body, query))
        return _answer(200, found)

    def _made(self, kind: Kind, body: Object) -> httpx.Response:
        key = (kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        if key in self.objects:
            return _answer(409, {"reason": "AlreadyExists", "message": "it is there"})
        return _answer(201, self._store(kind, body))

    def _replaced(self, kind: Kind, found: Object, body: Object) -> httpx.Response:
        if body["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
            return _answer(409, {"reason": "Conflict", "message": "somebody was faster"})
        return _answer(200, self._store(kind, body))

    def _list(self, kind: Kind, namespace: str, query: Mapping[str, str]) -> httpx.Response:
        labels = query.get("labelSelector", "")
        found = [
            content
            for (one, where, _), content in sorted(self.objects.items(), key=lambda i: i[0][1:])
            if one is kind and namespace in ("", where) and _fits(content, labels)
        ]
        first = int(query.get("continue") or 0)
        size = self.page or int(query["limit"])
        meta = {"resourceVersion": str(self._version)}
        if len(found) > first + size:
            meta["continue"] = str(first + size)
        items = [
            {k: v for k, v in content.items() if k not in ("apiVersion", "kind")}
            for content in found[first : first + size]
        ]
        return _answer(200, {"metadata": meta, "items": items})

    def _watch(self, kind: Kind, namespace: str, labels: str) -> httpx.Response:
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._watchers.append((kind, namespace, labels, queue))
        return httpx.Response(200, stream=_Lines(queue))


class _Lines(httpx.AsyncByteStream):
    def __init__(self, queue: asyncio.Queue[str | None]) -> None:
        self._queue = queue

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (line := await self._queue.get()) is not None:
            yield line.encode() + b"\n"


def _extra(request: httpx.Request, found: re.Match[str]) -> dict[str, str]:
    return {
        "content-type": request.headers.get("content-type", ""),
        "status": "yes" if found["status"] else "",
    }


def _answer(status: int, content: Any) -> httpx.Response:
    return httpx.Response(status, json=content)


def _fits(content: Object, selector: str) -> bool:
    labels = content["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        key, equal, value = part.partition("=")
        if key not in labels or (equal and labels[key] != value):
            return False
    return True


def _patched(found: Object, body: Object, query: Mapping[str, str]) -> Object:
    """Merge as RFC 7386 says; an apply is close enough to that for one field manager."""
    if query["status"]:
        return {**found, "status": body["status"]}
    kept = {k: v for k, v in body.items() if k != "status"}
    if "apply-patch" in query["content-type"]:
        meta = {**found.get("metadata", {}), **body["metadata"]}
        return {**found, **kept, "metadata": meta}
    merged = _merged(found, kept)
    assert isinstance(merged, dict)
    return merged


def _merged(found: Any, change: Any) -> Any:
    if not isinstance(change, Mapping) or not isinstance(found, Mapping):
        return change
    result = dict(found)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
