"""Public fakes behind the ports, and builders of the nouns: for tests of Umbel and of add-ons."""

from umbel.testing.builders import blank, federation, node, present, run, unit, world
from umbel.testing.flower import FakeFlower
from umbel.testing.target import FakeTarget

__all__ = [
    "FakeFlower",
    "FakeTarget",
    "blank",
    "federation",
    "node",
    "present",
    "run",
    "unit",
    "world",
]
