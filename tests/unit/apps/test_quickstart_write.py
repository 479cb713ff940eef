from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from umbel.apps import quickstart
from umbel.apps.quickstart import FolderOccupied, NotAFolder
from umbel.files import CannotWrite

PATH_MAX = 4096


def everything_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_empty_folder_receives_the_whole_app(tmp_path: Path) -> None:
    written = quickstart.write(tmp_path)
    assert everything_in(tmp_path) == quickstart.read_template_files()
    assert {path.relative_to(tmp_path).as_posix() for path in written} >= {
        "README.md",
        "pyproject.toml",
        "quickstart/__init__.py",
        "quickstart/client_app.py",
        "quickstart/server_app.py",
    }


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    quickstart.write(tmp_path / "deep" / "down")
    assert everything_in(tmp_path / "deep" / "down") == quickstart.read_template_files()


def test_others_may_read_the_app(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        quickstart.write(tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "pyproject.toml").stat().st_mode & 0o777 == 0o644


def test_writing_twice_is_writing_once(tmp_path: Path) -> None:
    quickstart.write(tmp_path)
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}
    assert quickstart.write(tmp_path) == ()
    assert {path: path.stat().st_ino for path in tmp_path.rglob("*")} == before


def test_a_file_that_went_missing_is_written_again(tmp_path: Path) -> None:
    quickstart.write(tmp_path)
    gone = tmp_path / "quickstart" / "model.py"
    gone.unlink()
    assert quickstart.write(tmp_path) == (gone,)


def test_other_files_of_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "federation.yaml").write_text("mine")
    quickstart.write(tmp_path)
    assert (tmp_path / "federation.yaml").read_text() == "mine"


def _other_text(folder: Path) -> None:
    (folder / "README.md").write_text("my own words")


def _folder_for_file(folder: Path) -> None:
    (folder / "README.md").mkdir()


def _dangling_link(folder: Path) -> None:
    (folder / "README.md").symlink_to("nowhere")


def _file_for_package(folder: Path) -> None:
    (folder / "quickstart").write_text("not a package")


@pytest.mark.parametrize(
    ("occupy", "named"),
    [
        (_other_text, "README.md"),
        (_folder_for_file, "README.md"),
        (_dangling_link, "README.md"),
        (_file_for_package, "quickstart/client_app.py"),
    ],
)
def test_what_is_there_is_never_overwritten(
    tmp_path: Path, occupy: Callable[[Path], None], named: str
) -> None:
    occupy(tmp_path)
    before = sorted(tmp_path.rglob("*")), everything_in(tmp_path)
    with pytest.raises(FolderOccupied) as refused:
        quickstart.write(tmp_path)
    assert named in refused.value.fact
    assert refused.value.hint
    assert (sorted(tmp_path.rglob("*")), everything_in(tmp_path)) == before


@pytest.mark.parametrize("inside", ["", "new"])
def test_a_file_is_not_taken_for_a_folder(tmp_path: Path, inside: str) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(NotAFolder, match="file is not a folder"):
        quickstart.write(file / inside)
    assert file.read_text() == "mine"


def almost_too_deep(below: Path) -> Path:
    """Give a folder whose path leaves room for README.md, but not for the package's modules."""
    room = PATH_MAX - len("/quickstart/.client_app.py.01234567")
    folder = below
    while (left := room - len(str(folder)) - 1) > 0:
        # The last part must not be empty, and no part may be longer than 255.
        folder /= "d" * (left if left <= 200 else min(200, left - 2))
    return folder


def test_a_failure_half_way_leaves_nothing(tmp_path: Path) -> None:
    folder = almost_too_deep(tmp_path)
    with pytest.raises(CannotWrite):
        quickstart.write(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_what_was_there_before(tmp_path: Path) -> None:
    folder = almost_too_deep(tmp_path)
    folder.mkdir(parents=True)
    (folder / "README.md").write_bytes(quickstart.read_template_files()["README.md"])
    with pytest.raises(CannotWrite):
        quickstart.write(folder)
    assert [path.name for path in folder.iterdir()] == ["README.md"]


def test_compiled_modules_are_no_part_of_the_app(tmp_path: Path) -> None:
    (tmp_path / "package" / "__pycache__").mkdir(parents=True)
    (tmp_path / "package" / "__pycache__" / "module.pyc").write_bytes(b"")
    (tmp_path / "package" / "module.py").write_bytes(b"")
    assert dict(quickstart._walk(tmp_path, "")) == {"package/module.py": b""}


def test_the_fingerprint_is_short_and_stays() -> None:
    assert quickstart.fingerprint() == quickstart.fingerprint()
    assert len(bytes.fromhex(quickstart.fingerprint())) == 6
