"""The placement recipes are placements, and what they become is what OCM is given."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from umbel.documents import load
from umbel.model.federation import Group
from umbel.targets.ocm import choosing
from umbel.targets.ocm.names import Names

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "ocm" / "placement-recipes.md"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BARE_ON = re.compile(r"\bon:")


def recipes() -> list[Any]:
    quoted = _BARE_ON.sub('"on":', PAGE.read_text())  # a bare one is `true` to a plain reader
    blocks = [yaml.safe_load(text) for text in _BLOCK.findall(quoted)]
    return [block for block in blocks if "kind" not in block]


def groups(recipe: Any) -> tuple[Group, ...]:
    found = recipe.get("groups") or [{"name": "imaging", "on": "ocm", **recipe}]
    spec = {"superlink": {"on": "ocm"}, "groups": found}
    return load(json.dumps({"metadata": {"name": "clinics"}, "spec": spec})).spec.groups


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: json.dumps(recipe)[:60])
def test_a_recipe_is_a_good_placement(recipe: Any) -> None:
    for group in groups(recipe):
        made = choosing.placement(Names("hospitals", "clinics"), group)
        assert made["kind"] == "Placement"
        assert "spreadPolicy" not in made["spec"], "OCM does nothing with it"


def test_there_are_recipes() -> None:
    assert len(recipes()) > 8
