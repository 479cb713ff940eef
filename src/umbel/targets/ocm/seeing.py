"""What the objects on the hub say of a federation's units. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from umbel.model.unit import HUB, Health, Kind, Present, Sighting
from umbel.targets.ocm.names import FINGERPRINT, SITE_GROUP
from umbel.targets.ocm.pods import Object
from umbel.targets.ocm.sites import SITE, given

CONTAINERS = {Kind.SUPERLINK: "superlink", Kind.GATE: "gate", Kind.SERVER_EXEC: "exec"}
HOPELESS = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
    }
)
_BAD = HOPELESS | {"CrashLoopBackOff"}


@dataclass(frozen=True, slots=True)
class Report:
    """What a site's agent wrote, as its cluster reported it."""

    public_key: str = ""
    fingerprint: str = ""
    state: str = ""
    message: str = ""
    version: str = ""
    release: str = ""


def report_of(works: Iterable[Object]) -> Report:
    """Read the site's own words from the feedback of its works."""
    said: dict[str, str] = {}
    for work in works:
        manifests = work.get("status", {}).get("resourceStatus", {}).get("manifests") or ()
        for manifest in manifests:
            meta = manifest.get("resourceMeta", {})
            if meta.get("kind") == "ConfigMap" and meta.get("name") == SITE:
                for value in manifest.get("statusFeedback", {}).get("values") or ():
                    said[value["name"]] = value["fieldValue"].get("string", "")
    return Report(
        said.get("publicKey", ""),
        said.get("fingerprint", ""),
        said.get("state", ""),
        said.get("message", ""),
        said.get("version", ""),
        said.get("release", ""),
    )


def by_cluster(works: Iterable[Object]) -> dict[str, list[Object]]:
    """Sort works by the cluster that they are for."""
    found: dict[str, list[Object]] = {}
    for work in works:
        found.setdefault(work["metadata"]["namespace"], []).append(work)
    return found


def reports_of(works: Iterable[Object]) -> dict[str, Report]:
    """Read what every site said last."""
    return {cluster: report_of(own) for cluster, own in by_cluster(works).items()}


def fingerprints_of(content: Object) -> Mapping[str, str]:
    """Read which units an object stands for, and their fingerprints."""
    text = content["metadata"].get("annotations", {}).get(FINGERPRINT, "")
    pairs = (pair.partition("=") for pair in text.split() if "=" in pair)
    return {name: value for name, _, value in pairs}


def fingerprints_text(fingerprints: Mapping[str, str]) -> str:
    """Write fingerprints as `fingerprints_of` reads them."""
    return " ".join(f"{name}={value}" for name, value in sorted(fingerprints.items()))


def hub_sightings(stateful_set: Object | None, pod: Object | None) -> dict[str, Sighting]:
    """Say of each unit of the hub whether it is there and how it does."""
    if stateful_set is None:
        return {}
    known = fingerprints_of(stateful_set)
    found: dict[str, Sighting] = {}
    for kind, container in CONTAINERS.items():
        health, message, restarts = _container(pod, container)
        name = f"{HUB}/{kind}"
        found[name] = Present(HUB, kind, known.get(name, ""), health, message, restarts)
    return found


def _container(pod: Object | None, name: str) -> tuple[Health, str, int]:
    if pod is None:
        return Health.STARTING, "its pod is not there yet", 0
    status = pod.get("status", {})
    for seen in status.get("containerStatuses") or ():
        if seen["name"] == name:
            return _judged(seen)
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Health.STARTING, condition.get("message", "not scheduled yet"), 0
    return Health.STARTING, "its container is not there yet", 0


def _judged(seen: Object) -> tuple[Health, str, int]:
    restarts = int(seen.get("restartCount", 0))
    if seen.get("ready"):
        return Health.READY, "", restarts
    waiting = seen.get("state", {}).get("waiting", {})
    if waiting.get("reason") in _BAD:
        last = seen.get("lastState", {}).get("terminated", {})
        words = waiting.get("message") or last.get("message") or ""
        return Health.FAILING, f"{waiting['reason']}: {words}"[:500], max(1, restarts)
    return Health.STARTING, waiting.get("reason", ""), restarts


def condition_of(content: Object, kind: str) -> Object:
    """Give a condition of an object, or an empty one."""
    conditions = content.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == kind), {})


def site_sightings(
    cluster: str, installed: Object, works: Iterable[Object], template: Callable[[str], str]
) -> dict[str, Sighting]:
    """Say of a site's two units whether they are there and how they do.

    One that runs another version than its group should (`template` names that) is not as wanted.
    """
    known = fingerprints_of(installed)
    wanted = template(installed["metadata"].get("labels", {}).get(SITE_GROUP, ""))
    now = given(installed)
    if wanted and now is not None and now.template != wanted:
        known = {}
    health, message = _site_health(installed, report_of(works))
    return {
        f"{cluster}/{kind}": Present(
            cluster, kind, known.get(f"{cluster}/{kind}", ""), health, message
        )
        for kind in (Kind.SUPERNODE, Kind.CLIENT_EXEC)
    }


def _site_health(installed: Object, report: Report) -> tuple[Health, str]:
    if installed["metadata"].get("deletionTimestamp"):
        return Health.STARTING, "it is being removed"
    applied = condition_of(installed, "ManifestApplied")
    if applied.get("status") == "False":
        return Health.FAILING, applied.get("message", "its objects cannot be applied")
    available = condition_of(installed, "Available")
    if report.state == "online":
        return Health.READY, ""
    if report.state == "failing":
        return Health.FAILING, report.message
    said = report.message or available.get("message") or "its cluster has not reported yet"
    return Health.STARTING, str(said)
