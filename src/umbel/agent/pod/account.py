"""The pod's own Kubernetes account: the few objects in its namespace that a site may touch."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from umbel.errors import WorldError

MANAGER = "umbel-agent"
_TIMEOUT_S = 10
_NOT_FOUND = 404


class AccountRefused(WorldError):
    """The site's cluster did not do what its agent asked for."""

    code = "U252"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            f"the site's own cluster refused {what}: {why}",
            hint="the agent needs its Role in its namespace: kubectl describe role -n NAMESPACE",
        )


class Account:
    """Speaks to the API server of the cluster that the pod is in."""

    def __init__(self, folder: Path, env: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
        self._address = (host or "kubernetes.default.svc", int(port or 443))
        self.namespace = (folder / "namespace").read_text().strip()

    def secret(self, name: str) -> dict[str, bytes] | None:
        """Give what the Secret holds, or None."""
        found = self._ask("GET", f"secrets/{name}")
        if found is None:
            return None
        return {k: base64.b64decode(v) for k, v in (found.get("data") or {}).items()}

    def save_secret(self, name: str, content: Mapping[str, bytes]) -> None:
        """Leave a Secret with this content."""
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        self._apply("secrets", {"kind": "Secret", "metadata": {"name": name}, "data": data})

    def save_config(self, name: str, content: Mapping[str, str]) -> None:
        """Leave a ConfigMap with this content; keys of others stay."""
        told = {"kind": "ConfigMap", "metadata": {"name": name}, "data": dict(content)}
        self._apply("configmaps", told)

    def _apply(self, kind: str, content: dict[str, Any]) -> None:
        name = content["metadata"]["name"]
        path = f"{kind}/{name}?fieldManager={MANAGER}&force=true"
        self._ask("PATCH", path, {"apiVersion": "v1", **content})

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any] | None:
        what = f"{method} {path.partition('?')[0]}"
        trust = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        host, port = self._address
        connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=trust)
        token = (self._folder / "token").read_text().strip()  # the kubelet renews it
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/apply-patch+yaml",
        }
        url = f"/api/v1/namespaces/{self.namespace}/{path}"
        try:
            connection.request(method, url, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read() or b"{}")
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise AccountRefused(what, str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if response.status == _NOT_FOUND and method == "GET":
            return None
        if response.status >= 300:  # noqa: PLR2004  # anything but success
            raise AccountRefused(what, str(answer.get("message", response.status)))
        return answer
