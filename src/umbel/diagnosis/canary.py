"""Flies a canary: a federation of its own for a few seconds, with a run whose result is known."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from umbel.diagnosis.finding import Finding, Severity, ok
from umbel.flower.fast import guard
from umbel.flower.fast.guard import Way

ROUNDS, DEATHS = 5, 1
LONGEST_S = 300.0
DOCUMENT = """\
apiVersion: umbel.dev/v1alpha1
kind: Federation
metadata: {name: canary}
spec: {groups: [{name: canary, sites: 1}]}
"""
# Only when a round lasts longer than an answer is held; only where apps' executors are pods; only when
# a task takes longer than ten seconds.
SELDOM = {Way.NAPS_GRID, Way.ASSIGN, Way.ENDED}
_TOLD = re.compile(r"canary: (\{.*\})")


@dataclass(frozen=True, slots=True)
class Flight:
    """What the canary saw."""

    told: dict[str, Any] | None  # what its app found; None when the run did not end
    failures: int
    taken: frozenset[Way]
    said: str = ""  # the last words of what failed
    flew: bool = True  # the federation came up


def fly() -> Flight:
    """Bring a federation up in a folder of its own, run the canary app, take it down."""
    with tempfile.TemporaryDirectory(prefix="umbel-canary-") as text:
        folder = Path(text)
        home, ways = folder / "home", folder / "ways"
        ways.mkdir()
        (folder / "federation.yaml").write_text(DOCUMENT)
        environment = {**os.environ, "UMBEL_HOME": str(home), guard.CANARY: str(ways)}
        with as_file(files("umbel.apps") / "templates" / "canary") as app:
            flew = False
            try:
                _umbel(environment, "up", "-f", str(folder / "federation.yaml"))
                flew = True
                run = json.loads(_umbel(environment, "run", str(app), "-o", "json"))
                return _seen(home, str(run["run_id"]), ways)
            except subprocess.CalledProcessError as error:
                lines = str(error.stderr).strip().splitlines() or ["it said nothing"]
                return Flight(None, 0, _taken(ways), lines[-1], flew)
            except subprocess.TimeoutExpired:
                return Flight(None, 0, _taken(ways), f"it took longer than {LONGEST_S:g} s", flew)
            finally:
                subprocess.run(
                    [sys.executable, "-m", "umbel", "down"],
                    env=environment,
                    capture_output=True,
                    check=False,
                )


def _umbel(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "umbel", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST_S,
    )
    return done.stdout


def _seen(home: Path, run_id: str, ways: Path) -> Flight:
    folder = home / "federations" / "canary" / "hub" / "runs" / run_id
    told = _TOLD.search((folder / "log.txt").read_text())
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    failures = sum(int(e.get("failures", 0)) for e in events if e["kind"] == "round-ended")
    return Flight(json.loads(told[1]) if told else None, failures, _taken(ways))


def _taken(ways: Path) -> frozenset[Way]:
    return frozenset(Way[file.name] for file in ways.iterdir())


def judge(flight: Flight) -> Iterator[Finding]:
    """Say whether all is as it must be."""
    wrong = tuple(_wrong(flight))
    if not flight.flew:
        yield Finding(
            "CanaryStayed",
            Severity.PROBLEM,
            f"no federation came up for a run with a known result: {flight.said}",
            "umbel up on a new UMBEL_HOME shows the same; see its own hint",
        )
        return
    if wrong:
        yield Finding(
            "CanaryDied",
            Severity.PROBLEM,
            f"a run with a known result went wrong: {'; '.join(wrong)}",
            "the fast ways are off until a canary lives; tell the maintainers what you see here",
        )
        return
    expected = {way for way in Way if guard.unmoved(way)} - SELDOM
    missed = sorted(expected - flight.taken)
    if missed:
        yield Finding(
            "WaysNotTaken",
            Severity.WARNING,
            f"Flower did not come by here: {', '.join(missed)}",
            "rounds are right but slower than they could be; tell the maintainers",
        )
    rounds = f"{ROUNDS} rounds, a task that died was one failure of its round"
    yield ok("Canary", f"{rounds}; the result is exact; {len(flight.taken)} fast ways were taken")


def _wrong(flight: Flight) -> Iterator[str]:
    if flight.told is None:
        yield f"it did not end ({flight.said or 'no result in its log'})"
        return
    steps = ROUNDS - DEATHS
    for name in ("least", "most"):
        if not math.isclose(flight.told[name], steps, rel_tol=1e-12):
            yield f"a weight moved by {flight.told[name]:g}, not by {steps}"
    if flight.told["counts"] != list(range(1, steps + 1)):
        yield f"the site counted {flight.told['counts']}, not 1 to {steps}"
    if flight.failures != DEATHS:
        yield f"{flight.failures} failures were counted, not {DEATHS}"
