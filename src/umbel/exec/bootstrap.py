"""Starts a part of Umbel in an app's environment, where Umbel is not installed.

Only the package `umbel` becomes importable: nothing else of where it comes from.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

PARTS = {"warm": "umbel.exec.warm", "task": "umbel.exec.child"}


def find_umbel() -> None:
    """Make `umbel` importable from the folder that this file is in."""
    folder = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "umbel", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None  # noqa: S101  # a file of ours
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules["umbel"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    find_umbel()
    importlib.import_module(PARTS[sys.argv[1]]).main()
