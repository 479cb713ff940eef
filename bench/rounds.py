"""Seconds a round: Umbel against stock Flower, the same app, alternately in one run.

    python bench/rounds.py [--nodes 1 3 10] [--rounds 8] [--large] [--also NAME=COMMAND] > rounds.json

Both with TLS, node keys, process isolation and the persistent database. The app sends arrays out and
back (`bench/apps/exchange`), so a round costs what the machinery costs. Medians of all runs; round 1
is left out, it also pays for the first start of everything. CPU seconds are of all processes of the
federation; memory is the highest sum of their proportional sizes, sampled in a run of its own.

--also runs COMMAND (a shell line) for each shape, with NODES, ROUNDS, ARRAYS and ARRAY_BYTES set; it
prints one JSON object {"round_s": seconds}, which becomes the column NAME_s.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import processes
from stock import BIN, stock, stock_environment

APP = Path(__file__).parent / "apps" / "exchange"
STAMP = re.compile(r'\{"round": (\d+), "at": ([0-9.]+)\}')
REPEATS = 2


@dataclass(frozen=True)
class Shape:
    """What is sent."""

    name: str
    nodes: int
    rounds: int
    arrays: int = 2
    array_bytes: int = 512

    def config(self) -> dict[str, int]:
        """Give the run config."""
        return {
            "nodes": self.nodes,
            "num-server-rounds": self.rounds,
            "arrays": self.arrays,
            "array-bytes": self.array_bytes,
        }


@dataclass(frozen=True)
class Ran:
    """One run: when it was submitted, when its rounds ended, what it cost."""

    submitted_s: float
    at: dict[int, float]
    cpu_s: float = 0.0

    def rounds(self) -> list[float]:
        """How long each round took, without the first."""
        return [self.at[n] - self.at[n - 1] for n in sorted(self.at) if n > 1]

    def cpu_per_round_s(self) -> float:
        """The whole run's CPU seconds by its rounds."""
        return self.cpu_s / max(self.at)

    def first_round_s(self) -> float:
        """From submit to the end of round 1."""
        return self.at[1] - self.submitted_s


Runs = Callable[[Shape], str]


def run_stock(folder: Path, shape: Shape) -> str:
    """Run the app with Flower's own command; gives what the ServerApp printed."""
    config = " ".join(f"{key}={value}" for key, value in shape.config().items())
    done = subprocess.run(
        [str(BIN / "flwr"), "run", str(APP), "fed", "--stream", "--run-config", config],
        env=stock_environment(folder),
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return done.stdout + done.stderr


def umbel(home: Path, *words: str) -> str:
    """Run the command; gives what it printed."""
    done = subprocess.run(
        [str(BIN / "umbel"), *words],
        env={**os.environ, "UMBEL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return done.stdout


def run_umbel(home: Path, shape: Shape) -> str:
    """Run the app with Umbel; gives what the ServerApp printed."""
    config = [w for key, value in shape.config().items() for w in ("-c", f"{key}={value}")]
    run = json.loads(umbel(home, "run", str(APP), "-o", "json", *config))
    log = home / "federations" / "local" / "hub" / "runs" / run["run_id"] / "log.txt"
    return str(log.read_text())


def observed(runs: Runs, folder: Path, shape: Shape) -> Ran:
    """Run it once and see what it took."""
    before_s, began_s = processes.cpu_s(folder), time.time()
    text = runs(shape)
    at = {int(n): float(t) for n, t in STAMP.findall(text)}
    return Ran(began_s, at, processes.cpu_s(folder) - before_s)


def case(name: str, ours: float, theirs: float, **columns: float) -> dict[str, Any]:
    """Write one row; the unit is the name's end."""
    ratio = round(theirs / ours, 2)
    return {
        "name": name, "umbel_s": round(ours, 4), "stock_s": round(theirs, 4), "ratio": ratio,
        **columns,
    }  # fmt: skip


def compared(
    shape: Shape, sides: Sequence[tuple[Runs, Path]], also: Sequence[str]
) -> list[dict[str, Any]]:
    """Run both sides in turn; gives the shape's rows."""
    ran: list[list[Ran]] = [[], []]
    for _ in range(REPEATS):
        for seen, (runs, folder) in zip(ran, sides, strict=True):
            seen.append(observed(runs, folder, shape))
    peaks = []
    for runs, folder in sides:
        with processes.peak_mib(folder) as peak:
            runs(Shape(shape.name, shape.nodes, 2, shape.arrays, shape.array_bytes))
        peaks.append(peak[-1])
    theirs, ours = (statistics.median(s for r in seen for s in r.rounds()) for seen in ran)
    cpu = [statistics.median(r.cpu_per_round_s() for r in seen) for seen in ran]
    first = [statistics.median(r.first_round_s() for r in seen) for seen in ran]
    label = f"{shape.name}_{shape.nodes}_nodes"
    return [
        case(f"{label}_round_s", ours, theirs, **others(shape, also)),
        case(f"{label}_cpu_per_round_s", cpu[1], cpu[0]),
        case(f"{label}_submit_to_first_round_s", first[1], first[0]),
        case(f"{label}_peak_memory_mib", peaks[1], peaks[0]),
    ]


def others(shape: Shape, also: Sequence[str]) -> dict[str, float]:
    """Let the given commands measure another system, now."""
    columns = {}
    for text in also:
        name, _, command = text.partition("=")
        words = {key.upper().replace("-", "_"): str(v) for key, v in shape.config().items()}
        words["ROUNDS"] = words.pop("NUM_SERVER_ROUNDS")
        done = subprocess.run(
            shlex.split(command),
            env={**os.environ, **words},
            capture_output=True,
            text=True,
            check=True,
            timeout=900,
        )
        columns[f"{name}_s"] = float(json.loads(done.stdout)["round_s"])
    return columns


def measure(nodes: int, shapes: Sequence[Shape], also: Sequence[str]) -> list[dict[str, Any]]:
    """Measure all shapes with this many nodes, on two federations that live side by side."""
    cases = []
    with tempfile.TemporaryDirectory() as text, stock(nodes) as (_, folder):
        home = Path(text) / "home"
        document = Path(text) / "federation.yaml"
        document.write_text(
            "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata: {name: local}\n"
            f"spec:\n  groups: [{{name: local, sites: {nodes}}}]\n"
        )
        umbel(home, "up", "-f", str(document))
        sides = ((partial(run_stock, folder), folder), (partial(run_umbel, home), home))
        try:
            for runs, _ in sides:  # the app's environment is made once, before anything counts
                runs(Shape("warm", nodes, 1))
            for shape in shapes:
                cases += compared(shape, sides, also)
        finally:
            umbel(home, "down")
    return cases


def shapes_for(nodes: int, rounds: int, *, large: bool) -> list[Shape]:
    """Choose what is sent with this many nodes."""
    big = Shape("100_mb", nodes, 4, arrays=10, array_bytes=10_000_000)
    shapes = [Shape("tiny", nodes, rounds)] if nodes in (1, 3, 10) else []
    if nodes == 1:
        shapes.append(Shape("62_arrays", nodes, rounds, arrays=62))
    return [*shapes, big] if large and nodes in (1, 4) else shapes


def main() -> None:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 3, 4, 10])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--large", action="store_true", help="also 100 MB, with 1 and 4 nodes")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=COMMAND")
    chosen = parser.parse_args()
    cases: list[dict[str, Any]] = []
    for nodes in chosen.nodes:
        shapes = shapes_for(nodes, chosen.rounds, large=chosen.large)
        if shapes:
            cases += measure(nodes, shapes, chosen.also)
    print(json.dumps({"cases": cases}, indent=1))


if __name__ == "__main__":
    main()
