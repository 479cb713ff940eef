"""Tiny packages, made on the spot: nothing is downloaded."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

META = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
BACKEND = """
import os, pathlib, threading, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    here = pathlib.Path({here!r})
    with (here / "begun").open("a") as file:
        file.write(f"{{os.getpid()}}\\n")
    while not (here / "released").exists():
        threading.Event().wait(0.02)
    name = "slow-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as file:
        file.writestr("slow.py", "VERSION = '1.0'\\n")
        file.writestr("slow-1.0.dist-info/METADATA", {meta!r})
        file.writestr("slow-1.0.dist-info/WHEEL", {wheel!r})
        file.writestr("slow-1.0.dist-info/RECORD", "")
    return name
"""


def make_wheel(folder: Path, name: str, version: str, code: str = "") -> Path:
    """Write a wheel with one module that knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n{code}")
        wheel.writestr(f"{info}/METADATA", META.format(name=name, version=version))
        wheel.writestr(f"{info}/WHEEL", WHEEL)
        wheel.writestr(f"{info}/RECORD", "")
    return path


def make_slow_source(folder: Path) -> Path:
    """Write a source distribution whose build waits for a file `released` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    meta = META.format(name="slow", version="1.0")
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
        'backend-path = ["."]\n[project]\nname = "slow"\nversion = "1.0"\n',
        "backend.py": BACKEND.format(here=str(folder), meta=meta, wheel=WHEEL),
        "PKG-INFO": meta,
    }
    path = folder / "slow-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as bundle:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"slow-1.0/{name}")
            entry.size = len(text.encode())
            bundle.addfile(entry, io.BytesIO(text.encode()))
    return path
