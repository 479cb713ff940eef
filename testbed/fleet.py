"""The fleet file: which clusters there are, with their labels, claims and resources."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from testbed.errors import BedError

RESERVED = ("hub", "etcd", "relay", "volumes", "policies", "global", "default")


class FleetWrong(BedError):
    def __init__(self, path: Path, words: str) -> None:
        super().__init__(
            f"{path} is no fleet: {words}",
            hint="clusters: [{name: cluster1, labels: {gpu: 'true'}, claims: {region: eu}}]",
        )


class Cluster(BaseModel):
    """One managed cluster as it should look from the hub."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    labels: dict[str, str] = Field(default_factory=dict)
    claims: dict[str, str] = Field(default_factory=dict)
    capacity: dict[str, str] = Field(default_factory=dict)
    nodes: int = Field(default=1, ge=1, le=9)  # real ones, with --pods

    @field_validator("name")
    @classmethod
    def _usable(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?", name) or name in RESERVED:
            message = f"{name!r} cannot name a cluster"
            raise ValueError(message)
        return name


class Fleet(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    clusters: tuple[Cluster, ...] = Field(min_length=1)

    @field_validator("clusters")
    @classmethod
    def _distinct(cls, clusters: tuple[Cluster, ...]) -> tuple[Cluster, ...]:
        if len({cluster.name for cluster in clusters}) < len(clusters):
            message = "two clusters have the same name"
            raise ValueError(message)
        return clusters

    @property
    def names(self) -> list[str]:
        return [cluster.name for cluster in self.clusters]

    @property
    def nodes(self) -> dict[str, int]:
        """How many real nodes each cluster has, the hub included."""
        return {"hub": 1, **{cluster.name: cluster.nodes for cluster in self.clusters}}


def of_size(count: int) -> Fleet:
    """Give a fleet of cluster1, cluster2 and so on, without labels."""
    return Fleet(clusters=tuple(Cluster(name=f"cluster{i}") for i in range(1, count + 1)))


def load(path: Path) -> Fleet:
    """Read a fleet file; say what is wrong with it."""
    try:
        said: Any = yaml.safe_load(path.read_text())
        return Fleet.model_validate(said)
    except OSError as error:
        raise FleetWrong(path, error.strerror or str(error)) from error
    except yaml.YAMLError as error:
        raise FleetWrong(path, str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise FleetWrong(path, f"{where}: {first['msg']}") from error
