"""The parts of a document that only Kubernetes understands."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from umbel.model.document import LabelKey, LabelValue, Name, Spec, mistake
from umbel.model.placement import Predicate

QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?$"
IMAGE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$"
URL_PATTERN = r"^https?://[^\s\"\\]+$"
PATH_PATTERN = r"^/[^\"\\\n]*$"
KEY_PATTERN = r"^[A-Za-z0-9+/]{43}=$"
COUNT_PATTERN = r"^(100|[1-9]?[0-9])%$"

USUAL_PORT = 443  # of gateways and ingresses
POD_DATA = "/data"  # where a pod has the site's private data

Quantity = Annotated[str, Field(pattern=QUANTITY_PATTERN, max_length=32)]
ResourceName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9./]*[a-z0-9])?$", max_length=253)]
NodePort = Annotated[int, Field(ge=1, le=65535)]
HostName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$", max_length=253)]


class Image(Spec):
    """Where the containers' image comes from."""

    name: Annotated[str, Field(pattern=IMAGE_PATTERN, max_length=512)] | None = Field(
        default=None,
        description="With its tag or digest; left out: umbel, of the operator's version.",
    )
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="When the image is pulled."
    )
    pull_secrets: tuple[Name, ...] = Field(
        default=(), description="Secrets for the registry, in the pods' namespace."
    )


class PodToleration(Spec):
    """Lets pods onto nodes with such a taint."""

    key: str = Field(default="", max_length=317, description="The taint's key; empty: every key.")
    operator: Literal["Exists", "Equal"] = Field(
        default="Equal", description="Exists does not look at the value."
    )
    value: str = Field(default="", max_length=63, description="The taint's value, for Equal.")
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        default="", description="Left out: every effect."
    )


class PodResources(Spec):
    """What a pod's working container asks for, GPUs included."""

    requests: dict[ResourceName, Quantity] = Field(
        default_factory=dict, description='For example {cpu: "2", memory: 4Gi}.'
    )
    limits: dict[ResourceName, Quantity] = Field(
        default_factory=dict, description='For example {nvidia.com/gpu: "1"}.'
    )


class HubService(Spec):
    """How the gate is reached from outside the hub cluster."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer", "Gateway", "Ingress"] = Field(
        default="ClusterIP", description="Gateway and Ingress pass TLS through to the gate."
    )
    fleet_node_port: NodePort | None = Field(
        default=None, description="NodePort: left out, the cluster chooses one."
    )
    control_node_port: NodePort | None = Field(
        default=None, description="NodePort: left out, the cluster chooses one."
    )
    annotations: dict[str, str] = Field(
        default_factory=dict, description="For the Service, Ingress or TLSRoute."
    )
    fleet_host: HostName | None = Field(
        default=None, description="Gateway and Ingress: the name that sites dial."
    )
    control_host: HostName | None = Field(
        default=None, description="Gateway and Ingress: the name that people dial."
    )
    port: NodePort = Field(
        default=USUAL_PORT, description="Gateway and Ingress: the port they listen on."
    )
    gateway: Name | None = Field(default=None, description="Gateway: its name.")
    gateway_namespace: Name | None = Field(
        default=None, description="Gateway: its namespace; left out: the federation's."
    )
    class_name: Name | None = Field(default=None, description="Ingress: its class.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.type not in ("Gateway", "Ingress"):
            return self
        missing = [n for n in ("fleetHost", "controlHost") if getattr(self, _snake(n)) is None]
        if self.type == "Gateway" and self.gateway is None:
            missing.append("gateway")
        if missing:
            raise mistake(
                "service",
                f"a service of type {self.type} needs {' and '.join(missing)}",
                "TLS is passed through by name: sites and people need one each",
            )
        return self


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


class Storage(Spec):
    """The volume of the SuperLink's state, of runs and of environments."""

    size: Quantity = Field(default="10Gi", description="How much the hub's volume holds.")
    class_name: Name | None = Field(default=None, description="Left out: the cluster's default.")


class HubOnKubernetes(Spec):
    """The hub as a pod."""

    service: HubService = Field(
        default=HubService(), description="How the gate is reached from outside the cluster."
    )
    storage: Storage = Field(default=Storage(), description="The hub's volume.")
    resources: PodResources = Field(
        default=PodResources(), description="Of the container that runs ServerApps."
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Labels of the nodes that the hub may run on."
    )
    tolerations: tuple[PodToleration, ...] = Field(
        default=(), description="Taints of nodes that the hub may run on all the same."
    )


class Proxy(Spec):
    """The way out of a site's network."""

    http_proxy: Annotated[str, Field(pattern=URL_PATTERN)] | None = Field(
        default=None, description="For http."
    )
    https_proxy: Annotated[str, Field(pattern=URL_PATTERN)] | None = Field(
        default=None, description="For https."
    )
    no_proxy: str = Field(default="", max_length=1024, description="Hosts that need none.")


class Mirror(Spec):
    """Images are pulled from elsewhere."""

    source: str = Field(min_length=1, max_length=512, description="The beginning of image names.")
    mirror: str = Field(min_length=1, max_length=512, description="What it is replaced with.")


class ClusterValues(Spec):
    """What is different on one cluster."""

    host_path: Annotated[str, Field(pattern=PATH_PATTERN, max_length=512)] | None = Field(
        default=None, description="The folder of its data; left out: the group's."
    )
    node_config: dict[str, str | int | Annotated[float, Field(allow_inf_nan=False)] | bool] = Field(
        default_factory=dict, description="Further keys of Flower's node config."
    )
    resources: PodResources | None = Field(default=None, description="Instead of the group's.")
    node_selector: dict[LabelKey, LabelValue] | None = Field(
        default=None, description="Instead of the group's."
    )
    tolerations: tuple[PodToleration, ...] | None = Field(
        default=None, description="Instead of the group's."
    )
    proxy: Proxy | None = Field(default=None, description="Instead of the group's.")
    mirrors: tuple[Mirror, ...] | None = Field(default=None, description="Instead of the group's.")


class Rollout(Spec):
    """How a change reaches the sites of a group: batch after batch, each healthy before the next."""

    max_concurrent: Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=COUNT_PATTERN)] = (
        Field(default="25%", description="How many sites change at once, or a percentage.")
    )
    max_failures: int = Field(
        default=0, ge=0, description="So many sites may fail; with one more, all go back."
    )
    deadline_seconds: int = Field(
        default=600, ge=1, description="A site that is not online by then has failed."
    )
    soak_seconds: int = Field(
        default=0, ge=0, description="A batch must be well for so long before the next begins."
    )


class SitesOnKubernetes(Spec):
    """The sites of a group as pods on managed clusters."""

    resources: PodResources = Field(
        default=PodResources(), description="Of the container that runs ClientApps."
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Labels of the nodes that the pods may run on."
    )
    tolerations: tuple[PodToleration, ...] = Field(
        default=(), description="Taints of nodes that the pods may run on all the same."
    )
    proxy: Proxy = Field(default=Proxy(), description="The way out of the sites' network.")
    mirrors: tuple[Mirror, ...] = Field(
        default=(), max_length=16, description="Images are pulled from elsewhere."
    )
    drain_seconds: int = Field(
        default=600, ge=0, description="A site that goes may finish its message for so long."
    )
    clusters: dict[Name, ClusterValues] = Field(
        default_factory=dict, description="What is different on single clusters."
    )
    rollout: Rollout = Field(default=Rollout(), description="How changes reach the sites.")


class Bundle(Spec):
    """Wheels in an image of their own; an environment is built from them, and from nothing else."""

    image: Annotated[str, Field(pattern=IMAGE_PATTERN, max_length=512)] = Field(
        description="Its files are the wheels, SHA256SUMS, and SHA256SUMS.sig."
    )
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="When the image is pulled."
    )
    keys: tuple[Annotated[str, Field(pattern=KEY_PATTERN)], ...] = Field(
        min_length=1,
        max_length=16,
        description="Ed25519 public keys in base64; one of them must have signed SHA256SUMS.",
    )


class Environment(Spec):
    """The environment of one app's ClientApps, sent to clusters ahead of its runs."""

    name: Name = Field(description="Unique in the federation.")
    app: str = Field(
        pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$",
        max_length=256,
        description="Whose tasks it serves: publisher/name, as in the app's pyproject.toml.",
    )
    image: Image = Field(
        default=Image(), description="An image that has Umbel and what the app needs."
    )
    bundle: Bundle | None = Field(
        default=None, description="Signed wheels to build from, where the image has only Umbel."
    )
    groups: tuple[Name, ...] = Field(
        default=(), description="Only on sites of these groups; left out: of every group."
    )
    predicates: tuple[Predicate, ...] = Field(
        default=(), description="Only on clusters that satisfy one of them, too."
    )
    resources: PodResources = Field(
        default=PodResources(), description="Of the container that runs the app's tasks."
    )
