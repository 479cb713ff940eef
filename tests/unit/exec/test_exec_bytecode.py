from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml
from yaml import nodes

from umbel.exec import bytecode


def test_only_what_is_the_very_same_source_is_lent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, there = tmp_path / "ours", tmp_path / "there"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    theirs = there / "lib" / version / "site-packages"
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(ours))
    for module in (yaml, nodes):
        source = Path(str(module.__file__))
        name = source.name
        compiled = ours / "yaml" / "__pycache__" / f"{name}c"
        compiled.parent.mkdir(parents=True, exist_ok=True)
        (theirs / "yaml").mkdir(parents=True, exist_ok=True)
        compiled.write_bytes(b"compiled")
        for place in (ours, theirs):
            shutil.copy2(source, place / "yaml" / name)
        monkeypatch.setattr(module, "__file__", str(ours / "yaml" / name))
        monkeypatch.setattr(module, "__cached__", str(compiled))
    (theirs / "yaml" / "nodes.py").write_text("another")
    assert bytecode.lend(there) == 1
    lent = [path.name for path in theirs.rglob("*.pyc")]
    assert lent == ["__init__.pyc"]
