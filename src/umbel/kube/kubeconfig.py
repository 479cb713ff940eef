"""How to reach a cluster: from a kubeconfig, or as a pod from within."""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from umbel.errors import RequestError, SecurityError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_KINDS = ("context", "cluster", "user")
_FOLDER = "/folder"  # of the file that an entry is from: paths in it begin there
_EXEC_TIMEOUT_S = 60
_FRESH_S = 60.0  # a token is renewed this long before it ends


class KubeconfigUnusable(RequestError):
    """There is no kubeconfig, or it does not say how to reach a cluster."""

    code = "U370"

    def __init__(self, path: str, why: str, hint: str = "") -> None:
        super().__init__(
            f"the kubeconfig {path} cannot be used: {why}",
            hint=hint
            or "name the file that kubectl uses for the hub with --kubeconfig, or in KUBECONFIG",
        )


class KubeconfigInsecure(SecurityError):
    """The kubeconfig says that the API server's certificate is not to be checked."""

    code = "U430"
    exit_status = 2

    def __init__(self, cluster: str) -> None:
        super().__init__(
            f"cluster {cluster!r} in the kubeconfig has insecure-skip-tls-verify or plain http",
            hint="give the cluster's CA in certificate-authority instead",
        )


class LoginFailed(SecurityError):
    """The program that the kubeconfig names for logging in failed."""

    code = "U431"

    def __init__(self, command: str, why: str) -> None:
        super().__init__(
            f"{command}, which the kubeconfig names for logging in, failed: {why}",
            hint="run kubectl get namespaces: it uses the same program",
        )


@dataclass(slots=True)
class Reach:
    """One cluster, one user. Tokens are renewed as they end."""

    server: str
    trust: ssl.SSLContext
    namespace: str = "default"
    token_file: Path | None = None
    plugin: Mapping[str, Any] | None = None
    _token: str = field(default="", repr=False)
    _until_s: float = 0.0

    def token(self) -> str:
        """Give the bearer token of now; empty when a certificate speaks for us."""
        if self.token_file is not None:
            return self.token_file.read_text().strip()
        if self.plugin is not None and time.time() > self._until_s - _FRESH_S:
            self._token, self._until_s = _login(self.plugin)
        return self._token


def find(path: Path | None = None, context: str | None = None) -> Reach:
    """Find the cluster: the file named, KUBECONFIG, ~/.kube/config, else the pod's own account."""
    if path is not None:
        return _from_files([path.expanduser()], context)
    if named := [Path(p) for p in os.environ.get("KUBECONFIG", "").split(os.pathsep) if p]:
        return _from_files([p for p in named if p.exists()] or named[:1], context)
    inside = (ACCOUNT / "token").exists() and os.environ.get("KUBERNETES_SERVICE_HOST")
    if inside and not context:
        return _from_within()
    return _from_files([Path("~/.kube/config").expanduser()], context)


def _from_within() -> Reach:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    return Reach(
        server=f"https://{host}:{port}",
        trust=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")),
        namespace=(ACCOUNT / "namespace").read_text().strip(),
        token_file=ACCOUNT / "token",
    )


def _from_files(paths: Sequence[Path], context: str | None) -> Reach:
    known = _Known(os.pathsep.join(map(str, paths)))
    for path in paths:
        known.add(path)
    chosen = known.context(context)
    cluster, user = known.entry("cluster", chosen), known.entry("user", chosen)
    server = str(cluster.get("server") or "").rstrip("/")
    if not server:
        raise KubeconfigUnusable(known.where, f"the cluster {chosen['cluster']!r} has no server")
    if cluster.get("insecure-skip-tls-verify") or not server.startswith("https://"):
        raise KubeconfigInsecure(chosen["cluster"])
    try:
        trust = _trust(cluster, user)
    except (OSError, ssl.SSLError, binascii.Error) as error:
        raise KubeconfigUnusable(known.where, f"its certificates: {error}") from error
    token_file = user.get("tokenFile")
    reach = Reach(server, trust, chosen.get("namespace") or "default")
    reach.token_file = user[_FOLDER] / token_file if token_file else None
    reach.plugin = user.get("exec")
    reach._token = str(user.get("token") or "")  # noqa: SLF001  # our own
    return reach


class _Known:
    """What the files say together: of two entries with one name the first counts, as in kubectl."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._current = ""
        self._found: dict[str, dict[str, dict[str, Any]]] = {k: {} for k in _KINDS}

    def add(self, path: Path) -> None:
        """Read one more file."""
        try:
            data = yaml.safe_load(path.read_text())
            for kind in _KINDS:
                for entry in data.get(f"{kind}s") or ():
                    content = {**(entry.get(kind) or {}), _FOLDER: path.parent}
                    self._found[kind].setdefault(entry["name"], content)
            self._current = self._current or str(data.get("current-context") or "")
        except OSError as error:
            raise KubeconfigUnusable(str(path), error.strerror or "unreadable") from error
        except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise KubeconfigUnusable(str(path), "it is no kubeconfig") from error

    def context(self, named: str | None) -> dict[str, Any]:
        """Give the named context, else the current one; a wrong name is told with those there are."""
        name, there = named or self._current, self._found["context"]
        if name in there:
            return there[name]
        why = f"it has no context {name!r}" if name else "it has no current context"
        hint = f"contexts: {', '.join(sorted(there))}; choose with --context NAME" if there else ""
        raise KubeconfigUnusable(self.where, why, hint)

    def entry(self, kind: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Give the cluster or the user of a context."""
        name = chosen.get(kind)
        if name not in self._found[kind]:
            raise KubeconfigUnusable(
                self.where, f"it has no {kind} {name!r}, which a context names"
            )
        return self._found[kind][name]


def _trust(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate, key = _content(user, "client-certificate"), _content(user, "client-key")
    if certificate and key:
        with tempfile.TemporaryDirectory() as private:  # 0700; OpenSSL reads files only
            pair = Path(private) / "pair.pem"
            pair.touch(0o600)
            pair.write_bytes(certificate + b"\n" + key)
            context.load_cert_chain(pair)
    return context


def _content(entry: Mapping[str, Any], key: str) -> bytes:
    if coded := entry.get(f"{key}-data"):
        return base64.b64decode("".join(str(coded).split()), validate=True)
    return bytes((entry[_FOLDER] / entry[key]).read_bytes()) if entry.get(key) else b""


def _login(plugin: Mapping[str, Any]) -> tuple[str, float]:
    """Ask the plug-in for a token, as kubectl does; gives when it ends too."""
    command = [str(plugin["command"]), *map(str, plugin.get("args") or [])]
    extra = {str(e["name"]): str(e["value"]) for e in plugin.get("env") or []}
    asked = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {}}
    env = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, timeout=_EXEC_TIMEOUT_S, check=True
        )
        status = json.loads(done.stdout)["status"]
        ends = status.get("expirationTimestamp")
        until_s = datetime.fromisoformat(ends).timestamp() if ends else float("inf")
        return str(status["token"]), until_s
    except subprocess.CalledProcessError as error:
        raise LoginFailed(command[0], error.stderr.decode(errors="replace")[-300:]) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LoginFailed(command[0], str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LoginFailed(command[0], f"its answer is no ExecCredential ({error})") from error
