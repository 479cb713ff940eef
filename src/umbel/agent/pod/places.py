"""Where everything is in a pod. The manifests mount volumes here, the containers look here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

USER = 10001  # all containers run as this user and group

# Volumes, and where they are mounted.
STATE = "/var/umbel"  # the hub's persistent volume, one folder of it for each container
LINK = "/run/umbel/link"  # superlink and gate
TASKS = "/run/umbel/tasks"  # who offers tasks, and exec
DESK = "/run/umbel/desk"  # gate and desk
KEYS = "/run/umbel/keys"  # node alone, in memory
TRUST = "/etc/umbel/trust"  # ca.crt: what everybody trusts
CONFIG = "/etc/umbel/config"  # one file a container
GATE = "/etc/umbel/gate"  # server.crt, server.key, users.json
OWNER = "/etc/umbel/owner"  # token
RUNTIME = "/etc/umbel/runtime"  # ca.crt, exec.secret: of an environment's executor
ACCOUNT = "/etc/umbel/account"  # the pod's own Kubernetes account: token, ca.crt, namespace

BUNDLE = "/opt/umbel-bundle"  # signed wheels, in an image of their own

FLEET_PORT = 9092
CONTROL_PORT = 9093
RUNTIME_PORT = 9091
NODE_RUNTIME_PORT = 9094
HEALTH_PORTS = {
    "superlink": 8081,
    "gate": 8082,
    "desk": 8083,
    "exec": 8084,
    "node": 8085,
    "app": 8086,
}


@dataclass(frozen=True, slots=True)
class Places:
    """The files of a pod below a root, which is / in a container."""

    root: Path = Path("/")

    def at(self, path: str) -> Path:
        """Give the place below the root."""
        return self.root / path.lstrip("/")

    def own(self, path: str) -> Path:
        """Give the folder of ours in a volume; the volume's own top belongs to the system."""
        return self.at(path) / "umbel"

    def config(self, role: str) -> Path:
        """What a container is told."""
        return self.at(CONFIG) / f"{role}.json"

    @property
    def trust(self) -> Path:
        """The CA certificates that everybody in the federation trusts."""
        return self.at(TRUST) / "ca.crt"

    @property
    def scratch(self) -> Path:
        """A container's own folder, gone with it."""
        return self.at("/tmp") / "umbel"  # noqa: S108  # a volume of the container's own

    @property
    def superlink_socket(self) -> Path:
        """What the SuperLink listens on."""
        return self.own(LINK) / "superlink.sock"

    @property
    def desk_socket(self) -> Path:
        """What the desk listens on."""
        return self.own(DESK) / "desk.sock"

    @property
    def wake(self) -> Path:
        """Where the executor is poked."""
        return self.own(TASKS) / "exec.wake"

    @property
    def secret(self) -> Path:
        """What the executor proves itself with; made in the pod."""
        return self.own(TASKS) / "exec.secret"

    @property
    def runtime_ca(self) -> Path:
        """What the executor trusts: the certificate of the Runtime API beside it."""
        return self.own(TASKS) / "runtime.crt"

    @property
    def reached(self) -> Path:
        """There while an environment's executor reaches its SuperNode."""
        return self.scratch / "exec.reached"

    @property
    def ready(self) -> Path:
        """Where a SuperNode notes its process and node id when it is connected."""
        return self.own(KEYS) / "supernode.ready"

    @property
    def database(self) -> Path:
        """The SuperLink's state."""
        return self.own(f"{STATE}/superlink") / "state.db"

    @property
    def roster(self) -> Path:
        """Which key is which site."""
        return self.own(f"{STATE}/desk") / "sites.json"

    @property
    def sites_of_apps(self) -> Path:
        """Which sites have the environments of apps; the desk writes it beside the roster."""
        return self.roster.with_name("environments.json")

    @property
    def status(self) -> Path:
        """What the operator last said of the federation."""
        return self.own(f"{STATE}/desk") / "status.json"

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.own(f"{STATE}/runs")

    @property
    def environments(self) -> Path:
        """The environments of apps."""
        return self.own(f"{STATE}/environments")

    @property
    def audit(self) -> Path:
        """What was asked of the gate, by whom."""
        return self.own(f"{STATE}/gate") / "audit.jsonl"
