"""What lies in deploy/ is what the code makes, under the version of the code."""

from __future__ import annotations

import json
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from umbel import __version__
from umbel.targets.ocm.crd import federation_crd

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "charts" / "umbel"


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "manifests.py"))


def test_the_generated_files_are_what_the_code_makes(tool: dict[str, Any]) -> None:
    differing = [
        str(path.relative_to(ROOT))
        for path, text in tool["files"]().items()
        if not path.is_file() or path.read_text() != text
    ]
    assert not differing, f"{differing} differ; write them again with: {tool['COMMAND']}"


def test_the_definition_to_install_by_hand_is_the_codes() -> None:
    text = (ROOT / "deploy" / "crds" / "federations.umbel.dev.yaml").read_text()
    assert yaml.safe_load(text) == federation_crd()


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert project == __version__ == chart["version"] == chart["appVersion"]


def test_every_value_of_the_chart_has_its_form() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    form = json.loads((CHART / "values.schema.json").read_text())
    assert set(values) == set(form["properties"]) - {"global"}
    for key, below in values.items():
        if isinstance(below, dict) and "properties" in form["properties"][key]:
            assert set(below) <= set(form["properties"][key]["properties"])


def test_every_value_of_the_chart_is_explained() -> None:
    told = (CHART / "README.md").read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [key for key in values if f"`{key}" not in told] == []
