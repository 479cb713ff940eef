"""What a cluster holds of some kinds, kept up to date by watching. Nothing is asked twice."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from umbel.errors import UmbelError
from umbel.kube.client import Kube, WatchEnded
from umbel.kube.kinds import Kind, Object

Key = tuple[str, str]  # namespace, name
Trim = Callable[[Object], Object | None]
Tell = Callable[[Kind, Object], None]
AGAIN_S = 2.0
log = logging.getLogger("umbel.kube")


def lean(content: Object) -> Object | None:
    """Drop what nobody reads."""
    content["metadata"].pop("managedFields", None)
    return content


@dataclass(slots=True)
class Watched:
    """The objects of one kind."""

    kind: Kind
    namespaces: tuple[str | None, ...] = (None,)  # None: all of them
    labels: str = ""
    trim: Trim = lean
    index: Callable[[Object], str] = lambda _: ""
    objects: dict[Key, Object] = field(default_factory=dict)
    _by: dict[str, dict[Key, Object]] = field(default_factory=dict)
    fault: str = "not looked yet"  # why what is here may be old; empty: it is not
    again_s: float = AGAIN_S  # after a list or watch was refused

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Give one object, or None."""
        return self.objects.get((namespace, name))

    def of(self, index: str) -> list[Object]:
        """Give the objects with this index, by namespace and name."""
        found = self._by.get(index, {})
        return [found[key] for key in sorted(found)]

    def put(self, content: Object) -> bool:
        """Take the object in, unless a newer one is there; says whether what is kept changed."""
        key = key_of(content)
        kept = self.trim(content)
        if kept is None:
            return self.drop(key)
        before = self.objects.get(key)
        if before is not None and _version(before) >= _version(kept):
            return False
        self.drop(key)
        self.objects[key] = kept
        self._by.setdefault(self.index(kept), {})[key] = kept
        return before is None or _unversioned(before) != _unversioned(kept)

    def drop(self, key: Key) -> bool:
        """Forget the object; says whether it was there."""
        before = self.objects.pop(key, None)
        if before is None:
            return False
        self._by[self.index(before)].pop(key, None)
        return True


def key_of(content: Object) -> Key:
    """Name an object."""
    meta = content["metadata"]
    return meta.get("namespace", ""), meta["name"]


def _version(content: Object) -> int:
    return int(content["metadata"].get("resourceVersion") or 0)


def _unversioned(content: Object) -> Object:
    return {**content, "metadata": {**content["metadata"], "resourceVersion": ""}}


class Cache:
    """Several kinds, watched side by side."""

    def __init__(self, kube: Kube, watched: Iterable[Watched], tell: Tell) -> None:
        self._kube = kube
        self._watched = {one.kind: one for one in watched}
        self._tell = tell
        self._filled = {
            (one.kind, namespace): asyncio.Event()
            for one in self._watched.values()
            for namespace in one.namespaces
        }

    def __getitem__(self, kind: Kind) -> Watched:
        return self._watched[kind]

    def has(self, kind: Kind) -> bool:
        """Whether the kind is watched here."""
        return kind in self._watched

    @property
    def faults(self) -> Mapping[str, str]:
        """Say which kinds cannot be looked at, and why."""
        return {kind.name: one.fault for kind, one in self._watched.items() if one.fault}

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for one in self._watched.values():
                for namespace in one.namespaces:
                    group.create_task(self._keep(one, namespace))

    async def filled(self, timeout_s: float = 60.0) -> None:
        """Return when every kind was listed once, or could not be."""
        async with asyncio.timeout(timeout_s):
            for event in self._filled.values():
                await event.wait()

    async def _keep(self, one: Watched, namespace: str | None) -> None:
        while True:
            try:
                version = await self._list(one, namespace)
                while True:
                    version = await self._follow(one, namespace, version)
            except WatchEnded:
                continue
            except UmbelError as error:
                if not one.fault:
                    log.warning("%s: %s", one.kind.name, error)
                one.fault = str(error)
                self._filled[one.kind, namespace].set()
                await asyncio.sleep(one.again_s)

    async def _list(self, one: Watched, namespace: str | None) -> str:
        fresh: set[Key] = set()
        version = ""
        async for page, version in self._kube.pages(one.kind, namespace, one.labels):  # noqa: B007
            for content in page:
                content.setdefault("apiVersion", one.kind.api)
                content.setdefault("kind", one.kind.name)
                fresh.add(key_of(content))
                if one.put(content):
                    self._tell(one.kind, content)
        for key, gone in [*one.objects.items()]:
            here = namespace in (None, key[0])
            if here and key not in fresh and _version(gone) <= int(version):
                one.drop(key)
                self._tell(one.kind, gone)
        one.fault = ""
        self._filled[one.kind, namespace].set()
        return version

    async def _follow(self, one: Watched, namespace: str | None, version: str) -> str:
        watch = self._kube.watch(one.kind, version, namespace, one.labels)
        async with contextlib.aclosing(watch) as events:  # type: ignore[type-var]
            async for what, content in events:
                version = content["metadata"]["resourceVersion"]
                if what == "DELETED":
                    if one.drop(key_of(content)):
                        self._tell(one.kind, content)
                elif what != "BOOKMARK" and one.put(content):
                    self._tell(one.kind, content)
        return version
