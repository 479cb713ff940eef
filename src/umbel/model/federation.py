"""The one document that a person writes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from umbel.model.document import LabelKey, LabelValue, Name, Spec
from umbel.model.placement import Effect, Placement

API_VERSION = "umbel.dev/v1alpha1"

Host = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9:.\-\[\]_]+$")]
Port = Annotated[int, Field(ge=1, le=65535)]


class Target(StrEnum):
    """What hosts sites."""

    LOCAL = "local"
    OCM = "ocm"
    OPENNEBULA = "opennebula"
    JOIN = "join"


class Role(StrEnum):
    """What a person may do, each including the one before."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Metadata(Spec):
    """Who the federation is."""

    name: Name = Field(description="Unique on the machine or in the namespace.")
    namespace: Name | None = None
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class Ports(Spec):
    """The gate's ports; left out, free ones are chosen and remembered."""

    fleet: Port | None = Field(default=None, description="Sites dial this one (9092).")
    control: Port | None = Field(default=None, description="People dial this one (9093).")
    runtime: Port | None = Field(default=None, description="ServerApps, loopback only (9091).")


class SuperLink(Spec):
    """Where the hub runs and how it is reached."""

    on: Target = Target.LOCAL
    endpoint: Host = Field(default="127.0.0.1", description="The name that sites and people dial.")
    listen: Host = Field(default="127.0.0.1", description="The address that the gate listens on.")
    ports: Ports = Ports()
    alternative_names: tuple[Host, ...] = Field(
        default=(), description="Further names in the server certificate."
    )


class Taint(Spec):
    """Keeps placements away that do not tolerate it."""

    key: str = Field(min_length=1)
    value: str = ""
    effect: Effect = Effect.NO_SELECT


class Resources(Spec):
    """What a site has to give."""

    cpu: float = Field(default=0, ge=0, description="Cores.")
    memory: int = Field(default=0, ge=0, description="Bytes.")
    gpu: int = Field(default=0, ge=0)


class DeclaredSite(Spec):
    """A local site, described as a cluster would describe itself."""

    name: Name
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    claims: dict[str, str] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cluster_set: Name = "default"
    allocatable: Resources = Resources()
    scores: dict[str, Annotated[int, Field(ge=-100, le=100)]] = Field(
        default_factory=dict, description='Keys read "resourceName/scoreName".'
    )


class Cardinality(Spec):
    """How many sites a group may have."""

    min: int = Field(default=1, ge=0)
    max: int = Field(default=1, ge=0, le=100_000)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is greater than max {self.max}")
        return self


class Data(Spec):
    """Where a site's private data is. It never leaves the site."""

    host_path: str | None = Field(default=None, pattern=r"^/", description="Absolute folder.")
    partitions: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Announced as num-partitions; left out, it follows the number of sites.",
    )
    node_config: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Further keys of Flower's node config."
    )


class Group(Spec):
    """Sites declared together, on one target."""

    name: Name
    on: Target = Target.LOCAL
    sites: (
        Annotated[int, Field(ge=0, le=1000)]
        | Annotated[tuple[DeclaredSite, ...], Field(max_length=1000)]
    ) = Field(default=3, description="Local only: how many, or which.")
    zones: tuple[Name, ...] = ()
    cardinality: Cardinality | None = None
    placement: Placement = Placement()
    data: Data = Data()


class Runtime(Spec):
    """How apps are run."""

    isolation: Literal["process"] = "process"
    exec: Literal["warm", "fresh"] = Field(
        default="warm", description="warm: each task is forked from a parent that is ready."
    )
    flower: str | None = Field(
        default=None, pattern=r"^\d+\.\d+(\.\d+)?$", description="The Flower version to insist on."
    )
    task_timeout_seconds: int = Field(default=86_400, ge=1)


class User(Spec):
    """Somebody who may speak to the Control API."""

    name: Name
    role: Role = Role.VIEWER


class CaKey(Spec):
    """Encrypts the CA's private key at rest. One of the two."""

    passphrase_file: str | None = None
    key_file: str | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.passphrase_file is None) == (self.key_file is None):
            raise ValueError("give exactly one of passphraseFile and keyFile")
        return self


class Security(Spec):
    """Who may do what, and how long certificates last."""

    users: tuple[User, ...] = ()
    ca_key: CaKey | None = None
    ca_days: int = Field(default=3650, ge=1, le=36500)
    certificate_days: int = Field(default=90, ge=1, le=825)


class FederationSpec(Spec):
    """The declared whole."""

    superlink: SuperLink = SuperLink()
    groups: tuple[Group, ...] = Field(default=(Group(name="local"),), min_length=1, max_length=1000)
    runtime: Runtime = Runtime()
    security: Security = Security()


class Federation(Spec):
    """One document, one federation."""

    api_version: Literal["umbel.dev/v1alpha1"] = "umbel.dev/v1alpha1"
    kind: Literal["Federation"] = "Federation"
    metadata: Metadata
    spec: FederationSpec = FederationSpec()

    @property
    def name(self) -> str:
        """The federation's name."""
        return self.metadata.name
