"""What is built is named by its pins; what cannot build says why."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest
from testbed import build, programs
from testbed.errors import GoMissing, NotBuilt


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(programs.OTHER_OCM, raising=False)
    return programs.cache()


@pytest.fixture
def another_ocm(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001
    """A folder with OCM's programs and definitions that a person made."""
    folder = tmp_path / "another"
    (folder / "crds").mkdir(parents=True)
    for name in programs.OCM.packages:
        (folder / name).write_text("")
    monkeypatch.setenv(programs.OTHER_OCM, str(folder))
    return folder


def a_go(folder: Path, said: str) -> Path:
    path = folder / "go"
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_every_upstream_is_pinned_with_its_hashes() -> None:
    for upstream in programs.UPSTREAMS:
        assert upstream.version() != "v0", upstream.name
        assert (
            f"{upstream.module} {upstream.version()} h1:"
            in (upstream.folder / "go.sum").read_text()
        )


def test_every_program_of_a_module_is_a_tool_of_its_go_mod() -> None:
    for upstream in programs.UPSTREAMS:
        tools = (upstream.folder / "go.mod").read_text()
        for package in upstream.packages.values():
            assert package in tools or (upstream.folder / package).is_dir()


def test_another_pin_gives_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(programs.MODULES, tmp_path / "modules")
    before = programs.HELM.key()
    monkeypatch.setattr(programs, "MODULES", tmp_path / "modules")
    assert programs.HELM.key() == before
    (programs.HELM.folder / "go.sum").write_text("")
    assert programs.HELM.key() != before


@pytest.mark.parametrize(
    ("said", "enough"),
    [
        ("go version go1.26.8 linux/amd64", True),
        ("go version go1.30 linux/amd64", True),
        ("go version go1.25.9 linux/amd64", False),
        ("", False),
    ],
)
def test_go_must_be_new_enough(said: str, enough: bool) -> None:
    assert build.new_enough(said) is enough


@pytest.mark.usefixtures("cache")
def test_a_go_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_USUAL_PLACES", ())
    old = a_go(tmp_path, "go version go1.19 linux/amd64")
    monkeypatch.setenv("TESTBED_GO", str(old))
    with pytest.raises(GoMissing) as caught:
        build.find_go()
    assert str(old) in caught.value.fact
    assert "1.19" in caught.value.fact
    assert "1.26" in caught.value.fact


@pytest.mark.usefixtures("cache")
def test_a_machine_without_go_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_USUAL_PLACES", ())
    monkeypatch.delenv("TESTBED_GO", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GoMissing, match="no `go` was found"):
        build.find_go()


def test_nothing_is_built_twice(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _, path in programs.every_program():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (programs.folder_of(programs.OCM) / "crds").mkdir()
    monkeypatch.setenv("PATH", "")  # nothing may be called
    assert build.build(lambda *_: None) == {}
    assert cache.is_dir()


@pytest.mark.usefixtures("cache")
def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotBuilt, match="kube-apiserver"):
        programs.program("kube-apiserver")


def test_another_ocm_takes_the_place_of_the_pinned_one(another_ocm: Path) -> None:
    found = dict(programs.every_program())
    assert {found[name] for name in programs.OCM.packages} == {
        another_ocm / name for name in programs.OCM.packages
    }
    assert programs.program("ocm-webhooks") == another_ocm / "ocm-webhooks"
    assert programs.definitions() == another_ocm / "crds"
    assert found["kube-apiserver"] == programs.KUBERNETES.path("kube-apiserver")


def test_nothing_is_built_into_another_ocm(
    another_ocm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, path in programs.every_program():
        if name not in programs.OCM.packages:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    (another_ocm / "ocm-work").unlink()
    monkeypatch.setenv("PATH", "")  # nothing may be called
    assert build.build(lambda *_: None) == {}
    assert not (another_ocm / "ocm-work").exists()


@pytest.mark.parametrize("what", ["ocm-work", "crds"])
def test_what_another_ocm_lacks_is_named_with_its_folder(another_ocm: Path, what: str) -> None:
    (another_ocm / what).rename(another_ocm / "elsewhere")
    with pytest.raises(programs.NotGiven, match=f"{another_ocm} has no {what}"):
        (programs.definitions() if what == "crds" else programs.program(what))
