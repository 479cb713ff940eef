"""A changed hub is tried first: a pod with the new images starts where the hub would, and ends. Pure.

So an image that cannot be pulled, is none of ours, or finds no node never takes a working hub away;
and when the hub changes, its images are there.
"""

from __future__ import annotations

from umbel.kube.kinds import Object
from umbel.model.status import Condition
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.pods import container_security, pod_security
from umbel.targets.ocm.seeing import HOPELESS, condition_of

REVISION = "controller-revision-hash"  # of the StatefulSet that is tried, on the trial's pod
PART_NAME = "trial"
REQUESTS = {"cpu": "10m", "memory": "64Mi"}
_MEND = "mend spec.runtime.image or spec.superlink.kubernetes; the hub that runs is left as it is"
_PLACED = ("nodeSelector", "tolerations", "imagePullSecrets")


def is_needed(pod: Object, whole: Object) -> bool:
    """Whether the change could keep the pod from starting: another image, or other nodes."""
    now, wanted = pod["spec"], whole["spec"]["template"]["spec"]
    moved = now.get("nodeSelector", {}) != wanted.get("nodeSelector", {})
    return moved or set(_images(now)) != set(_images(wanted))


def pod(names: Names, whole: Object) -> Object:
    """Describe the pod that tries what the StatefulSet wants; it goes when the hub does."""
    wanted = whole["spec"]["template"]["spec"]
    notes = {REVISION: whole["status"]["updateRevision"]}
    meta = names.metadata(name_of(names), PART_NAME, namespace=names.namespace, annotations=notes)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": names.hub}
    meta["ownerReferences"] = [{**owner, "uid": whole["metadata"]["uid"]}]
    hub = {"matchLabels": whole["spec"]["selector"]["matchLabels"]}
    beside = {"labelSelector": hub, "topologyKey": "kubernetes.io/hostname"}
    prefer = [{"weight": 100, "podAffinityTerm": beside}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": pod_security(),
            "affinity": {
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": prefer}
            },
            "containers": [
                _container(number, image, policy)
                for number, (image, policy) in enumerate(sorted(_images(wanted).items()))
            ],
            **{key: wanted[key] for key in _PLACED if wanted.get(key)},
        },
    }


def name_of(names: Names) -> str:
    """Name the pod of a federation's trial."""
    return f"{names.hub}-trial"


def _container(number: int, image: str, policy: str) -> Object:
    return {
        "name": f"image-{number}",
        "image": image,
        "imagePullPolicy": policy,
        "command": ["python", "-c", "import umbel.agent.pod.warden"],
        "resources": {"requests": REQUESTS},
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _images(spec: Object) -> dict[str, str]:
    return {c["image"]: c.get("imagePullPolicy", "IfNotPresent") for c in spec["containers"]}


def is_of(tried: Object, whole: Object) -> bool:
    """Whether it tries what is wanted now."""
    notes = tried["metadata"].get("annotations") or {}
    return bool(notes.get(REVISION) == whole["status"]["updateRevision"])


def verdict(tried: Object) -> Condition | None:
    """Say why the hub must not change, or not yet; nothing when the trial went well."""
    status = tried.get("status", {})
    if status.get("phase") == "Succeeded":
        return None
    if failure := _failure(status):
        words = f"the hub stays as it is, for what it should become does not start: {failure}"
        return Condition("HubCurrent", "False", "HubTrialFailed", words, _MEND)
    return Condition("HubCurrent", "True", "TryingHub", "a changed hub is tried first")


def _failure(status: Object) -> str:
    for seen in status.get("containerStatuses") or ():
        state = seen.get("state", {})
        waiting, ended = state.get("waiting", {}), state.get("terminated", {})
        if waiting.get("reason") in HOPELESS:
            return f"{seen['image']}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(
                ": "
            )
        if ended.get("exitCode"):
            said = str(ended.get("message", "")).strip().rpartition("\n")[2]
            return f"{seen['image']}: exit code {ended['exitCode']}: {said}".rstrip(": ")
    if status.get("phase") == "Failed":
        return str(status.get("message") or status.get("reason") or "its trial failed")
    placed = condition_of({"status": status}, "PodScheduled")
    if placed.get("reason") == "Unschedulable":
        return str(placed.get("message", "no node takes it"))
    return ""
