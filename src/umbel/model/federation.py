"""The one document that a person writes."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from umbel.model.document import LabelKey, LabelValue, Name, Spec, mistake
from umbel.model.kubernetes import (
    PATH_PATTERN,
    Environment,
    HubOnKubernetes,
    Image,
    SitesOnKubernetes,
)
from umbel.model.placement import Effect, Placement
from umbel.model.role import Role as Role  # noqa: PLC0414  # also found here, where it is used

API_VERSION = "umbel.dev/v1alpha1"
OWNER = "owner"  # the user who declared the federation; always an admin, so never listed

HOST_PATTERN = r"^[A-Za-z0-9:.\-\[\]_]+$"
VERSION_PATTERN = r"^[0-9]+\.[0-9]+(\.[0-9]+)?$"

_HOST_LABEL = r"[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"({_HOST_LABEL}\.)*(?!\d+\Z){_HOST_LABEL}")


def _can_be_dialled(host: str) -> str:
    """Take an IP address or a host name, without a port."""
    if _HOST_NAME.fullmatch(host):
        return host
    try:
        ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError:
        raise mistake(
            "host",
            f'"{host}" is neither a host name nor an IP address',
            "give the bare name or address; ports belong in spec.superlink.ports",
        ) from None
    return host


Host = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=HOST_PATTERN),
    AfterValidator(_can_be_dialled),
]
Port = Annotated[int, Field(ge=1, le=65535)]


class Target(StrEnum):
    """What hosts sites."""

    LOCAL = "local"
    OCM = "ocm"
    OPENNEBULA = "opennebula"
    JOIN = "join"


class Metadata(Spec):
    """Who the federation is."""

    name: Name = Field(description="Unique on the machine or in the namespace.")
    namespace: Name | None = Field(
        default=None, description="The Kubernetes namespace, where there is one."
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Short facts to find the federation by."
    )
    annotations: dict[str, str] = Field(
        default_factory=dict,
        description="Notes of any kind. On Kubernetes umbel.dev/rotate-ca and umbel.dev/keep-data are read.",
    )


class Ports(Spec):
    """The gate's ports; left out, free ones are chosen and remembered."""

    fleet: Port | None = Field(default=None, description="Sites dial this one (9092).")
    control: Port | None = Field(default=None, description="People dial this one (9093).")
    runtime: Port | None = Field(default=None, description="ServerApps, loopback only (9091).")


class SuperLink(Spec):
    """Where the hub runs and how it is reached."""

    on: Target = Field(
        default=Target.LOCAL, description="What hosts the hub: local, ocm or opennebula."
    )
    endpoint: Host = Field(default="127.0.0.1", description="The name that sites and people dial.")
    listen: Host = Field(default="127.0.0.1", description="The address that the gate listens on.")
    ports: Ports = Field(
        default=Ports(), description="The gate's ports; left out, free ones are chosen."
    )
    alternative_names: tuple[Host, ...] = Field(
        default=(), description="Further names in the server certificate."
    )
    kubernetes: HubOnKubernetes | None = Field(
        default=None, description="ocm only: the hub as a pod."
    )


class Taint(Spec):
    """Keeps placements away that do not tolerate it."""

    key: str = Field(min_length=1, description="What the taint is about.")
    value: str = Field(default="", description="Compared by tolerations with operator Equal.")
    effect: Effect = Field(
        default=Effect.NO_SELECT,
        description="NoSelect keeps away, PreferNoSelect changes nothing (as in OCM), NoSelectIfNew keeps who is in.",
    )


class Resources(Spec):
    """What a site has to give."""

    cpu: float = Field(default=0, ge=0, allow_inf_nan=False, description="Cores.")
    memory: int = Field(default=0, ge=0, description="Bytes.")
    gpu: int = Field(default=0, ge=0, description="Whole devices.")


class DeclaredSite(Spec):
    """A local site, described as a cluster would describe itself."""

    name: Name = Field(description="Unique in the federation.")
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="What placements and runs choose the site by."
    )
    claims: dict[str, str] = Field(
        default_factory=dict, description="What the site says about itself, as clusters do."
    )
    taints: tuple[Taint, ...] = Field(
        default=(), description="Keep placements away that do not tolerate them."
    )
    cluster_set: Name = Field(default="default", description="The set that the site belongs to.")
    allocatable: Resources = Field(default=Resources(), description="What the site has to give.")
    scores: dict[str, Annotated[int, Field(ge=-100, le=100)]] = Field(
        default_factory=dict, description='Keys read "resourceName/scoreName".'
    )


class Cardinality(Spec):
    """How many sites a group may have."""

    min: int = Field(default=1, ge=0, description="Never fewer than these.")
    max: int = Field(default=1, ge=0, le=100_000, description="Never more than these.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise mistake(
                "cardinality",
                f"min {self.min} is greater than max {self.max}",
                f"raise max to {self.min} or more, or lower min",
            )
        return self


class Data(Spec):
    """Where a site's private data is. It never leaves the site."""

    host_path: str | None = Field(
        default=None, pattern=PATH_PATTERN, description="Absolute folder."
    )
    partitions: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Announced as num-partitions; left out, it follows the number of sites.",
    )
    node_config: dict[str, str | int | Annotated[float, Field(allow_inf_nan=False)] | bool] = Field(
        default_factory=dict, description="Further keys of Flower's node config."
    )


class Group(Spec):
    """Sites declared together, on one target."""

    name: Name = Field(description="Unique in the federation.")
    on: Target = Field(default=Target.LOCAL, description="What hosts the group's sites.")
    sites: (
        Annotated[int, Field(ge=0, le=1000)]
        | Annotated[tuple[DeclaredSite, ...], Field(max_length=1000)]
    ) = Field(default=3, description="Local only: how many, or which.")
    zones: tuple[Name, ...] = Field(
        default=(), description="OpenNebula only: the zones to use; left out, all of them."
    )
    cardinality: Cardinality | None = Field(
        default=None, description="OpenNebula only: the fewest and the most sites."
    )
    placement: Placement = Field(
        default=Placement(), description="Which of the sites are used; left out, all of them."
    )
    data: Data = Field(default=Data(), description="Where the sites' private data is.")
    kubernetes: SitesOnKubernetes | None = Field(
        default=None, description="ocm only: the sites as pods on managed clusters."
    )


class TaskResources(Spec):
    """What one task may use; 0 is no limit."""

    cpu: float = Field(
        default=0,
        ge=0,
        allow_inf_nan=False,
        description="Cores; no more tasks run at once than the site's cores allow.",
    )
    memory: int = Field(default=0, ge=0, description="Bytes; a task that takes more fails.")
    gpu: int = Field(default=0, ge=0, description="Whole devices, which the task has for itself.")


class Runtime(Spec):
    """How apps are run."""

    isolation: Literal["process"] = Field(
        default="process", description="Apps run in processes of their own."
    )
    exec: Literal["warm", "fresh"] = Field(
        default="warm", description="warm: each task is forked from a parent that is ready."
    )
    flower: str | None = Field(
        default=None, pattern=VERSION_PATTERN, description="The Flower version to insist on."
    )
    task_timeout_seconds: int = Field(
        default=86_400, ge=1, description="A task that takes longer is ended."
    )
    resources: TaskResources = Field(
        default=TaskResources(), description="What one ClientApp task may use."
    )
    server_resources: TaskResources = Field(
        default=TaskResources(), description="What one ServerApp task may use."
    )
    wheels: str | None = Field(
        default=None,
        pattern=PATH_PATTERN,
        description="Absolute folder of wheels; apps' dependencies then come from nowhere else.",
    )
    image: Image = Field(
        default=Image(), description="ocm only: where the containers' image comes from."
    )
    environments: tuple[Environment, ...] = Field(
        default=(),
        max_length=100,
        description="ocm only: environments of apps, sent to clusters ahead of their runs.",
    )


class User(Spec):
    """Somebody who may speak to the Control API."""

    name: Name = Field(description="Unique in the federation; it stands in the audit log.")
    role: Role = Field(
        default=Role.VIEWER, description="viewer looks, operator runs, admin changes."
    )


class CaKey(Spec):
    """Encrypts the CA's private key at rest. One of the two."""

    passphrase_file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="A file with a passphrase."
    )
    key_file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="A file with random bytes."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.passphrase_file is None) == (self.key_file is None):
            raise mistake(
                "ca_key",
                "exactly one of passphraseFile and keyFile is needed",
                "give one of them, or remove caKey"
                if self.key_file is None
                else "keep the one to use and remove the other",
            )
        return self


class Security(Spec):
    """Who may do what, and how long certificates last."""

    users: tuple[User, ...] = Field(
        default=(), description="Who may speak to the Control API, each with a role."
    )
    ca_key: CaKey | None = Field(
        default=None, description="Left out, the CA's key is protected by file permissions alone."
    )
    ca_days: int = Field(default=3650, ge=1, le=36500, description="How long the CA lasts.")
    certificate_days: int = Field(
        default=90, ge=1, le=825, description="How long server certificates last."
    )


class FederationSpec(Spec):
    """The declared whole."""

    superlink: SuperLink = Field(
        default=SuperLink(), description="Where the hub runs and how it is reached."
    )
    groups: tuple[Group, ...] = Field(
        default=(Group(name="local"),),
        min_length=1,
        max_length=1000,
        description="The sites; left out, three local ones.",
    )
    runtime: Runtime = Field(default=Runtime(), description="How apps are run.")
    security: Security = Field(
        default=Security(), description="Who may do what, and how long certificates last."
    )


class Federation(Spec):
    """One document, one federation."""

    api_version: Literal["umbel.dev/v1alpha1"] = Field(
        default="umbel.dev/v1alpha1", description="The version of this document's form."
    )
    kind: Literal["Federation"] = Field(default="Federation", description="Always Federation.")
    metadata: Metadata = Field(description="Who the federation is.")
    spec: FederationSpec = Field(
        default=FederationSpec(), description="What it is made of; left out, three local sites."
    )

    @property
    def name(self) -> str:
        """The federation's name."""
        return self.metadata.name
