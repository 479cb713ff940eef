"""An environment from signed wheels: built at the site from these alone, or not at all."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from testbed.api import Api, Object
from testbed.bed import Bed
from testbed.pods import images
from testbed.pods.node import load_images
from testbed.programs import cache
from testbed.waiting import eventually
from tests.clusters.ocm.conftest import Declare, Meet
from tests.clusters.ocm.stories import Federation, Person, labelled, online, spec
from tests.clusters.ocm.test_ocm_6_environments import make_app, seen_by
from tests.integration.exec.wheels import make_wheel

from umbel.flower import versions

pytestmark = pytest.mark.timeout(600)
BUNDLE = "localhost/umbel-bundle:dev"
HUB_IMAGE = "localhost/umbel-bundled:dev"
STRANGE = base64.b64encode(b"k" * 32).decode()


def downloaded() -> Path:
    """Give a folder with the wheels that every environment needs; fetched once."""
    wanted = [f"flwr=={versions.installed()}", "numpy>=1.26"]
    folder = cache() / f"bundle-{hashlib.sha256(repr(wanted).encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        beside = folder.with_name(f".{folder.name}")
        shutil.rmtree(beside, ignore_errors=True)
        argv = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:"]
        subprocess.run([*argv, "-d", str(beside), *wanted], check=True, timeout=300)
        beside.rename(folder)
    return folder


@pytest.fixture(scope="module")
def key(pods: Bed, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The nodes have a signed bundle, and an image with the package for the hub; give the key."""
    made, place = Ed25519PrivateKey.from_private_bytes(b"s" * 32), cache() / "images"
    folder = tmp_path_factory.mktemp("bundle") / "wheels"
    shutil.copytree(downloaded(), folder)
    text = make_wheel(folder, "tiny_text", "1.0")
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}" for p in folder.iterdir()]
    sums = "\n".join(sorted(lines)).encode()
    (folder / "SHA256SUMS").write_bytes(sums)
    (folder / "SHA256SUMS.sig").write_bytes(made.sign(sums))
    hub_image = images.with_wheels(place, HUB_IMAGE, [text])
    load_images(pods.layout.state, [images.of_files(place, BUNDLE, folder), hub_image])
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    return base64.b64encode(made.public_key().public_bytes(*raw)).decode()


def environment(name: str, gpu: str, key: str) -> Object:
    return {
        "name": name,
        "app": "umbel/text",
        "image": {"name": images.UMBEL, "pullPolicy": "Never"},
        "bundle": {"image": BUNDLE, "pullPolicy": "Never", "keys": [key]},
        "predicates": labelled("gpu", gpu)["predicates"],
    }


@pytest.fixture(scope="module")
def clinics(key: str, declare: Declare) -> Federation:
    """A federation that trusts the bundle's key at one site, and another key at the other."""
    declared = [environment("good", "false", key), environment("bad", "true", STRANGE)]
    image = {"name": HUB_IMAGE, "pullPolicy": "Never"}
    return declare(
        "ocm-bundles", "bundled", spec(runtime={"image": image, "environments": declared})
    )


def container(spoke: Api, federation: Federation, name: str) -> Object:
    """Give how the container of an environment's executor does."""
    labels = f"umbel.dev/environment={name}"
    for pod in spoke.list("v1", "Pod", federation.names.addon, labels):
        for status in pod["status"].get("containerStatuses") or ():
            return dict(status)
    return {}


def test_an_app_runs_in_what_was_built_from_signed_wheels(
    clinics: Federation, spokes: Mapping[str, Api], meet: Meet, tmp_path: Path
) -> None:
    boston = spokes["boston"]
    eventually("the executor", lambda: container(boston, clinics, "good").get("ready"), 120)
    clinics.wait(lambda seen: "boston" in online(seen))  # so the hub answers
    owner: Person = meet(clinics)
    ended = owner.runs(make_app(tmp_path / "text", "text"), min_nodes=1, num_server_rounds=1)
    assert ended.status == "completed"
    (site,) = seen_by(ended.said)
    assert (site["tiny_text"], site["tiny_vision"]) == (1, 0)


def test_wheels_that_somebody_else_signed_are_refused(
    clinics: Federation, spokes: Mapping[str, Api]
) -> None:
    def last_words() -> str:
        ended = container(spokes["berlin"], clinics, "bad").get("lastState", {})
        return str(ended.get("terminated", {}).get("message", ""))

    said = eventually("its refusal", last_words, 120)
    assert "U450" in said
    assert "no key that the document names has signed it" in said
