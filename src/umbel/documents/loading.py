"""From text to a federation, or to every mistake in the text at once."""

from __future__ import annotations

from pathlib import Path

from umbel.documents import reading
from umbel.documents.composing import composed
from umbel.documents.meaning import senseless
from umbel.documents.problems import invalid
from umbel.documents.shape import shaped
from umbel.model.federation import Federation


def load(text: bytes | str, *, source: str = "federation.yaml") -> Federation:
    """Read a federation document; every mistake in it is told at once."""
    document = reading.decoded(text, source)
    root, problems = composed(document)
    shape = shaped(root, document)
    if not shape.foreign:
        problems += senseless(root, document)
    problems += shape.problems
    if shape.federation is None or problems:
        raise invalid(problems, left_out=shape.left_out)
    return shape.federation


def load_file(path: Path) -> Federation:
    """Read a federation document from a file."""
    return load(reading.read(path), source=str(path))
