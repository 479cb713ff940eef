"""What is watched on a hub, and how little of it is kept."""

from __future__ import annotations

from collections.abc import Sequence

from umbel.kube import kinds
from umbel.kube.cache import Trim, Watched, lean
from umbel.kube.kinds import Kind, Object
from umbel.targets.ocm.choosing import PLACEMENT
from umbel.targets.ocm.names import FEDERATION
from umbel.targets.ocm.sites import SITE

ADDON_NAME = "open-cluster-management.io/addon-name"  # OCM's label on the works of an add-on
OWN_KINDS: tuple[Kind, ...] = (
    kinds.SECRET,
    kinds.CONFIG_MAP,
    kinds.SERVICE,
    kinds.SERVICE_ACCOUNT,
    kinds.NETWORK_POLICY,
    kinds.INGRESS,
    kinds.STATEFUL_SET,
    kinds.POD,
    kinds.CLAIM,
    kinds.ADDON,
    kinds.TEMPLATE,
    kinds.ADDON_CONFIG,
    kinds.INSTALLED,
    kinds.PLACEMENT,
)
_WHO = ("name", "namespace", "labels", "resourceVersion", "deletionTimestamp")
SELDOM_S = 60.0  # a kind that the hub need not serve is asked for so often


# These are in the clusters' own namespaces, or in none: they are watched everywhere.
_EVERYWHERE = frozenset(
    {kinds.ADDON, kinds.TEMPLATE, kinds.ADDON_CONFIG, kinds.INSTALLED, kinds.WORK}
)


def within(kind: Kind, namespaces: Sequence[str], system: str) -> tuple[str | None, ...]:
    """Say where a kind is watched, if federations are kept in these namespaces only."""
    if not namespaces or kind in _EVERYWHERE:
        return (None,)
    extra = (system,) if kind is kinds.SECRET else ()
    return tuple(dict.fromkeys((*namespaces, *extra)))


def watched(namespaces: Sequence[str] = (), system: str = "") -> list[Watched]:
    """List what a hub is asked for: our own objects, decisions, and the works of add-ons."""

    def where(kind: Kind) -> tuple[str | None, ...]:
        return within(kind, namespaces, system)

    own = [
        Watched(kind, where(kind), labels=FEDERATION, index=federation_of, trim=_trim(kind))
        for kind in OWN_KINDS
    ]
    decisions = Watched(kinds.DECISION, where(kinds.DECISION), labels=PLACEMENT, index=placement_of)
    works = Watched(kinds.WORK, labels=ADDON_NAME, index=addon_of, trim=_work)
    sets = Watched(
        kinds.WORK_SET,
        where(kinds.WORK_SET),
        labels=FEDERATION,
        index=federation_of,
        trim=_work_set,
        again_s=SELDOM_S,
    )
    routes = Watched(
        kinds.TLS_ROUTE,
        where(kinds.TLS_ROUTE),
        labels=FEDERATION,
        index=federation_of,
        again_s=SELDOM_S,
    )
    return [*own, decisions, works, sets, routes]


def federation_of(content: Object) -> str:
    """Name the federation that an object of ours belongs to, by its add-on."""
    found: str = content["metadata"].get("labels", {}).get(FEDERATION, "")
    return found


def placement_of(content: Object) -> str:
    """Name the placement that a decision belongs to."""
    meta = content["metadata"]
    return f"{meta['namespace']}/{meta.get('labels', {}).get(PLACEMENT, '')}"


def addon_of(content: Object) -> str:
    """Name the add-on that a work belongs to."""
    found: str = content["metadata"].get("labels", {}).get(ADDON_NAME, "")
    return found


def _trim(kind: Kind) -> Trim:
    if kind is kinds.INSTALLED:
        return _installed
    return _about if kind in (kinds.TEMPLATE, kinds.ADDON_CONFIG) else lean


def _installed(content: Object) -> Object | None:
    """Keep who it is and the two conditions that are read: OCM writes many more, many times."""
    found = _about(content)
    conditions = content.get("status", {}).get("conditions") or ()
    said = [
        {key: one[key] for key in ("type", "status", "message") if key in one}
        for one in conditions
        if one["type"] in ("ManifestApplied", "Available")
    ]
    return found and found | {"status": {"conditions": said}}


def _work_set(content: Object) -> Object | None:
    """Keep who it is and how far it is; what it sends is known by its mark."""
    lean(content)
    return {k: content[k] for k in ("apiVersion", "kind", "metadata", "status") if k in content}


def _about(content: Object) -> Object | None:
    """Keep who it is: its content is named by its hash."""
    lean(content)
    return {key: content[key] for key in ("apiVersion", "kind", "metadata") if key in content}


def _work(content: Object) -> Object | None:
    """Keep what the site's agent said; other add-ons' works not at all."""
    if not addon_of(content).startswith("umbel-"):
        return None
    manifests = content.get("status", {}).get("resourceStatus", {}).get("manifests") or ()
    said = [
        {key: manifest[key] for key in ("resourceMeta", "statusFeedback") if key in manifest}
        for manifest in manifests
        if manifest.get("resourceMeta", {}).get("name") == SITE
    ]
    meta = {key: content["metadata"][key] for key in _WHO if key in content["metadata"]}
    return {"metadata": meta, "status": {"resourceStatus": {"manifests": said}}}
