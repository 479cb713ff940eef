"""Which programs make up the test bed, where they come from and where they are kept."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.errors import BedError, NotBuilt

MODULES = Path(__file__).parent / "modules"
OTHER_OCM = "UMBEL_TESTBED_OCM"


class NotGiven(BedError):
    """The folder with another OCM lacks something."""

    def __init__(self, what: str, folder: Path) -> None:
        super().__init__(
            f"{folder} has no {what}",
            hint=f"{OTHER_OCM} names a folder with every `ocm-…` program and `crds/`; "
            "unset it for the version that is built here",
        )


@dataclass(frozen=True)
class Upstream:
    """One project, pinned by the go.mod and go.sum of its folder."""

    name: str
    module: str
    packages: dict[str, str] = field(default_factory=dict)  # program -> package that makes it
    stamp: str = ""  # the variable that holds the version

    @property
    def folder(self) -> Path:
        return MODULES / self.name

    def version(self) -> str:
        """Read the pinned version; the go.mod is the only place that has it."""
        text = (self.folder / "go.mod").read_text()
        found = re.search(rf"^(?:require|\s)\s*{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        return found[1] if found else "v0"

    def key(self) -> str:
        """Name what a build with these pins gives: another pin, another name."""
        pins = [self.folder / name for name in ("go.mod", "go.sum")]
        return f"{self.name}-{self.version()}-{_digest(pins)}"

    def path(self, name: str) -> Path:
        """Tell where a build puts the program; one of our own also goes by its source."""
        package = self.packages[name]
        sources = sorted((self.folder / package).glob("*.go")) if package[0] == "." else []
        return folder_of(self) / (f"{name}-{_digest(sources)}" if sources else name)


def _digest(files: Sequence[Path]) -> str:
    content = hashlib.sha256()
    for path in files:
        content.update(path.read_bytes())
    return content.hexdigest()[:12]


def _kubernetes(*names: str) -> dict[str, str]:
    return {name: f"k8s.io/kubernetes/cmd/{name}" for name in names}


def _ocm(*names: str) -> dict[str, str]:
    return {f"ocm-{name}": f"open-cluster-management.io/ocm/cmd/{name}" for name in names}


# In the order of use: a build that is cut short has the most useful half.
KUBERNETES = Upstream(
    "kubernetes",
    "k8s.io/kubernetes",
    _kubernetes(
        "kube-apiserver",
        "kube-controller-manager",
        "kubectl",
        "kubelet",
        "kube-proxy",
        "kube-scheduler",
    ),
    stamp="k8s.io/component-base/version.gitVersion",
)
OCM = Upstream(
    "ocm",
    "open-cluster-management.io/ocm",
    {
        **_ocm("registration", "registration-operator", "placement", "addon", "work"),
        "ocm-webhooks": "./webhooks",
    },
)
HELM = Upstream("helm", "helm.sh/helm/v3", {"helm": "helm.sh/helm/v3/cmd/helm"})
KUBECONFORM = Upstream(
    "kubeconform",
    "github.com/yannh/kubeconform",
    {"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"},
)
# Debian's stable containerd is older than what this Kubernetes talks to.
CONTAINERD = Upstream(
    "containerd",
    "github.com/containerd/containerd/v2",
    {
        name: f"github.com/containerd/containerd/v2/cmd/{name}"
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
)
COREDNS = Upstream("coredns", "github.com/coredns/coredns", {"coredns": "./dns"})
UPSTREAMS = (KUBERNETES, OCM, CONTAINERD, COREDNS, HELM, KUBECONFORM)
ETCD = ("etcd", "etcdctl")


def cache() -> Path:
    """Name the folder that keeps what is built."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "umbel" / "testbed"


def etcd_folder() -> Path:
    pins = MODULES / "etcd" / "requirements.txt"
    version = re.search(r"==(\S+)", pins.read_text())
    assert version is not None  # noqa: S101  # our own file
    return cache() / "bin" / f"etcd-{version[1]}-{_digest([pins])}"


def folder_of(upstream: Upstream) -> Path:
    return cache() / "bin" / upstream.key()


def given(upstream: Upstream) -> Path | None:
    """Name the folder with another version of it that a person made; nothing is built into it."""
    named = os.environ.get(OTHER_OCM) if upstream is OCM else None
    return Path(named).resolve() if named else None


def every_program() -> Iterator[tuple[str, Path]]:
    """Give each program with the place where a build, or a person, puts it."""
    for upstream in UPSTREAMS:
        other = given(upstream)
        for name in upstream.packages:
            yield name, other / name if other else upstream.path(name)
    yield from ((name, etcd_folder() / name) for name in ETCD)


def program(name: str) -> Path:
    """Give the program's path; it must have been built."""
    return _there(dict(every_program())[name], name)


def definitions() -> Path:
    """Give the folder with OCM's own resource definitions."""
    folder = given(OCM) or folder_of(OCM)
    return _there(folder / "crds", "the set of OCM's resource definitions")


def _there(path: Path, name: str) -> Path:
    if path.exists():
        return path
    raise NotGiven(path.name, path.parent) if path.parent == given(OCM) else NotBuilt(name)
