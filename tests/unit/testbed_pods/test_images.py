from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from testbed.pods import archive, debian, images
from testbed.pods.archive import Image


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin/tool").write_text("#!/bin/sh\n")
    (root / "bin/alias").symlink_to("tool")
    return archive.layer_of(root, tmp_path / "layer.tar")


def read(tar: tarfile.TarFile, name: str) -> Any:
    file = tar.extractfile(name)
    assert file is not None
    return json.load(file)


def blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def test_the_same_files_give_the_same_layer_whenever_it_is_made(tmp_path: Path) -> None:
    digests = set()
    for turn in (1, 2):
        root = tmp_path / f"root{turn}"
        root.mkdir()
        (root / "file").write_text("same")
        os.utime(root / "file", (turn, turn))
        made = archive.layer_of(root, tmp_path / f"{turn}.tar")
        digests.add(hashlib.sha256(made.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_a_layer_keeps_links_and_belongs_to_root(layer: Path) -> None:
    with tarfile.open(layer) as tar:
        assert tar.getmember("bin/alias").linkname == "tool"
        assert {(entry.uid, entry.gid) for entry in tar} == {(0, 0)}


def test_every_blob_is_named_by_its_digest(layer: Path, tmp_path: Path) -> None:
    made = archive.write([Image("localhost/a:1", (layer,))], tmp_path / "images.tar")
    with tarfile.open(made) as tar:
        for entry in tar:
            if entry.name.startswith("blobs/"):
                file = tar.extractfile(entry)
                assert file is not None
                assert hashlib.sha256(file.read()).hexdigest() == entry.name.split("/")[-1]


def test_an_image_is_found_by_its_name_and_leads_to_its_layers(layer: Path, tmp_path: Path) -> None:
    image = Image("localhost/a:1", (layer,), ("/bin/tool",), environment={"A": "b"})
    made = archive.write([image], tmp_path / "images.tar")
    with tarfile.open(made) as tar:
        (listed,) = read(tar, "index.json")["manifests"]
        assert listed["annotations"]["io.containerd.image.name"] == "localhost/a:1"
        manifest = read(tar, blob(listed["digest"]))
        config = read(tar, blob(manifest["config"]["digest"]))
        assert config["config"]["Entrypoint"] == ["/bin/tool"]
        assert config["config"]["Env"] == ["A=b"]
        assert config["rootfs"]["diff_ids"] == [one["digest"] for one in manifest["layers"]]


def test_a_layer_that_two_images_share_is_stored_once(layer: Path, tmp_path: Path) -> None:
    both = [Image("localhost/a:1", (layer,)), Image("localhost/b:1", (layer,), ("/bin/tool",))]
    made = archive.write(both, tmp_path / "images.tar")
    with tarfile.open(made) as tar:
        names = [entry.name for entry in tar if entry.name.startswith("blobs/")]
    assert len(names) == 5
    assert len(set(names)) == len(names)


def test_images_run_as_nobody_unless_told_otherwise(layer: Path) -> None:
    assert Image("localhost/a:1", (layer,)).user == "65535:65535"


def test_a_file_that_failed_halfway_is_not_there(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        path.write_text("half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        images.made(tmp_path / "layer.tar", fails)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    target = tmp_path / "layer.tar"
    images.made(target, lambda path: path.write_text("first"))
    images.made(target, lambda path: path.write_text("second"))
    assert target.read_text() == "first"


def test_a_new_layer_takes_the_place_of_older_ones_of_its_kind(tmp_path: Path) -> None:
    for age, name in enumerate(("project-1.tar", "wheels-1.tar", "project-2.tar", "project-3.tar")):
        made = images.made(tmp_path / name, lambda path: path.write_text("layer"))
        os.utime(made, (age, age))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"project-2.tar", "project-3.tar", "wheels-1.tar"}


def test_a_layer_that_was_loaded_before_is_left_out(layer: Path, tmp_path: Path) -> None:
    made = archive.write([Image("localhost/a:1", (layer,))], tmp_path / "images.tar", [layer])
    whole = archive.write([Image("localhost/a:1", (layer,))], tmp_path / "whole.tar")
    with tarfile.open(made) as tar, tarfile.open(whole) as other:
        assert read(tar, "index.json") == read(other, "index.json")
        left_out = set(other.getnames()) - set(tar.getnames())
    assert left_out == {blob(archive.of_file(archive.LAYER, layer).digest)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"#!/tmp/x/bin/python3\nimport a\n", b"#!/opt/p\nimport a\n"),
        (b"#!/bin/sh\necho\n", b"#!/bin/sh\necho\n"),
        (b"\x7fELF python\n", b"\x7fELF python\n"),
    ],
)
def test_only_python_scripts_get_the_images_python(before: bytes, after: bytes) -> None:
    assert images.with_python(before, "/opt/p") == after


def test_other_packages_or_another_suite_are_another_layer() -> None:
    keys = {
        debian.key_of("one", ["a", "b"]),
        debian.key_of("two", ["a", "b"]),
        debian.key_of("one", ["a"]),
        debian.key_of("one", ["a", "b"], "2"),
    }
    assert len(keys) == 4
    assert debian.key_of("one", ["b", "a"]) == debian.key_of("one", ["a", "b"])


def test_packages_are_verified_by_the_archives_key() -> None:
    assert f"[signed-by={debian.KEYRING}]" in debian.source_line("http://mirror.example", "x")
    assert "AllowUnauthenticated" not in debian.apt_config(Path("/r"))
