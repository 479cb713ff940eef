"""What everything of a federation on Open Cluster Management is called."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

GROUP = "umbel.dev"
FEDERATION = f"{GROUP}/federation"  # label on everything of a federation: its add-on name
PART = f"{GROUP}/part"  # label: hub, site, environment
OWNER = f"{GROUP}/owner"  # annotation: NAMESPACE/NAME
FINGERPRINT = f"{GROUP}/fingerprint"  # annotation: the units that an object stands for
SITE_GROUP = f"{GROUP}/group"  # label: the group that a site belongs to
FINALIZER = f"{GROUP}/sites"

_LONGEST = 40  # of a federation's name: labels made of it have 63 characters


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one federation's objects."""

    namespace: str
    name: str

    @property
    def owner(self) -> str:
        """Who everything belongs to."""
        return f"{self.namespace}/{self.name}"

    @property
    def addon(self) -> str:
        """The add-on, and the sites' namespace: one on every cluster, unlike any other's."""
        mark = hashlib.sha256(self.owner.encode()).hexdigest()[:6]
        return f"umbel-{self.name[:_LONGEST]}-{mark}"

    @property
    def hub(self) -> str:
        """The StatefulSet of the hub, its Service account and its settings."""
        return f"{self.name}-hub"

    @property
    def service(self) -> str:
        """What sites and people dial."""
        return self.name

    @property
    def gate_secret(self) -> str:
        """The gate's certificate and key, and who may speak to it."""
        return f"{self.name}-gate"

    @property
    def authority_secret(self) -> str:
        """The CA; in the operator's own namespace."""
        return f"ca-{self.addon}"

    def user_secret(self, user: str) -> str:
        """One user's token, with what it takes to connect."""
        return f"{self.name}-user-{user}"

    @property
    def allotment(self) -> str:
        """What sites were given for good: their partition ids."""
        return f"{self.name}-sites"

    def placement(self, group: str) -> str:
        """Which clusters a group uses."""
        return f"{self.name}-{group}"

    def template(self, group: str, version: str) -> str:
        """One version of what a group's sites run."""
        return f"{self.addon}-{group}"[:200] + f"-{version}"

    @property
    def service_hosts(self) -> tuple[str, ...]:
        """The names of the Service inside the hub's cluster."""
        short = f"{self.service}.{self.namespace}"
        return (f"{short}.svc", f"{short}.svc.cluster.local")

    def labels(self, part: str) -> dict[str, str]:
        """Give the labels of an object of this federation."""
        return {
            "app.kubernetes.io/name": "umbel",
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": part,
            "app.kubernetes.io/managed-by": "umbel",
            FEDERATION: self.addon,
            PART: part,
        }

    def metadata(self, name: str, part: str, **more: object) -> dict[str, object]:
        """Give the metadata of an object of this federation."""
        annotations = {OWNER: self.owner, **_texts(more.pop("annotations", {}))}
        labels = {**self.labels(part), **_texts(more.pop("labels", {}))}
        return {"name": name, "labels": labels, "annotations": annotations, **more}


def _texts(values: object) -> Mapping[str, str]:
    assert isinstance(values, Mapping)  # noqa: S101  # only this module's callers
    return {str(key): str(value) for key, value in values.items()}
