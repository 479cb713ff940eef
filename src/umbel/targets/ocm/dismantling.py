"""Takes a federation apart: sites first, so that they finish what they do; nothing is left."""

from __future__ import annotations

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.kinds import Kind, Object
from umbel.targets.ocm.names import OWNER, Names
from umbel.targets.ocm.writing import Writer, side_by_side

_SITES: tuple[Kind, ...] = (kinds.ADDON_CONFIG, kinds.ADDON, kinds.TEMPLATE, kinds.PLACEMENT)
_HUB: tuple[Kind, ...] = (
    kinds.STATEFUL_SET,
    kinds.INGRESS,
    kinds.TLS_ROUTE,
    kinds.SERVICE,
    kinds.NETWORK_POLICY,
    kinds.SERVICE_ACCOUNT,
)
_DATA: tuple[Kind, ...] = (kinds.CLAIM, kinds.CONFIG_MAP, kinds.SECRET)


async def dismantle(writer: Writer, cache: Cache, names: Names, *, keep_data: bool) -> str:
    """Remove what can be removed now; gives what is still waited for, empty when all is gone."""
    left = await _remove(writer, cache, names, (kinds.WORK_SET, kinds.INSTALLED))
    if left := max(left, len(cache[kinds.WORK].of(names.addon))):
        return f"{left} sites finish their work"
    if left := await _remove(writer, cache, names, _SITES):
        return f"{left} add-on objects"
    if left := await _remove(writer, cache, names, _HUB):
        return f"{left} objects of the hub"
    if cache[kinds.POD].get(f"{names.hub}-0", names.namespace):
        return "the hub's pod"
    if not keep_data and (left := await _remove(writer, cache, names, _DATA)):
        return f"{left} volumes, settings and secrets"
    return ""


async def _remove(writer: Writer, cache: Cache, names: Names, found: tuple[Kind, ...]) -> int:
    left = [
        (kind, content)
        for kind in found
        for content in cache[kind].of(names.addon)
        if _is_ours(content, names)
    ]
    await side_by_side(lambda one: writer.gone(*one), left)
    return len(left)


def _is_ours(content: Object, names: Names) -> bool:
    notes = content["metadata"].get("annotations") or {}
    return str(notes.get(OWNER, names.owner)) == names.owner
