"""Seconds a round: Umbel against stock Flower, the same app, alternately in one run.

    python bench/rounds.py [--nodes 1 3 10] [--rounds 10] > rounds.json

Both with TLS, node keys, process isolation and the persistent database. The app sends arrays out and
back (`bench/apps/exchange`), so a round costs what the machinery costs. Medians; round 1 is left out,
it also pays for the first start of everything.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stock import BIN, stock, stock_environment

APP = Path(__file__).parent / "apps" / "exchange"
STAMP = re.compile(r'\{"round": (\d+), "at": ([0-9.]+)\}')


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


def seconds(text: str) -> list[float]:
    """Read when rounds ended; gives how long each took."""
    at = {int(n): float(t) for n, t in STAMP.findall(text)}
    return [at[n] - at[n - 1] for n in sorted(at) if n - 1 in at]


def stock_rounds(folder: Path, shape: Shape) -> list[float]:
    """Run the app with Flower's own command."""
    config = " ".join(f"{key}={value}" for key, value in shape.config().items())
    done = subprocess.run(
        [str(BIN / "flwr"), "run", str(APP), "fed", "--stream", "--run-config", config],
        env=stock_environment(folder),
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return seconds(done.stdout + done.stderr)


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


def umbel_rounds(home: Path, shape: Shape) -> list[float]:
    """Run the app with Umbel."""
    config = [w for key, value in shape.config().items() for w in ("-c", f"{key}={value}")]
    run = json.loads(umbel(home, "run", str(APP), "-o", "json", *config))
    log = home / "federations" / "local" / "hub" / "runs" / run["run_id"] / "log.txt"
    return seconds(log.read_text())


def measure(nodes: int, shapes: Sequence[Shape]) -> list[dict[str, Any]]:
    """Measure all shapes with this many nodes: stock, ours, shape by shape."""
    cases = []
    with tempfile.TemporaryDirectory() as text, stock(nodes) as (_, folder):
        home = Path(text) / "home"
        document = Path(text) / "federation.yaml"
        document.write_text(
            "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata: {name: local}\n"
            f"spec:\n  groups: [{{name: local, sites: {nodes}}}]\n"
        )
        umbel(home, "up", "-f", str(document))
        try:
            for shape in shapes:
                theirs = statistics.median(stock_rounds(folder, shape)[1:])
                ours = statistics.median(umbel_rounds(home, shape)[1:])
                cases.append(
                    {
                        "name": f"{shape.name}_{nodes}_nodes_round_s",
                        "umbel_s": round(ours, 4),
                        "stock_s": round(theirs, 4),
                        "ratio": round(theirs / ours, 1),
                    }
                )
        finally:
            umbel(home, "down")
    return cases


def main() -> None:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--large", action="store_true", help="also 100 MB models")
    chosen = parser.parse_args()
    cases: list[dict[str, Any]] = []
    for nodes in chosen.nodes:
        shapes = [Shape("tiny", nodes, chosen.rounds)]
        if nodes == 1:
            shapes.append(Shape("62_arrays", nodes, chosen.rounds, arrays=62))
        if chosen.large and nodes in (1, 4):
            shapes.append(Shape("100_mb", nodes, 4, arrays=10, array_bytes=10_000_000))
        cases += measure(nodes, shapes)
    print(json.dumps({"cases": cases}, indent=1))


if __name__ == "__main__":
    main()
