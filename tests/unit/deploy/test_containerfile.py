"""The image that people build: the test bed's Python, the lock's wheels, nobody's rights."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from testbed.pods import images

ROOT = Path(__file__).parents[3]
FILE = ROOT / "deploy/images/Containerfile"
TEXT = FILE.read_text()
STEPS = [line.split() for line in TEXT.splitlines() if re.match(r"[A-Z]+ ", line)]


def test_its_python_is_the_one_that_the_test_bed_proves() -> None:
    assert ["ARG", f"PYTHON=python:{images.MINOR}-slim"] in STEPS


def test_what_it_copies_is_there_and_let_through() -> None:
    let_through = FILE.with_name(f"{FILE.name}.dockerignore").read_text().splitlines()
    copied = [step[1:-1] for step in STEPS if step[0] == "COPY" and step[1][0] != "-"]
    sources = {name for names in copied for name in names}
    assert sources == {line[1:] for line in let_through if line.startswith("!")}
    assert all((ROOT / name).exists() for name in sources)


def test_it_runs_as_a_number_that_is_not_root() -> None:
    users = [step[1] for step in STEPS if step[0] == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])


def test_its_tag_is_the_projects_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert set(re.findall(r"umbel:(\d\S*)", TEXT)) == {version}
