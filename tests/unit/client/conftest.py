from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from umbel.identity import alone


@pytest.fixture
def authority(tmp_path: Path) -> bytes:
    """Give a CA certificate."""
    made = alone.ensure(tmp_path / "authority", "hub", ["127.0.0.1"], now=datetime.now(UTC))
    return made.ca.read_bytes()
