"""Images as one file that containerd imports: the OCI layout in a tar, no registry, no engine."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
INDEX = "application/vnd.oci.image.index.v1+json"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class Image:
    """A name, layers from the lowest up, and how a container of it starts."""

    name: str
    layers: tuple[Path, ...]
    command: tuple[str, ...] = ()
    user: str = "65535:65535"
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Blob:
    """Content known by its digest: a file, or bytes."""

    media: str
    digest: str
    size: int
    content: bytes | Path

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media, "digest": self.digest, "size": self.size}


def of_bytes(media: str, value: Any) -> Blob:
    content = json.dumps(value, sort_keys=True).encode()
    return Blob(media, f"sha256:{hashlib.sha256(content).hexdigest()}", len(content), content)


def of_file(media: str, path: Path) -> Blob:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Blob(media, f"sha256:{digest}", path.stat().st_size, path)


def image_blobs(image: Image, layers: Sequence[Blob]) -> tuple[Blob, Blob]:
    """Give the image's configuration and manifest."""
    machine = platform.machine()
    environment = [f"{key}={value}" for key, value in image.environment.items()]
    config = of_bytes(
        CONFIG,
        {
            "created": EPOCH,
            "architecture": ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {
                "User": image.user,
                "Entrypoint": list(image.command),
                "Env": environment,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
        },
    )
    manifest = of_bytes(
        MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor,
            "layers": [layer.descriptor for layer in layers],
        },
    )
    return config, manifest


def write(images: Iterable[Image], target: Path, without: Collection[Path] = ()) -> Path:
    """Write all images into one file; a layer that several have is there once.

    Layers that are there already, where the file will be imported, can be left out.
    """
    blobs: dict[str, Blob] = {}
    files: dict[Path, Blob] = {}
    listed = []
    for image in images:
        for path in image.layers:
            files.setdefault(path, of_file(LAYER, path))
        layers = [files[path] for path in image.layers]
        config, manifest = image_blobs(image, layers)
        carried = [files[path] for path in image.layers if path not in without]
        blobs |= {blob.digest: blob for blob in (*carried, config, manifest)}
        names = {
            "io.containerd.image.name": image.name,
            "org.opencontainers.image.ref.name": image.name,
        }
        listed.append({**manifest.descriptor, "annotations": names})
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        add(tar, "index.json", json.dumps(index).encode())
        for blob in blobs.values():
            add(tar, f"blobs/sha256/{blob.digest.removeprefix('sha256:')}", blob.content)
    return target


def add(tar: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    entry = tarfile.TarInfo(name)
    if isinstance(content, bytes):
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
        return
    entry.size = content.stat().st_size
    with content.open("rb") as file:
        tar.addfile(entry, file)


def layer_of(root: Path, target: Path) -> Path:
    """Write a folder as a layer: the same files give the same bytes, whenever it is done."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime = 0
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            tar.add(path, arcname=name, recursive=False, filter=plain)
    return target
