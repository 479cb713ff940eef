from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umbel.exec.needs import (
    FabUnreadable,
    environment_key,
    imported,
    name_of,
    normalise,
    read_needs,
)

KEY = ("CPython 3.11.7", "1.41.0", "")


def fab(**files: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as bundle:
        for name, text in files.items():
            bundle.writestr(name.replace("__", "/").replace("_py", ".py"), text)
        if "toml" in files:
            bundle.writestr("pyproject.toml", files["toml"])
    return made.getvalue()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("numpy", "numpy"),
        ("  NumPy ", "numpy"),
        ("scikit_learn >= 1.5", "scikit-learn>=1.5"),
        ("Scikit.Learn(>=1.5,<2)", "scikit-learn<2,>=1.5"),
        ("flwr[Simulation, rest]>=1.40", "flwr[rest,simulation]>=1.40"),
        ("torch ; python_version > '3.8'", "torch ; python_version > '3.8'"),
        ("tiny @ file:///a b/tiny.whl", "tiny@ file:///a b/tiny.whl"),
        ("!odd", "!odd"),
    ],
)
def test_two_spellings_of_a_dependency_are_one(written: str, meant: str) -> None:
    assert normalise(written) == meant
    assert normalise(meant) == meant


def test_a_dependency_is_known_by_the_name_of_its_distribution() -> None:
    assert name_of("Scikit_Learn[extra]>=1.5") == "scikit-learn"
    assert name_of("!odd") == ""


def test_a_bundle_says_what_it_needs_and_imports() -> None:
    toml = '[project]\nname = "a"\ndependencies = ["numpy", "flwr>=1.40", "NumPy"]\n'
    code = (
        "import numpy as np\nimport a.model\nfrom sklearn.linear_model import SGD\nfrom . import data\n"
        "def late():\n    import torch.nn\n"
    )
    needs = read_needs(fab(toml=toml, a__client_py=code, a__broken_py="def (:"))
    assert needs.dependencies == ("flwr>=1.40", "numpy")
    assert needs.imports == ("numpy", "sklearn.linear_model", "torch.nn")
    assert needs.own == ("a",)


def test_an_app_without_dependencies_needs_none() -> None:
    assert read_needs(fab(toml='[project]\nname = "a"\n')).dependencies == ()


@pytest.mark.parametrize(
    "bundle", [b"", b"no zip", fab(a_py=""), fab(toml="[project"), fab(toml="x = 1")]
)
def test_a_bundle_that_cannot_be_read_is_refused(bundle: bytes) -> None:
    with pytest.raises(FabUnreadable, match="pyproject"):
        read_needs(bundle)


@given(st.permutations(["numpy>=1.26", "flwr>=1.40", "torch"]))
def test_the_order_of_dependencies_does_not_matter(shuffled: list[str]) -> None:
    assert environment_key(shuffled, *KEY) == environment_key(sorted(shuffled), *KEY)


def test_whatever_could_change_what_is_installed_changes_the_key() -> None:
    keys = {
        environment_key(["numpy"], *KEY),
        environment_key(["numpy>=2"], *KEY),
        environment_key(["numpy"], "CPython 3.12.0", "1.41.0", ""),
        environment_key(["numpy"], "CPython 3.11.7", "1.40.0", ""),
        environment_key(["numpy"], "CPython 3.11.7", "1.41.0", "wheels"),
    }
    assert len(keys) == 5
    assert all(key.isalnum() for key in keys)


def test_relative_imports_are_the_apps_own() -> None:
    assert imported([b"from . import a\nfrom .b import c\nfrom .. import d\n"]) == set()


@pytest.mark.parametrize(
    "dependency",
    ["--index-url=https://elsewhere", "-e .", "./wheel.whl", "numpy\\n-r other.txt", ""],
)
def test_an_app_gives_the_builder_no_options(dependency: str) -> None:
    toml = f'[project]\nname = "a"\ndependencies = ["{dependency}"]\n'
    with pytest.raises(FabUnreadable, match="is not a dependency"):
        read_needs(fab(toml=toml))
