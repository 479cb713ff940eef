"""What an earlier document asked for and the one of now does not: it goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.kinds import Kind, Object, kind_of
from umbel.targets.ocm.names import PART, Names
from umbel.targets.ocm.writing import Writer

_OPTIONAL: tuple[tuple[Kind, str], ...] = (
    (kinds.PLACEMENT, "site"),
    (kinds.INGRESS, "hub"),
    (kinds.TLS_ROUTE, "hub"),
)


async def clear(writer: Writer, cache: Cache, names: Names, wanted: Iterable[Object]) -> None:
    """Remove placements and ways in that are not wanted any more."""
    kept = {(kind_of(content), content["metadata"]["name"]) for content in wanted}
    for kind, part in _OPTIONAL:
        for content in cache[kind].of(names.addon):
            meta = content["metadata"]
            if meta["labels"].get(PART) == part and (kind, meta["name"]) not in kept:
                await writer.gone(kind, content)


async def forget(writer: Writer, cache: Cache, names: Names, people: Collection[str]) -> None:
    """Remove the tokens of people who are not in the document any more."""
    kept = {names.user_secret(user) for user in people}
    for content in cache[kinds.SECRET].of(names.addon):
        name = content["metadata"]["name"]
        if name.startswith(names.user_secret("")) and name not in kept:
            await writer.gone(kinds.SECRET, content)
