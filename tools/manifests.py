"""Writes the generated part of deploy/: `.venv/bin/python tools/manifests.py`; `--check` only compares."""  # noqa: INP001

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from umbel import __version__
from umbel.targets.ocm import rbac
from umbel.targets.ocm.crd import federation_crd
from umbel.targets.ocm.install import OperatorSettings, operator_objects

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "charts" / "umbel"
COMMAND = ".venv/bin/python tools/manifests.py"
MARK = f"# Written by {COMMAND}; do not change it here.\n"
KUBERNETES = ">=1.30.0-0"  # the first with everything that the definition's rules use


def files() -> dict[Path, str]:
    """Give every generated file with its text."""
    definition = _text(federation_crd())
    return {
        DEPLOY / "crds" / "federations.umbel.dev.yaml": definition,
        DEPLOY / "operator.yaml": _text(federation_crd(), *operator_objects(OperatorSettings())),
        CHART / "Chart.yaml": _text(_chart()),
        CHART / "files" / "crd.yaml": definition,
        CHART / "files" / "rbac.yaml": _text(_rules()),
    }


def _text(*objects: Any) -> str:
    texts = (yaml.safe_dump(obj, sort_keys=False, width=2**20) for obj in objects)
    return MARK + "---\n".join(texts)


def _chart() -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": "umbel",
        "description": "The operator that runs Flower federations on Open Cluster Management.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": KUBERNETES,
        "home": "https://umbel.dev",
        "keywords": ["flower", "federated-learning", "open-cluster-management"],
    }


def _rules() -> dict[str, Any]:
    return {
        "federations": rbac.in_federations(),
        "federationsBinding": rbac.in_federations(bind=True),
        "hub": rbac.on_the_hub(),
        "bind": rbac.binding(),
        "home": rbac.at_home(),
        "admin": rbac.of_admins(),
        "viewer": rbac.of_viewers(),
    }


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with --check say which differ."""
    wanted = files()
    differing = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    for path in differing:
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return 1 if differing and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
