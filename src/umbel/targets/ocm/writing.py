"""Has objects as wanted, and writes only what differs."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from umbel.errors import UmbelError, WorldError
from umbel.kube import kinds
from umbel.kube.cache import Cache, Key, key_of
from umbel.kube.client import Kube
from umbel.kube.kinds import Kind, Object, kind_of
from umbel.targets.ocm.names import OWNER

T = TypeVar("T")
# These have the add-on's name, which has a hash, or a hash of their own.
NOBODY_ELSES = frozenset({kinds.TEMPLATE, kinds.ADDON_CONFIG, kinds.INSTALLED})
AT_ONCE = 10  # requests side by side: few enough to leave others their turn
CONTENT = "umbel.dev/content"  # annotation: the hash of what we applied


class NameTaken(WorldError):
    """Something of that name belongs to somebody else."""

    code = "U256"

    def __init__(self, what: str, owner: str) -> None:
        super().__init__(
            f"{what} belongs to {owner or 'somebody else'}",
            hint="give this federation another name, or move the other out of the way",
        )


@dataclass(slots=True)
class Writer:
    """Writes for one federation."""

    kube: Kube
    cache: Cache
    owner: str
    _seen: dict[tuple[Kind, Key], int] = field(default_factory=dict)  # generation after our write

    async def have(self, wanted: Object) -> Object:
        """Have the object so; what is so already is not written again."""
        mark = _mark(wanted)
        kind, key = kind_of(wanted), key_of(wanted)
        found = self.cache[kind].objects.get(key) if self.cache.has(kind) else None
        if found is not None and self._is_so(kind, key, found, mark):
            return found
        await self.assert_free(wanted)
        annotations = {**wanted["metadata"].get("annotations", {}), CONTENT: mark}
        marked = {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}
        made = await self.kube.apply(marked)
        self._seen[kind, key] = made["metadata"].get("generation", 0)
        if self.cache.has(kind):
            self.cache[kind].put(made)
        return made

    def has(self, wanted: Object) -> bool:
        """Whether the object is so, as far as what was applied tells."""
        found = self.cache[kind_of(wanted)].objects.get(key_of(wanted))
        return found is not None and _notes(found).get(CONTENT) == _mark(wanted)

    async def assert_free(self, wanted: Object) -> None:
        """Refuse a name that is somebody else's; names that nobody else would choose are not asked for."""
        kind, key = kind_of(wanted), key_of(wanted)
        if kind in NOBODY_ELSES:
            return
        found = self.cache[kind].objects.get(key)
        if found is None:  # not ours: then it may be somebody else's
            found = await self.kube.get(kind, key[1], key[0] or None)
        owner = _owner(found) if found else self.owner
        if owner != self.owner:
            raise NameTaken(f"{kind.name} {key[1]}", owner)

    def _is_so(self, kind: Kind, key: Key, found: Object, mark: str) -> bool:
        meta = found["metadata"]
        if meta.get("deletionTimestamp") or meta.get("annotations", {}).get(CONTENT) != mark:
            return False
        generation = int(meta.get("generation", 0))
        return self._seen.setdefault((kind, key), generation) == generation

    async def gone(self, kind: Kind, content: Object) -> None:
        """Delete an object of ours; one that is on its way is left alone."""
        meta = content["metadata"]
        self._seen.pop((kind, key_of(content)), None)
        if not meta.get("deletionTimestamp"):
            await self.kube.delete(kind, meta["name"], meta.get("namespace"))


async def side_by_side(act: Callable[[T], Awaitable[object]], items: Iterable[T]) -> None:
    """Act on all of these, some at a time; after the first that fails none is begun."""
    room = asyncio.Semaphore(AT_ONCE)
    failed: list[UmbelError] = []

    async def one(item: T) -> None:
        async with room:
            if failed:
                return
            try:
                await act(item)
            except UmbelError as error:
                failed.append(error)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))
    if failed:
        raise failed[0]


def _owner(content: Object) -> str:
    return _notes(content).get(OWNER, "")


def _notes(content: Object) -> Mapping[str, str]:
    return content["metadata"].get("annotations") or {}


def _mark(wanted: Object) -> str:
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]
