"""What the stories on real nodes are made of: containers that answer, and how to ask them."""

from __future__ import annotations

from typing import Any

from testbed.api import Api, Object
from testbed.pods import images

NAME = "answering"
PORT = 8000
NODE_PORT = 30080
SERVES = f"""\
import http.server, os, sys
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["HOSTNAME"].encode())
print("it listens", flush=True)
http.server.ThreadingHTTPServer(("", {PORT}), Answers).serve_forever()
"""
RESOLVE = (
    "import socket, sys; print(*sorted({a[4][0] for a in socket.getaddrinfo(sys.argv[1], 80)}))"
)
HARD = {
    "runAsNonRoot": True,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(script: str, **more: Any) -> Object:
    return {
        "name": "main",
        "image": images.PYTHON,
        "imagePullPolicy": "Never",
        "args": ["-c", script],
        "securityContext": HARD,
        **more,
    }


def deployment(name: str = NAME, replicas: int = 2) -> Object:
    probe = {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1}
    answering = container(SERVES, ports=[{"containerPort": PORT}], readinessProbe=probe)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [answering]},
            },
        },
    }


def service(name: str = NAME, **more: Any) -> Object:
    port = {"port": 80, "targetPort": PORT}
    if "type" in more:
        port["nodePort"] = NODE_PORT
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": name}, "ports": [port], **more},
    }


def once(name: str, wanted: Object) -> Object:
    """Give a pod that runs to its end, once."""
    meta = {"name": name, "namespace": "default"}
    spec = {"restartPolicy": "Never", "containers": [wanted]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def rolled_out(seen: Object) -> bool:
    status, wanted = seen.get("status", {}), seen["spec"]["replicas"]
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
    fresh: bool = status.get("observedGeneration") == seen["metadata"]["generation"]
    return fresh and counts == [wanted] * 3


def names_of_pods(api: Api, name: str = NAME) -> set[str]:
    found = api.list("v1", "Pod", "default", f"app={name}")
    return {pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


def ask(url: str) -> str:
    """Give a script that prints the answer of the URL."""
    return f"import urllib.request as u; print(u.urlopen('{url}', timeout=3).read().decode())"
