from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from umbel.identity.authority import Authority


@pytest.fixture
def now() -> datetime:
    return datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path: Path, now: datetime) -> Authority:
    return Authority.create(tmp_path / "ca", "hospitals", now=now, days=3650, secret=None)
