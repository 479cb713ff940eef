from __future__ import annotations

from umbel.diagnosis import canary


def test_a_canary_lives() -> None:
    findings = list(canary.judge(canary.fly()))
    assert [finding.name for finding in findings] == ["Canary"], findings
