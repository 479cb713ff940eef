"""Volumes for claims: folders of the node, made when a pod needs one and removed with the claim.

Kubernetes' own `local` volumes: they stay on their node, and a pod's fsGroup is given to the folder.
The size is not enforced.

    python -m testbed.pods.storage STATE
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from testbed.api import Api, Object
from testbed.layout import load
from testbed.pods.settings import NodeFiles
from testbed.watching import Watch, tend

CLASS = "standard"
PROVISIONER = "testbed.umbel.dev/folders"
ASKED = "volume.kubernetes.io/storage-provisioner"
MADE_BY = "pv.kubernetes.io/provisioned-by"
SELECTED = "volume.kubernetes.io/selected-node"
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


def storage_class() -> Object:
    """Give the class that a claim without a class has; a volume is made where its pod will run."""
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": default},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def waits(claim: Object) -> bool:
    """Tell whether the claim is ours to serve, and its pod has been given a node."""
    meta = claim["metadata"]
    notes = meta.get("annotations", {})
    open_ = not claim["spec"].get("volumeName") and "deletionTimestamp" not in meta
    return open_ and notes.get(ASKED) == PROVISIONER and SELECTED in notes


def volume_for(claim: Object, node: str, folder: Path) -> Object:
    """Give the volume that serves the claim from a folder of the node."""
    meta, spec = claim["metadata"], claim["spec"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    reference |= {key: meta[key] for key in ("name", "namespace", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": folder.name, "annotations": {MADE_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": reference,
            "local": {"path": str(folder)},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]},
            },
        },
    }


def grows(claim: Object) -> bool:
    """Tell whether the claim is ours, has its volume, and asks for another size than it has."""
    notes = claim["metadata"].get("annotations", {})
    has = claim.get("status", {}).get("capacity", {}).get("storage")
    asked = claim["spec"]["resources"]["requests"]["storage"]
    ours: bool = notes.get(ASKED) == PROVISIONER and has != asked
    return ours and claim.get("status", {}).get("phase") == "Bound"


def is_released(volume: Object) -> bool:
    """Tell whether the volume is ours and its claim is gone."""
    ours: bool = volume["metadata"].get("annotations", {}).get(MADE_BY) == PROVISIONER
    return ours and volume.get("status", {}).get("phase") == "Released"


class Volumes:
    """The volumes of one cluster."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def folder(self, node: str) -> Path:
        return NodeFiles(self.state / "nodes" / node).folder / "volumes"

    def make(self, api: Api, claims: list[Object]) -> None:
        """Make a volume for every claim that waits for one."""
        for claim in filter(waits, claims):
            meta = claim["metadata"]
            node = meta["annotations"][SELECTED]
            folder = self.folder(node) / f"pvc-{meta['uid']}"
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)  # a pod that is not root needs a fsGroup, as on a fresh disk
            api.apply(volume_for(claim, node, folder))

    def serve(self, api: Api, claims: list[Object]) -> None:
        """Give every claim what it asks for."""
        self.make(api, claims)
        self.grow(api, claims)

    def grow(self, api: Api, claims: list[Object]) -> None:
        """Write down the new size of every claim that grew: a folder has room enough."""
        for claim in filter(grows, claims):
            meta, size = claim["metadata"], claim["spec"]["resources"]["requests"]["storage"]
            volume = api.path("v1", "PersistentVolume", "", claim["spec"]["volumeName"])
            api.patch(volume, {"spec": {"capacity": {"storage": size}}})
            path = api.path("v1", "PersistentVolumeClaim", meta["namespace"], meta["name"])
            api.patch(f"{path}/status", {"status": {"capacity": {"storage": size}}})

    def remove(self, api: Api, volumes: list[Object]) -> None:
        """Remove every volume whose claim is gone, and what was in it."""
        for volume in filter(is_released, volumes):
            shutil.rmtree(volume["spec"]["local"]["path"], ignore_errors=True)
            api.delete("v1", "PersistentVolume", volume["metadata"]["name"])


def main(state: Path) -> None:
    """Serve every cluster that has nodes, until SIGTERM."""
    layout = load(state)
    volumes = Volumes(state)
    works: list[tuple[str, Callable[[Api, list[Object]], None]]] = [
        (CLAIMS, volumes.serve),
        (VOLUMES, volumes.remove),
    ]
    tend(
        Watch(layout.kubeconfig(name), path, work) for name in layout.nodes for path, work in works
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
