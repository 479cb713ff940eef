"""Draws where a round's time went, from a real trace: stock Flower above, Umbel below.

    python bench/timeline.py docs/concepts/round.svg

Both run `bench/apps/exchange` with one node, TLS, node keys and the persistent database. One round of
each is drawn, the one whose length is the median.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from rounds import APP, STAMP, Shape, run_stock
from stock import BIN, stock

TRACING = Path(__file__).parent / "tracing"
LANES = ("ServerApp", "SuperNode", "executor", "ClientApp")
COLOURS = {
    "sleep": "#c9ced6",
    "held": "#e3e7ee",
    "request": "#3b7dd8",
    "start": "#e07b39",
    "app": "#3a9d5d",
}
WORDS = {
    "sleep": "sleeps", "held": "waits for an answer", "request": "request",
    "start": "process starts", "app": "the app itself",
}  # fmt: skip
WIDTH, LEFT, ROW = 900, 96, 30
HELD_S = 0.02


@dataclass(frozen=True)
class Bar:
    """Something that took a while."""

    lane: str
    kind: str
    name: str
    begin_s: float
    end_s: float


def lane_of(rows: list[dict[str, Any]]) -> str:
    """Tell what a process is by what it asked for."""
    names = {row["name"] for row in rows}
    if any(name.startswith("/v1/fleet/") for name in names):
        return "SuperNode"
    if "/v1/runtime/acquire-task" in names:
        return "executor"
    if "/v1/runtime/get-nodes" in names:
        return "ServerApp"
    return "ClientApp" if "/v1/runtime/push-messages" in names else ""


def bars_of(trace: Path) -> list[Bar]:
    """Read a trace."""
    by_process: dict[int, list[dict[str, Any]]] = {}
    for line in trace.read_text().splitlines():
        row = json.loads(line)
        by_process.setdefault(row["pid"], []).append(row)
    bars = []
    for rows in by_process.values():
        lane = lane_of(rows)
        for row in rows:
            if lane and not (row["kind"] == "start" and lane != "ClientApp"):
                held = row["name"].endswith("pull-messages") and row["to"] - row["from"] > HELD_S
                kind = "held" if held else row["kind"]
                bars.append(Bar(lane, kind, row["name"], row["from"], row["to"]))
    return bars


def median_round(log: str) -> tuple[float, float]:
    """Choose the round of median length; gives when it began and ended."""
    at = {int(n): float(t) for n, t in STAMP.findall(log)}
    rounds = [(at[n - 1], at[n]) for n in sorted(at) if n > 1]
    middle = statistics.median_low(end - begin for begin, end in rounds)
    return next(pair for pair in rounds if pair[1] - pair[0] == middle)


def panel(title: str, bars: list[Bar], span: tuple[float, float], top: int) -> list[str]:
    """Draw one round."""
    begin_s, end_s = span
    scale = (WIDTH - LEFT - 10) / (end_s - begin_s)
    lanes = [lane for lane in LANES if any(b.lane == lane for b in bars)]
    drawn = [f'<text x="0" y="{top}" class="title">{escape(title)}</text>']
    for row, lane in enumerate(lanes):
        y = top + 12 + row * ROW
        drawn.append(f'<text x="0" y="{y + 16}">{lane}</text>')
        drawn.append(
            f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 10}" height="{ROW - 8}" fill="#f6f7f9"/>'
        )
        inside = [b for b in bars if b.lane == lane and b.end_s > begin_s and b.begin_s < end_s]
        for bar in sorted(inside, key=lambda b: -(b.end_s - b.begin_s)):
            x = LEFT + (max(bar.begin_s, begin_s) - begin_s) * scale
            width = (min(bar.end_s, end_s) - max(bar.begin_s, begin_s)) * scale
            hint = f"{bar.name}: {1000 * (bar.end_s - bar.begin_s):.0f} ms"
            drawn.append(
                f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" height="{ROW - 8}" '
                f'fill="{COLOURS[bar.kind]}"><title>{escape(hint)}</title></rect>'
            )
    y = top + 12 + len(lanes) * ROW
    for part in range(5):
        x = LEFT + part / 4 * (WIDTH - LEFT - 10)
        label = (end_s - begin_s) * part / 4
        text = f"{label:.1f} s" if end_s - begin_s > 1 else f"{1000 * label:.0f} ms"
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        drawn.append(
            f'<text x="{x:.0f}" y="{y + 12}" class="axis" text-anchor="{anchor}">{text}</text>'
        )
    return drawn


def picture(
    stock_side: tuple[list[Bar], tuple[float, float]], ours: tuple[list[Bar], tuple[float, float]]
) -> str:
    """Draw both, and what the colours mean."""
    height = 2 * (12 + len(LANES) * ROW + 40) + 60
    lengths = [span[1] - span[0] for _, span in (stock_side, ours)]
    second = 30 + 12 + len(LANES) * ROW + 50
    body = panel(f"Stock Flower: {lengths[0]:.1f} s", *stock_side, 22)
    body += panel(
        f"Umbel: {1000 * lengths[1]:.0f} ms (another scale: {lengths[0] / lengths[1]:.0f} times as fast)",
        *ours,
        second,
    )
    x = LEFT
    for kind, words in WORDS.items():
        y = height - 24
        body.append(f'<rect x="{x}" y="{y}" width="14" height="14" fill="{COLOURS[kind]}"/>')
        body.append(f'<text x="{x + 20}" y="{y + 12}">{words}</text>')
        x += 44 + 7 * len(words)
    style = (
        "text{font:13px system-ui,sans-serif;fill:#2b3442}"
        ".title{font-weight:600;font-size:15px}.axis{font-size:11px;fill:#6b7480}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 {WIDTH + 20} {height}" role="img">'
        f"<title>Where the time of one round goes</title><style>{style}</style>"
        f'<rect x="-10" width="{WIDTH + 20}" height="{height}" fill="#fff"/>{"".join(body)}</svg>\n'
    )


def traced_stock(trace: Path) -> tuple[list[Bar], tuple[float, float]]:
    """Trace stock Flower."""
    os.environ |= {"PYTHONPATH": str(TRACING), "TRACE_FILE": str(trace)}
    try:
        with stock(1) as (_, folder):
            log = run_stock(folder, Shape("tiny", 1, 8))
    finally:
        del os.environ["PYTHONPATH"], os.environ["TRACE_FILE"]
    return bars_of(trace), median_round(log)


def traced_umbel(folder: Path, trace: Path) -> tuple[list[Bar], tuple[float, float]]:
    """Trace Umbel; the app's environment is told of the trace by a file in it."""
    home, cache = folder / "home", folder / "cache"
    environment = {
        **os.environ, "UMBEL_HOME": str(home), "XDG_CACHE_HOME": str(cache),
        "PYTHONPATH": str(TRACING), "TRACE_FILE": str(trace),
    }  # fmt: skip
    document = folder / "federation.yaml"
    document.write_text(
        "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata: {name: local}\n"
        "spec: {groups: [{name: local, sites: 1}]}\n"
    )

    def umbel(*words: str) -> str:
        done = subprocess.run(
            [str(BIN / "umbel"), *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def run(rounds: int) -> str:
        config = [
            w for k, v in Shape("tiny", 1, rounds).config().items() for w in ("-c", f"{k}={v}")
        ]
        made = json.loads(umbel("run", str(APP), "-o", "json", *config))
        log = home / "federations/local/hub/runs" / str(made["run_id"]) / "log.txt"
        return log.read_text()

    try:
        umbel("up", "-f", str(document))
        run(1)
        umbel("down")
        for site in cache.glob("umbel/environments/*/lib/python3*/site-packages"):
            (site / "trace.pth").write_text(f"{TRACING}\nimport sitecustomize\n")
        umbel("up", "-f", str(document))
        run(3)
        trace.unlink()
        log = run(40)
    finally:
        umbel("down")
    return bars_of(trace), median_round(log)


def main() -> None:
    """Trace both, draw, write."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        ours = traced_umbel(folder, folder / "ours.jsonl")
        theirs = traced_stock(folder / "stock.jsonl")
    target.write_text(picture(theirs, ours))


if __name__ == "__main__":
    main()
