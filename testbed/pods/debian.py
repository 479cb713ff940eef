"""Packages of a Debian suite, fetched and unpacked beside the system, which stays as it is."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from testbed.errors import CannotRun
from testbed.pods.commands import run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class NoMirror(CannotRun):
    """The machine's own package sources name no Debian mirror."""

    def __init__(self) -> None:
        super().__init__(
            "no Debian mirror is set up here",
            hint="images are made of Debian packages: run this on Debian, with apt sources",
        )


def mirror() -> str:
    """Give the mirror this machine itself uses."""
    lines = run(["apt-get", "indextargets", "--format", "$(SITE) $(ORIGIN)"]).splitlines()
    sites = [line.split()[0] for line in lines if line.endswith(" Debian")]
    found = next((site for site in sites if site.rstrip("/").endswith("/debian")), None)
    if found is None:
        raise NoMirror
    return found


def apt_config(root: Path) -> str:
    """Give apt's settings for a root of its own: own sources, own lists, nothing of the system."""
    return f"""\
Dir "{root}";
Dir::State "{root}/state";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Etc "{root}/etc";
Dir::Etc::sourcelist "{root}/etc/sources.list";
Dir::Etc::sourceparts "-";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "3";
"""


def source_line(site: str, suite: str) -> str:
    return f"deb [signed-by={KEYRING}] {site} {suite} main\n"


def fetch(suite: str, packages: Sequence[str], into: Path) -> list[Path]:
    """Fetch exactly these packages, verified by the archive's key; give the files, sorted."""
    into.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        root = Path(temporary)
        for folder in (
            "state/lists/partial",
            "cache/archives/partial",
            "etc/preferences.d",
            "etc/apt.conf.d",
        ):
            (root / folder).mkdir(parents=True)
        (root / "status").touch()
        (root / "etc/sources.list").write_text(source_line(mirror(), suite))
        (root / "apt.conf").write_text(apt_config(root))
        env = {**os.environ, "APT_CONFIG": str(root / "apt.conf")}
        run(["apt-get", "-qq", "update"], env=env)
        argv = ["sh", "-c", 'cd "$0" && exec apt-get -qq download "$@"', str(into), *packages]
        run(argv, env=env)
    return sorted(into.glob("*.deb"))


def key_of(suite: str, packages: Sequence[str], recipe: str = "") -> str:
    """Name what comes of it: another list, another name."""
    words = "\n".join([suite, *sorted(packages), recipe])
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def unpacked(suite: str, packages: Sequence[str], cache: Path) -> Path:
    """Give a folder with the packages' files; it is made once."""
    folder = cache / f"{packages[0]}-{suite}-{key_of(suite, packages)}"
    if not folder.exists():
        beside = folder.with_name(f".{folder.name}.{os.getpid()}")
        try:
            unpack(fetch(suite, packages, beside / "packages"), beside / "root")
            (beside / "root").rename(folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return folder


def unpack(packages: Sequence[Path], root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for package in packages:
        run(["dpkg-deb", "-x", str(package), str(root)])
