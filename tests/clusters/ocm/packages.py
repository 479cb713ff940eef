"""Apps that need packages, and what has them: images for their environments, and a signed bundle."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from testbed.api import Object
from testbed.pods import images
from testbed.programs import cache
from tests.clusters.ocm.stories import KNOWN, labelled, spec
from tests.integration.exec.wheels import make_wheel

from umbel.flower import versions

PACKAGES = {"vision": "tiny_vision", "text": "tiny_text"}
BOTH = "localhost/umbel-both:dev"
BUNDLE = "localhost/umbel-bundle:dev"
WITH_TEXT = "localhost/umbel-bundled:dev"
ELSEWHERE = "elsewhere.example.org"  # only boston has a mirror of it
STRANGE = base64.b64encode(b"k" * 32).decode()
LOOK = """
    from importlib.util import find_spec
    seen = {name: int(find_spec(name) is not None) for name in ("tiny_vision", "tiny_text")}
"""


def image_of(name: str) -> str:
    return f"localhost/umbel-{name}:dev"


def environment_images(folder: Path) -> list[Path]:
    """Make an image for each app, with its package, and one with both for the hub."""
    place = cache() / "images"
    wheels = {name: make_wheel(folder, PACKAGES[name], "1.0") for name in PACKAGES}
    made = [images.with_wheels(place, image_of(name), [wheels[name]]) for name in PACKAGES]
    return [*made, images.with_wheels(place, BOTH, list(wheels.values()))]


def bundle_images(folder: Path, key: Ed25519PrivateKey) -> list[Path]:
    """Make a bundle of wheels that the key has signed, and an image with the package for the hub."""
    place = cache() / "images"
    shutil.copytree(downloaded(), folder)
    text = make_wheel(folder, PACKAGES["text"], "1.0")
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}" for p in folder.iterdir()]
    sums = "\n".join(sorted(lines)).encode()
    (folder / "SHA256SUMS").write_bytes(sums)
    (folder / "SHA256SUMS.sig").write_bytes(key.sign(sums))
    return [images.of_files(place, BUNDLE, folder), images.with_wheels(place, WITH_TEXT, [text])]


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


def public(key: Ed25519PrivateKey) -> str:
    """Give the public half as a document names it."""
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    return base64.b64encode(key.public_key().public_bytes(*raw)).decode()


def environment(name: str, **more: Any) -> Object:
    image = {"name": image_of(name), "pullPolicy": "Never"}
    return {"name": name, "app": f"umbel/{name}", "image": image, **more}


def bundled_environment(name: str, gpu: str, key: str) -> Object:
    """Give an environment that is built at the site, from what this key has signed."""
    return {
        "name": name,
        "app": "umbel/text",
        "image": {"name": images.UMBEL, "pullPolicy": "Never"},
        "bundle": {"image": BUNDLE, "pullPolicy": "Never", "keys": [key]},
        "predicates": labelled("gpu", gpu)["predicates"],
    }


def runtime(*environments: Object, image: str = BOTH) -> Object:
    return {"image": {"name": image, "pullPolicy": "Never"}, "environments": list(environments)}


def one_by_one(*environments: Object) -> Object:
    """Give the spec of a federation over both clusters, which change one after the other."""
    own = {"boston": {"mirrors": [{"source": ELSEWHERE, "mirror": "localhost"}]}}
    changes = {"rollout": {"maxConcurrent": 1}, "drainSeconds": 20, "clusters": own}
    group = {"name": "all", "on": "ocm", "kubernetes": changes}
    return spec(group, runtime=runtime(*environments))


def make_app(folder: Path, name: str) -> Path:
    shutil.copytree(KNOWN, folder)
    project = folder / "pyproject.toml"
    text = project.read_text().replace('name = "known"', f'name = "{name}"')
    project.write_text(text.replace('"numpy>=1.26"]', f'"numpy>=1.26", "{PACKAGES[name]}==1.0"]'))
    client, server = folder / "known/client_app.py", folder / "known/server_app.py"
    begin = '    partition = int(context.node_config["partition-id"])\n'
    text = client.read_text().replace(begin, LOOK.lstrip("\n") + begin)
    client.write_text(text.replace('"files": files}', '"files": files, **seen}'))
    told = '    sites = sorted(int(metric["partition"]) for metric in metrics)\n'
    seen = '    print(f"seen: {json.dumps([dict(metric) for metric in metrics])}", flush=True)\n'
    server.write_text(server.read_text().replace(told, told + seen))
    return folder


def seen_by(said: str) -> list[Object]:
    """Give what the sites told of the packages they see."""
    lines = [line.partition("seen: ")[2] for line in said.splitlines() if "seen: " in line]
    return [site for line in lines for site in json.loads(line)]
