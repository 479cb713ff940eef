"""Virtual environments of apps: locked, built once, shared by everything of this user.

ROOT/KEY/            the environment; it appears whole, or not at all
ROOT/KEY/umbel.json  what it was made of
ROOT/KEY/used        touched at each use, locked while a process lives in it
ROOT/locks/KEY.txt   the exact versions and hashes; a rebuild installs the same
ROOT/building/KEY    a build that goes on, or was killed: the next one clears it away
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from umbel.exec import bytecode
from umbel.exec.collection import Kept, superfluous
from umbel.files import ensure_private_folder, write_private

READY = "umbel.json"
USED = "used"
PLACE = "UMBEL_ENVIRONMENTS"
_TOLD_BYTES = 4_000
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_OURS = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT")


class BuildFailed(Exception):  # its words become the task's failure
    """An environment cannot be made, in the builder's own words."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an environment is made of."""

    key: str
    dependencies: tuple[str, ...]
    flower: str
    wheels: Path | None = None  # nothing else is looked at when it is given


def default_root(env: Mapping[str, str]) -> Path:
    """Say where this user's environments are: all homes share them."""
    if env.get(PLACE):
        return Path(env[PLACE]).expanduser().absolute()
    cache = env.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path(env.get("HOME") or "~").expanduser()
    return (base if cache.startswith("/") else base / ".cache") / "umbel" / "environments"


def identity_of(wheels: Path | None) -> str:
    """Describe a folder of wheels so that any change of it shows."""
    if wheels is None:
        return ""
    try:
        files = sorted(wheels.iterdir())
        return json.dumps([[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in files])
    except OSError as error:
        return f"unreadable: {error}"


class Environments:
    """The environments below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def python(self, key: str) -> Path:
        """Say where an environment's interpreter is, or will be."""
        return self.root / key / "bin" / "python"

    def is_ready(self, key: str) -> bool:
        """Whether it is there, whole, and the Python that it was made with still is, too."""
        return (self.root / key / READY).exists() and self.python(key).exists()

    def touch(self, key: str) -> None:
        """Note that it is used now."""
        with contextlib.suppress(OSError):
            os.utime(self.root / key / USED)

    def build(self, recipe: Recipe, log: BinaryIO) -> None:
        """Have the environment; `log` hears what the builder says. Others wait for the same."""
        for folder in (self.root, self.root / "locks", self.root / "building"):
            ensure_private_folder(folder)
        with self._alone(recipe.key):
            if self.is_ready(recipe.key):
                return
            made = self.root / "building" / recipe.key
            shutil.rmtree(made, ignore_errors=True)  # of a build that was killed
            _make(recipe, made, self.root / "locks" / f"{recipe.key}.txt", _Builder(log))
            final = self.root / recipe.key
            shutil.rmtree(final, ignore_errors=True)  # without a note it was never whole
            made.rename(final)
            shutil.rmtree(made, ignore_errors=True)

    @contextlib.contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        with (self.root / "locks" / f"{key}.lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def kept(self) -> list[Kept]:
        """List what is on the disk."""
        found = []
        for note in sorted(self.root.glob(f"*/{READY}")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                used, size = note.parent / USED, int(json.loads(note.read_text())["size"])
                held = _is_locked(used)
                found.append(Kept(note.parent.name, used.stat().st_mtime, size, held))
        return found

    def collect(self, *, sparing: str = "") -> list[str]:
        """Remove what is superfluous; gives the keys."""
        kept = [k for k in self.kept() if k.key != sparing]
        gone = superfluous(kept, time.time())
        for key in gone:
            with self._alone(key):
                away = self.root / "building" / f"{key}.gone"
                shutil.rmtree(away, ignore_errors=True)
                with contextlib.suppress(OSError):
                    (self.root / key).rename(away)
                shutil.rmtree(away, ignore_errors=True)
        return gone


def hold(folder: Path) -> int:
    """Keep the environment from being collected while this process lives."""
    fd = os.open(folder / USED, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Builder:
    """Runs uv, which dies with us."""

    log: BinaryIO

    def uv(self, *argv: str, given: bytes = b"") -> None:
        """Run uv; what it says is logged, and is the failure's reason if it fails."""
        env = {k: v for k, v in os.environ.items() if k not in _OURS}
        done = subprocess.run(
            (_find_uv(), *argv),
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**env, "NO_COLOR": "1", "UV_NO_PROGRESS": "1"},
            cwd="/",
            check=False,
            preexec_fn=_die_with_parent,  # one thread here, so nothing can be locked
        )
        self.log.write(done.stdout)
        self.log.flush()
        if done.returncode:
            words = done.stdout.decode(errors="replace").strip()
            raise BuildFailed(words[-_TOLD_BYTES:] or f"uv ended with {done.returncode}")


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _make(recipe: Recipe, folder: Path, lock: Path, builder: _Builder) -> None:
    began_s, python = time.monotonic(), ("--python", sys.executable)
    sources = ("--no-index", "--find-links", str(recipe.wheels)) if recipe.wheels else ()
    if not lock.exists():
        wanted = "".join(f"{line}\n" for line in (*recipe.dependencies, f"flwr=={recipe.flower}"))
        plain = ("-q", "--no-header", "--no-annotate", "--generate-hashes")
        new = lock.with_suffix(".new")
        builder.uv(
            *("pip", "compile", *plain, *sources, *python, "-o", str(new), "-"),
            given=wanted.encode(),
        )
        new.replace(lock)
    builder.uv("venv", "-q", "--relocatable", *python, str(folder))
    inside = ("--python", str(folder / "bin" / "python"))
    builder.uv("pip", "install", "--no-deps", *inside, *sources, "-r", str(lock))
    bytecode.lend(folder)
    (folder / USED).touch(mode=0o600)
    note = {
        "dependencies": recipe.dependencies,
        "flower": recipe.flower,
        "size": _size(folder),
        "seconds": round(time.monotonic() - began_s, 3),
    }
    write_private(folder / READY, json.dumps(note))


def _find_uv() -> str:
    from uv import find_uv_bin  # noqa: PLC0415  # only who builds needs it

    try:
        return find_uv_bin()
    except FileNotFoundError:
        raise BuildFailed("uv is not installed beside Umbel: pip install uv") from None


def _size(folder: Path) -> int:
    return sum(
        entry.stat(follow_symlinks=False).st_size
        for path, _, _ in os.walk(folder)
        for entry in os.scandir(path)
        if entry.is_file(follow_symlinks=False)
    )
