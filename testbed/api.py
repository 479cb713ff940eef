"""A thin client of one API server: server-side apply, get, list, delete, wait."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from testbed.errors import BedError
from testbed.waiting import eventually

Object = dict[str, Any]
FIELD_MANAGER = "testbed"
NOT_FOUND = 404
REFUSED = 400


class Refused(BedError):
    """The API server did not do what it was asked."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"the API server answered {status}: {words}")
        self.status = status


class Api:
    """One API server, spoken to with the client certificate of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.server, context = _read_kubeconfig(kubeconfig)
        self._http = httpx.Client(base_url=self.server, verify=context, timeout=30, trust_env=False)
        self._paths: dict[tuple[str, str], tuple[str, bool]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def is_ready(self) -> bool:
        try:
            return self._http.get("/readyz", timeout=5).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Object:
        """Ask and give the JSON answer; a refusal is an error with the server's own words."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        content = None if body is None else json.dumps(body)
        answer = self._http.request(method, path, content=content, headers=sent)
        if answer.status_code >= REFUSED:
            raise Refused(answer.status_code, _words(answer))
        said: Object = answer.json()
        return said

    def apply(self, obj: Object, *, status: bool = False) -> Object:
        """Make the object be as said (server-side apply); with `status`, its status."""
        meta = obj["metadata"]
        path = self.path(obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"])
        tail = "/status" if status else ""
        return self.request(
            "PATCH",
            f"{path}{tail}?fieldManager={FIELD_MANAGER}&force=true",
            obj,
            Content_Type="application/apply-patch+yaml",
        )

    def patch(self, path: str, change: Object) -> Object:
        return self.request("PATCH", path, change, Content_Type="application/merge-patch+json")

    def get(self, version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        """Give the object; nothing if it is not there."""
        try:
            return self.request("GET", self.path(version, kind, namespace, name))
        except Refused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def list(
        self, version: str, kind: str, namespace: str = "", labels: str = ""
    ) -> Iterable[Object]:
        path = self.path(version, kind, namespace)
        answer = self.request("GET", f"{path}?labelSelector={labels}" if labels else path)
        items: list[Object] = answer["items"]
        return items

    def delete(self, version: str, kind: str, name: str, namespace: str = "") -> None:
        """Remove the object; it may be gone already."""
        try:
            self.request("DELETE", self.path(version, kind, namespace, name))
        except Refused as error:
            if error.status != NOT_FOUND:
                raise

    def wait(
        self,
        target: tuple[str, str, str, str],
        holds: Callable[[Object], Any],
        seconds: float = 60,
    ) -> Object:
        """Wait until the object (version, kind, name, namespace) is there and as wanted."""
        seen: list[Object | None] = [None]

        def look() -> Object | None:
            seen[0] = self.get(*target)
            return seen[0] if seen[0] is not None and holds(seen[0]) else None

        def told() -> str:
            return json.dumps((seen[0] or {}).get("status", "no such object"))[:2000]

        return eventually(f"{target[1]} {target[2]} as wanted", look, seconds, told)

    def await_change(self, path: str, version: str, seconds: int = 300) -> None:
        """Wait until a list is another than in this version, or until the time is over."""
        asked = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds={seconds}"
        with self._http.stream("GET", asked, timeout=seconds + 30) as answer:
            next(answer.iter_lines(), None)

    def path(self, version: str, kind: str, namespace: str = "", name: str = "") -> str:
        """Give the address of a kind, or of one object of it."""
        plural, namespaced = self._resource(version, kind)
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        place = f"/namespaces/{namespace}" if namespaced and namespace else ""
        return f"{root}{place}/{plural}{f'/{name}' if name else ''}"

    def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        """Ask the server how it spells the kind; a fresh definition takes it a moment."""
        key = (version, kind)
        until = time.monotonic() + 15
        while key not in self._paths:
            self._discover(version)
            if key not in self._paths:
                if time.monotonic() > until:
                    raise Refused(NOT_FOUND, f"no kind {kind} in {version}")
                time.sleep(0.1)
        return self._paths[key]

    def _discover(self, version: str) -> None:
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        try:
            answer = self.request("GET", root)
        except Refused as error:
            if error.status != NOT_FOUND:
                raise
            return
        for resource in answer["resources"]:
            if "/" not in resource["name"]:
                named = (resource["name"], bool(resource["namespaced"]))
                self._paths[version, resource["kind"]] = named


def condition(obj: Mapping[str, Any], kind: str) -> str:
    """Give the status of a condition: True, False, Unknown, or nothing."""
    conditions = obj.get("status", {}).get("conditions") or []
    return next((str(c["status"]) for c in conditions if c["type"] == kind), "")


def _words(answer: httpx.Response) -> str:
    try:
        return str(answer.json().get("message", answer.text))
    except ValueError:
        return answer.text


def _read_kubeconfig(path: Path) -> tuple[str, ssl.SSLContext]:
    config = yaml.safe_load(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.TemporaryDirectory() as folder:  # 0700; ssl reads a client's key from a file only
        pair = Path(folder, "client.pem")
        parts = (user["client-certificate-data"], user["client-key-data"])
        pair.write_bytes(b"\n".join(base64.b64decode(part) for part in parts))
        context.load_cert_chain(pair)
    return str(cluster["server"]), context
