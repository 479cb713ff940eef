"""What a site's agent says to the Fleet API in its SuperNode's name, with the site's own key."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from umbel.flower.control import ControlRefused, ControlUnreachable


class Fleet:
    """Speaks for one site."""

    def __init__(self, address: str, ca: Path, key: Path) -> None:
        serialization: Any = import_module("cryptography.hazmat.primitives.serialization")
        private = serialization.load_ssh_private_key(key.read_bytes(), None)
        signer = import_module("flwr.supernode.node_auth_http_interceptor").NodeAuthHttpInterceptor
        self._address = address
        self._httpx: Any = import_module("httpx")
        self._client: Any = import_module(
            "flwr.supernode.fleet_http_client"
        ).FleetHttpClient.from_server_address(
            address,
            insecure=False,
            root_certificates=ca.read_bytes(),
            interceptors=[signer(private, private.public_key())],
        )

    def deactivate(self, node_id: int) -> None:
        """Sign the SuperNode off: it can come back at once, and nobody waits for its answers."""
        proto: Any = import_module("flwr.proto.fleet_pb2")
        try:
            self._client.DeactivateNode(proto.DeactivateNodeRequest(node_id=node_id))
        except self._httpx.HTTPStatusError as error:
            raise ControlRefused(
                "DeactivateNode", f"answer {error.response.status_code}"
            ) from error
        except self._httpx.TransportError as error:
            raise ControlUnreachable(self._address, str(error)) from error
