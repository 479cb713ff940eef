"""1,000 site identities: key, certificate, roster, on disk; then registered at a real SuperLink.

The peer is a person's script: ssh-keygen and openssl, one call after the other.

    python bench/identities.py [--sites 1000] [--peer-sites 50] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from umbel.flower.control import Connection, Control
from umbel.identity.authority import Authority
from umbel.identity.provision import SiteIdentity, ensure_sites
from umbel.identity.roster import Roster

AIM_S = 2.0
REFERENCE = {
    "reference_s": 64.0,
    "reference": "NVIDIA FLARE's provisioning of 1,000 sites, measured elsewhere on such a machine",
}
ROUNDS = 3
TOOLS = ("openssl", "ssh-keygen")


@dataclass
class Federation:
    """What the phases share: a CA, the sites' folders, and what was made for them."""

    root: Path
    sites: int
    now: datetime
    made: dict[str, SiteIdentity] = field(default_factory=dict)

    @property
    def folders(self) -> dict[str, Path]:
        return {f"site-{i}": self.root / "sites" / f"site-{i}" for i in range(self.sites)}


def identities(federation: Federation) -> None:
    """Make keys and certificates."""
    now = federation.now
    ca = Authority.create(federation.root / "ca", "bench", now=now, days=3650, secret=None)
    federation.made = ensure_sites(ca, federation.folders, now=now, days=90)


def roster(federation: Federation) -> None:
    """Bind every site's name to its key."""
    bound = {name: site.node.fingerprint for name, site in federation.made.items()}
    Roster(federation.root / "gate" / "sites.json").add_all(bound)


PHASES: tuple[Callable[[Federation], None], ...] = (identities, roster)


@contextmanager
def running_federation(home: Path) -> Iterator[Control]:
    """Start a federation of one site, to register the others with."""
    document = home.with_suffix(".yaml")
    document.write_text(
        "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata: {name: bench}\n"
        "spec:\n  groups: [{name: local, sites: 1}]\n"
    )
    umbel = partial(run_umbel, home)
    umbel("up", "-f", str(document))
    try:
        address = json.loads(umbel("status", "-o", "json"))["endpoint"]["control"]
        folder = home / "federations" / "bench"
        token = folder / "users" / "owner.token"
        yield Control(Connection(address, folder / "ca" / "bundle.crt", token))
    finally:
        umbel("down")


def run_umbel(home: Path, *words: str) -> str:
    command = [str(Path(sys.executable).parent / "umbel"), *words]
    environment = {**os.environ, "UMBEL_HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def registration(home: Path, made: dict[str, SiteIdentity]) -> dict[str, float]:
    """Register every key at a real SuperLink, through the gate."""
    keys = [(name, site.node.public_pem) for name, site in made.items()]
    with running_federation(home) as control:
        took = timed(lambda: control.register_all(keys))
        assert len(control.nodes()) == len(keys) + 1
    return {"registration_s": took}


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def one_round(root: Path, sites: int) -> dict[str, float]:
    """Make everything once, then look again at what is there already."""
    federation = Federation(root, sites, datetime.now(UTC))
    cpu = time.process_time()
    took = {f"{phase.__name__}_s": timed(partial(phase, federation)) for phase in PHASES}
    took["umbel_s"] = sum(took.values())
    took["cpu_s"] = time.process_time() - cpu  # what remains when neighbours are loud
    took["again_s"] = sum(timed(partial(phase, federation)) for phase in PHASES)
    took |= registration(root / "home", federation.made)
    took["umbel_s"] += took["registration_s"]
    assert len(Roster(root / "gate" / "sites.json").sites()) == sites
    return took


def shell_peer(root: Path, sites: int) -> dict[str, Any]:
    """Make the same with the usual commands, a few of them, and give the time for one."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return {"shell_per_identity_ms": None, "shell_note": f"not here: {', '.join(missing)}"}
    root.mkdir(mode=0o700)
    (root / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    call(root, "openssl ecparam -name prime256v1 -genkey -noout -out ca.key")
    call(root, "openssl req -x509 -new -key ca.key -subj /CN=bench -days 3650 -out ca.crt")
    took = sum(timed(partial(shell_identity, root, f"site-{i}")) for i in range(sites))
    return {"shell_per_identity_ms": 1000 * took / sites, "shell_identities": sites}


def shell_identity(root: Path, name: str) -> None:
    folder = root / name
    folder.mkdir(mode=0o700)
    call(folder, "ssh-keygen -q -t ecdsa -b 256 -f node.key -C", name, "-N", "")
    pem = call(folder, "ssh-keygen -e -m PKCS8 -f node.key.pub")
    der = call(folder, "openssl pkey -pubin -outform DER", given=pem)
    call(folder, "openssl dgst -sha256", given=der)
    call(folder, "openssl ecparam -name prime256v1 -genkey -noout -out server.key")
    call(folder, "openssl req -new -key server.key -subj /CN=localhost -out server.csr")
    call(
        folder,
        "openssl x509 -req -in server.csr -CA ../ca.crt -CAkey ../ca.key -CAcreateserial "
        "-extfile ../san -days 90 -out server.crt",
    )


def call(folder: Path, line: str, *more: str, given: bytes = b"") -> bytes:
    argv = [*line.split(), *more]
    done = subprocess.run(argv, cwd=folder, input=given, capture_output=True, check=True)
    return done.stdout


def flush_ms(root: Path) -> float:
    """Say what one small file costs to flush here, to judge the rest by."""

    def flush(number: int) -> float:
        fd = os.open(root / f"flush-{number}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, bytes(400))
        took = timed(lambda: os.fsync(fd))
        os.close(fd)
        return took

    return 1000 * statistics.median(flush(number) for number in range(50))


def measure(root: Path, sites: int, peer_sites: int) -> dict[str, Any]:
    """Give the median of some rounds; nothing is removed before the end, as that slows ext4."""
    rounds = [one_round(root / f"round-{i}", sites) for i in range(ROUNDS)]
    case: dict[str, Any] = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
    case |= {"worst_s": max(r["umbel_s"] for r in rounds), "stock_s": None, "ratio": None}
    case |= {"aim_s": AIM_S, "met": case["umbel_s"] <= AIM_S * sites / 1000, **REFERENCE}
    case |= {"umbel_per_identity_ms": 1000 * case["umbel_s"] / sites, "flush_ms": flush_ms(root)}
    return case | shell_peer(root / "shell", peer_sites)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--peer-sites", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="on the disk to measure; default: temporary")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as root:
        case = measure(Path(root), given.sites, given.peer_sites)
    tidy = {k: round(v, 4) if isinstance(v, float) else v for k, v in case.items()}
    print(json.dumps({"cases": [{"name": f"identities_{given.sites}"} | tidy]}, indent=1))


if __name__ == "__main__":
    main()
