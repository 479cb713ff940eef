"""Flower's command lines, as pure functions. The secure form is the only form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Tls:
    """A server's certificate, its key, and the CA that its clients trust."""

    ca: Path
    certificate: Path
    key: Path

    def flags(self) -> tuple[str, ...]:
        """Give the flags that SuperLink and SuperNode share."""
        return (
            *("--ssl-ca-certfile", str(self.ca)),
            *("--ssl-certfile", str(self.certificate)),
            *("--ssl-keyfile", str(self.key)),
        )


def superlink_argv(*, tls: Tls, database: Path, superexec_secret: Path) -> tuple[str, ...]:
    """Start a SuperLink that knows its nodes, and hands tasks only to who has the secret."""
    return (
        "flower-superlink",
        *("--isolation", "process"),
        *tls.flags(),
        "--enable-supernode-auth",
        *("--database", str(database)),
        *("--superexec-auth-secret-file", str(superexec_secret)),
        "--disable-runtime-dependency-installation",
    )


def supernode_argv(
    *, fleet: str, ca: Path, key: Path, runtime_port: int, tls: Tls, superexec_secret: Path,
    node_config: Mapping[str, Scalar], host: str = "127.0.0.1",
) -> tuple[str, ...]:  # fmt: skip
    """Start a SuperNode that trusts our CA and proves who it is; `host`: who may ask for tasks."""
    return (
        "flower-supernode",
        *("--superlink", fleet, "--root-certificates", str(ca)),
        *("--auth-supernode-private-key", str(key)),
        *("--isolation", "process", "--host", host, "--port", str(runtime_port)),
        *tls.flags(),
        *("--superexec-auth-secret-file", str(superexec_secret)),
        *(("--node-config", node_config_text(node_config)) if node_config else ()),
    )


def node_config_text(values: Mapping[str, Scalar]) -> str:
    """Write the values as Flower reads them: TOML literals, separated by blanks."""
    return " ".join(f"{key}={_literal(value)}" for key, value in sorted(values.items()))


def _literal(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)


def quiet(flower_home: Path) -> dict[str, str]:
    """Keep Flower at home: no telemetry, no update check. Must be set before Flower is imported."""
    return {
        "FLWR_HOME": str(flower_home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }


def environment(flower_home: Path, ca: Path) -> dict[str, str]:
    """Keep Flower at home, with our CA and no other."""
    return {
        **quiet(flower_home),
        "SSL_CERT_FILE": str(ca),
        "REQUESTS_CA_BUNDLE": str(ca),
    }
