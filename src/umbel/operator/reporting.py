"""From a federation's status to what `kubectl get federations` shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from umbel.kube.kinds import FEDERATION, Object
from umbel.model.status import Condition, FederationStatus, SiteStatus
from umbel.targets.ocm.crd_status import LONGEST_MESSAGE, MOST_SITES


def report(
    status: FederationStatus, generation: int, before: Mapping[str, Any], now: str
) -> Object:
    """Write the status; a condition that did not change keeps its time."""
    used = [site for site in status.sites if site.chosen]
    online = sum(site.state == "online" for site in used)
    active = [run for run in status.runs or () if not run.ended]
    return {
        "phase": phase(status, before),
        "observedGeneration": generation,
        "endpoint": {k: v for k in ("fleet", "control") if (v := status.endpoint.get(k))},
        "sitesOnline": online,
        "sitesWanted": len(used),
        "sitesText": f"{online}/{len(used)}",
        "runsActive": len(active),
        "versions": dict(status.versions),
        "conditions": conditions(status.conditions, generation, before, now),
        "sites": [_site(site) for site in used[:MOST_SITES]],
        "certificates": [
            {"name": c.name, "subject": c.subject[:256], "notAfter": c.not_after}
            for c in status.certificates
        ],
    }


def phase(status: FederationStatus, before: Mapping[str, Any]) -> str:
    """Sum it up in a word: what comes up for the first time is not down yet."""
    new = before.get("phase") in (None, "", "Progressing")
    ready = status.conditions[0]
    if status.phase != "Ready" and new and ready.reason.endswith(_COMING):
        return "Progressing"
    return status.phase


_COMING = ("starting", "SitesMissing", "CannotLook", "HubChanging", "EndpointPending", "NotStarted")


def gist(status: Mapping[str, Any]) -> tuple[object, ...]:
    """Give what must be told at once; everything else may wait a moment."""
    said = [(c["type"], c["status"], c["reason"]) for c in status.get("conditions") or ()]
    return status.get("phase"), status.get("observedGeneration"), said


def trouble(error: Condition, generation: int, before: Mapping[str, Any], now: str) -> Object:
    """Write a status that says only what is in the way; what was seen before stays."""
    kept = {key: before[key] for key in _KEPT if key in before}
    return {
        **kept,
        "phase": "Degraded",
        "observedGeneration": generation,
        "conditions": conditions((error,), generation, before, now),
    }


_KEPT = ("endpoint", "sitesOnline", "sitesWanted", "sitesText", "runsActive", "sites", "versions")


def conditions(
    found: tuple[Condition, ...], generation: int, before: Mapping[str, Any], now: str
) -> list[Object]:
    """Write conditions as Kubernetes has them, the first of each type."""
    former = {c["type"]: c for c in before.get("conditions") or ()}
    made: dict[str, Object] = {}
    for one in found:
        if one.type in made:
            continue
        old = former.get(one.type, {})
        same = old.get("status") == one.status
        hint = f" Hint: {one.hint}" if one.hint else ""
        made[one.type] = {
            "type": one.type,
            "status": one.status,
            "reason": _word(one.reason),
            "message": f"{one.message}{hint}"[:32768],
            "lastTransitionTime": old["lastTransitionTime"] if same else now,
            "observedGeneration": generation,
        }
    return list(made.values())


def _word(reason: str) -> str:
    """Give a reason as Kubernetes wants it: one word in camel case."""
    parts = [part for part in reason.replace("_", "-").split("-") if part]
    return "".join(part[0].upper() + part[1:] for part in parts) or "Unknown"


def _site(site: SiteStatus) -> Object:
    found: Object = {
        "name": site.name,
        "group": site.group,
        "state": site.state,
        "nodeId": site.node_id,
        "fingerprint": site.fingerprint,
        "message": site.message[:LONGEST_MESSAGE],
        "version": site.version,
    }
    if site.partition_id is not None:
        found["partitionId"] = site.partition_id
    return {key: value for key, value in found.items() if value != ""}


def wrapped(name: str, namespace: str, status: Object) -> Object:
    """Give the object that a status is applied with."""
    return {
        "apiVersion": FEDERATION.api,
        "kind": FEDERATION.name,
        "metadata": {"name": name, "namespace": namespace},
        "status": status,
    }
