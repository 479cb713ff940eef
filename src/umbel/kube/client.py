"""Speaks to one API server. Answers are plain JSON; what goes wrong is an error with its reason."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import httpx

from umbel.errors import WorldError
from umbel.kube.kinds import Kind, Object, kind_of
from umbel.kube.kubeconfig import Reach

MANAGER = "umbel"
PAGE = 200  # of large objects that is some megabytes
QPS = 50.0  # as OCM's own controllers
BURST = 100.0
WATCH_S = 300
_NOT_FOUND = 404
_CONFLICT = 409
_GONE = 410


class KubeRefused(WorldError):
    """The API server said no."""

    code = "U253"

    def __init__(self, what: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{what}: {message}", hint=_hint(status, reason))
        self.status = status
        self.reason = reason


class KubeUnreachable(WorldError):
    """The API server does not answer."""

    code = "U254"

    def __init__(self, server: str, why: str) -> None:
        super().__init__(
            f"the API server {server} does not answer: {why}",
            hint="check the kubeconfig and the network: kubectl get namespaces",
        )


class WatchEnded(Exception):  # caught where watches begin anew
    """The server has forgotten where we were: list again."""


def _hint(status: int, reason: str) -> str:
    if status in (401, 403):
        return "ask for the rights that docs/guides/ocm/install.md lists"
    if status == _NOT_FOUND:
        return "is the namespace there, and does the cluster serve this kind?"
    return f"the API server's reason: {reason}"


class Limiter:
    """Lets so many requests through each second, and some more at once."""

    def __init__(
        self,
        qps: float = QPS,
        burst: float = BURST,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._qps, self._burst = qps, burst
        self._clock, self._pause = clock, pause
        self._left, self._at_s = burst, clock()

    async def turn(self) -> None:
        """Wait for a turn; who came first has it first."""
        now_s = self._clock()
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._qps)
        self._at_s = now_s
        self._left -= 1
        if self._left < 0:
            await self._pause(-self._left / self._qps)


class Kube:
    """The few verbs that Umbel needs."""

    def __init__(
        self,
        reach: Reach,
        *,
        limiter: Limiter | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.reach = reach
        self.written: Counter[str] = Counter()  # requests that change something, by kind
        self._spelled: dict[Kind, Kind] = {}  # kinds as this cluster serves them
        self._limiter = limiter or Limiter()
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20)
        self._http = httpx.AsyncClient(
            base_url=reach.server,
            verify=reach.trust,
            timeout=httpx.Timeout(30.0),
            limits=limits,
            transport=transport,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    @property
    def writes(self) -> int:
        """How often something was changed, or tried to be."""
        return self.written.total()

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object | None:
        """Give the object, or None."""
        try:
            here = await self._here(kind)
            return await self._ask("GET", here.path(name, namespace))
        except KubeRefused as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def list(
        self, kind: Kind, namespace: str | None = None, labels: str = ""
    ) -> tuple[list[Object], str]:
        """Give all objects, and the version of the list."""
        found: list[Object] = []
        version = ""
        async for page, version in self.pages(kind, namespace, labels):  # noqa: B007  # the last
            found += page
        return found, version

    async def pages(
        self, kind: Kind, namespace: str | None = None, labels: str = ""
    ) -> AsyncIterator[tuple[Sequence[Object], str]]:
        """Give all objects page by page, each time with the version of the whole list."""
        query = {"limit": str(PAGE)} | ({"labelSelector": labels} if labels else {})
        path = (await self._here(kind)).path(namespace=namespace)
        while True:
            answer = await self._ask("GET", path, query=query)
            yield answer.get("items") or [], answer["metadata"]["resourceVersion"]
            following = answer["metadata"].get("continue")
            if not following:
                return
            query = {**query, "continue": following}

    async def apply(self, content: Object, *, status: bool = False, force: bool = True) -> Object:
        """Have the object so (server-side apply, as our own field manager)."""
        here, meta = await self._here(kind_of(content)), content["metadata"]
        path = here.path(meta["name"], meta.get("namespace")) + ("/status" if status else "")
        query = {"fieldManager": MANAGER, "force": "true" if force else "false"}
        self.written[here.name] += 1
        form = "application/apply-patch+yaml"
        return await self._ask("PATCH", path, {**content, "apiVersion": here.api}, query, form)

    async def create(self, content: Object) -> Object | None:
        """Create the object; None when one of that name is there already."""
        here, meta = await self._here(kind_of(content)), content["metadata"]
        query, body = {"fieldManager": MANAGER}, {**content, "apiVersion": here.api}
        self.written[here.name] += 1
        try:
            return await self._ask("POST", here.path(namespace=meta.get("namespace")), body, query)
        except KubeRefused as error:
            if error.status == _CONFLICT and error.reason == "AlreadyExists":
                return None
            raise

    async def replace(self, content: Object) -> Object | None:
        """Put the object in its former place; None when somebody else was faster."""
        here, meta = await self._here(kind_of(content)), content["metadata"]
        path = here.path(meta["name"], meta.get("namespace"))
        body = {**content, "apiVersion": here.api}
        self.written[here.name] += 1
        try:
            return await self._ask("PUT", path, body, {"fieldManager": MANAGER})
        except KubeRefused as error:
            if error.status == _CONFLICT:
                return None
            raise

    async def merge(
        self, kind: Kind, name: str, namespace: str | None, change: Mapping[str, Any]
    ) -> Object | None:
        """Change some fields; None when the object is gone."""
        form, path = "application/merge-patch+json", (await self._here(kind)).path(name, namespace)
        self.written[kind.name] += 1
        try:
            return await self._ask("PATCH", path, dict(change), {}, form)
        except KubeRefused as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def strategic(
        self, kind: Kind, name: str, namespace: str | None, change: Mapping[str, Any]
    ) -> Object:
        """Change items of lists by their names (Kubernetes' own kinds only)."""
        form = "application/strategic-merge-patch+json"
        self.written[kind.name] += 1
        return await self._ask("PATCH", kind.path(name, namespace), dict(change), {}, form)

    async def delete(self, kind: Kind, name: str, namespace: str | None = None) -> bool:
        """Delete the object and what it owns; False when it was not there."""
        body = {"propagationPolicy": "Background"}
        path = (await self._here(kind)).path(name, namespace)
        self.written[kind.name] += 1
        try:
            await self._ask("DELETE", path, body)
        except KubeRefused as error:
            if error.status == _NOT_FOUND:
                return False
            raise
        return True

    async def _here(self, kind: Kind) -> Kind:
        """Give the kind in the newest version that the cluster serves; as it is, if in none."""
        if not kind.older:
            return kind
        if kind not in self._spelled:
            for api in (kind.api, *kind.older):
                one = replace(kind, api=api, older=())
                if await self.serves(one):
                    self._spelled[kind] = one
                    break
        return self._spelled.get(kind, kind)

    async def serves(self, kind: Kind) -> bool:
        """Whether the cluster knows the kind, in this version."""
        try:
            found = await self._ask("GET", kind.root)
        except KubeRefused as error:
            if error.status == _NOT_FOUND:
                return False
            raise
        return any(item["name"] == kind.plural for item in found.get("resources", ()))

    async def watch(
        self, kind: Kind, version: str, namespace: str | None = None, labels: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        """Give every change since the version, until the server ends the watch."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        } | ({"labelSelector": labels} if labels else {})
        path = (await self._here(kind)).path(namespace=namespace)
        slow = httpx.Timeout(30.0, read=WATCH_S + 30.0)
        try:
            async with self._http.stream(
                "GET", path, params=query, headers=self._headers(), timeout=slow
            ) as answer:
                if answer.status_code == _GONE:
                    raise WatchEnded
                if answer.is_error:
                    await answer.aread()
                    raise _refusal("watch", path, answer)
                async for line in answer.aiter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise WatchEnded
                    yield event["type"], event["object"]
        except httpx.HTTPError as error:
            raise KubeUnreachable(self.reach.server, _words(error)) from error

    def _headers(self) -> dict[str, str]:
        token = self.reach.token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        form: str = "application/json",
    ) -> Object:
        await self._limiter.turn()
        content = None if body is None else json.dumps(body).encode()
        headers = {**self._headers(), "Content-Type": form}
        try:
            answer = await self._http.request(
                method, path, content=content, params=query, headers=headers
            )
        except httpx.HTTPError as error:
            raise KubeUnreachable(self.reach.server, _words(error)) from error
        if answer.is_error:
            if answer.status_code == _NOT_FOUND:  # what is served may have changed
                kept = self._spelled.items()
                self._spelled = {k: here for k, here in kept if not path.startswith(here.root)}
            raise _refusal(method, path, answer)
        found: Object = answer.json()
        return found


def _words(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__


def _refusal(method: str, path: str, answer: httpx.Response) -> KubeRefused:
    try:
        said = answer.json()
    except ValueError:
        said = {}
    reason = str(said.get("reason") or answer.reason_phrase)
    message = str(said.get("message") or answer.text[:300] or answer.status_code)
    return KubeRefused(f"{method} {path}", answer.status_code, reason, message)
