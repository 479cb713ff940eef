"""The Flower versions that Umbel speaks to, and what differs between them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from umbel.errors import WorldError


@dataclass(frozen=True, slots=True)
class FlowerVersion:
    """What one minor release of Flower looks like from outside."""

    minor: str
    superlink_flags: frozenset[str]
    supernode_flags: frozenset[str]
    node_names: bool  # `RegisterNode` takes a name

    def supports(self, version: str) -> bool:
        """Whether `version` is a release of this minor."""
        return version == self.minor or version.startswith(f"{self.minor}.")


_SUPERLINK = frozenset(
    {
        "--host",
        "--port",
        "--isolation",
        "--ssl-ca-certfile",
        "--ssl-certfile",
        "--ssl-keyfile",
        "--enable-supernode-auth",
        "--database",
        "--superexec-auth-secret-file",
        "--disable-runtime-dependency-installation",
    }
)
_SUPERNODE = frozenset(
    {
        "--superlink",
        "--root-certificates",
        "--auth-supernode-private-key",
        "--host",
        "--port",
        "--isolation",
        "--ssl-ca-certfile",
        "--ssl-certfile",
        "--ssl-keyfile",
        "--superexec-auth-secret-file",
        "--node-config",
    }
)

SUPPORTED: tuple[FlowerVersion, ...] = (
    FlowerVersion("1.40", _SUPERLINK, _SUPERNODE, node_names=True),
    FlowerVersion("1.41", _SUPERLINK, _SUPERNODE, node_names=True),
)


class FlowerUnsupported(WorldError):
    """The installed Flower is not one that Umbel knows."""

    code = "U210"

    def __init__(self, found: str) -> None:
        known = " and ".join(v.minor for v in SUPPORTED)
        super().__init__(
            f"Flower {found} is not supported; supported are {known}",
            hint="pip install 'flwr>=1.40,<1.42'",
        )


class FlowerMissing(WorldError):
    """Flower is not installed beside Umbel."""

    code = "U211"

    def __init__(self) -> None:
        super().__init__(
            "Flower is not installed in Umbel's environment",
            hint="pip install 'flwr>=1.40,<1.42'",
        )


class FlowerVersionDiffers(WorldError):
    """The document insists on another Flower than the installed one."""

    code = "U212"

    def __init__(self, wanted: str, found: str) -> None:
        super().__init__(
            f"the document asks for Flower {wanted}, installed is {found}",
            hint=f"pip install flwr=={wanted}, or change spec.runtime.flower",
        )


def installed() -> str:
    """Tell the installed Flower's version, without importing it."""
    try:
        return metadata.version("flwr")
    except metadata.PackageNotFoundError:
        raise FlowerMissing from None


def lookup(version: str) -> FlowerVersion:
    """Find what is known about `version`; an unknown one is refused."""
    for known in SUPPORTED:
        if known.supports(version):
            return known
    raise FlowerUnsupported(version)


def require(wanted: str | None = None) -> FlowerVersion:
    """Give what is known about the installed Flower, which must be `wanted` if that is given."""
    found = installed()
    known = lookup(found)
    if wanted is not None and found != wanted and not found.startswith(f"{wanted}."):
        raise FlowerVersionDiffers(wanted, found)
    return known
