"""umbel render"""  # noqa: D400

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from umbel.cli import context
from umbel.cli.output import readable_errors, say
from umbel.errors import RequestError

if TYPE_CHECKING:
    from umbel.targets.ocm.pods import Object

EXAMPLES = """Examples:

  umbel render -f federation.yaml -o deploy/
  umbel render -f federation.yaml | kubectl apply --server-side -f -
  umbel render -f federation.yaml --no-operator
"""
STDOUT = Path("-")
KUSTOMIZATION = "kustomization"


class FileNotOurs(RequestError):
    """A file is in the way that umbel render did not write."""

    code = "U362"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} was not written by umbel render: it is left alone",
            hint="choose another folder with -o, or move the file away",
        )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(render)


def render(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The document.", show_default=False)
    ] = None,
    operator: Annotated[
        bool,
        typer.Option(help="Also the operator and the definition of federations, once for a hub."),
    ] = True,
    image: Annotated[
        str, typer.Option(help="The operator's image; left out: umbel, of this version.")
    ] = "",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A folder, or - for the terminal.")
    ] = STDOUT,
) -> None:
    """Write a federation on ocm as plain manifests, for Argo CD, Flux or kubectl."""
    with readable_errors():
        from umbel.targets.ocm.install import IMAGE, OperatorSettings
        from umbel.targets.ocm.rendering import as_yaml, rendered

        federation = context.read_document(file)
        settings = OperatorSettings(image=image or IMAGE)
        files = rendered(federation, settings, operator=operator)
        if output == STDOUT:
            sys.stdout.write(as_yaml(obj for objects in files.values() for obj in objects))
        else:
            _write(output, files)


def _write(folder: Path, files: dict[str, list[Object]]) -> None:
    """Write one file for each part, and what kustomize needs; all of them or none."""
    from umbel.files import CannotWrite
    from umbel.targets.ocm.rendering import as_yaml, kustomization

    texts = {folder / f"{name}.yaml": as_yaml(objects) for name, objects in files.items()}
    listed = _listed(folder, files)
    texts[folder / f"{KUSTOMIZATION}.yaml"] = as_yaml([kustomization(listed)])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in texts:
            if path.exists() and not _ours(path):
                raise FileNotOurs(path)
        for path, text in texts.items():
            path.write_text(text)
            say(f"wrote {path}")
    except OSError as error:
        raise CannotWrite(folder, error) from error


def _ours(path: Path) -> bool:
    from umbel.targets.ocm.rendering import MARK

    return path.read_bytes().startswith(MARK.encode())


def _listed(folder: Path, files: Iterable[str]) -> list[str]:
    """Name the new files and those of an earlier call, which may be of another federation."""
    earlier = {path.stem for path in folder.glob("*.yaml") if path.is_file() and _ours(path)}
    names = (earlier - {KUSTOMIZATION}) | set(files)
    return sorted(names, key=lambda name: (name.startswith("federation-"), name))
