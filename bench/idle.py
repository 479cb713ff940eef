"""What a federation costs that does nothing: Umbel and stock Flower side by side, in the same minute.

    python bench/idle.py [--sites 10] [--seconds 120] > idle.json

CPU is of all processes of the federation, in percent of one core; requests are those of SuperNodes and
executors, for each site in 20 s; memory is the sum of proportional set sizes, and of plain ones for us:
the difference is what parents and children share.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import processes
from rounds import case
from stock import BIN, stock

TRACING = Path(__file__).parent / "tracing"
SETTLE_S = 40.0


def requests(trace: Path) -> int:
    """Count the requests that were noted so far."""
    if not trace.exists():
        return 0
    return sum('"kind": "request"' in line for line in trace.read_text().splitlines())


def resident_mib(folder: Path) -> float:
    """Sum the resident sizes: shared pages count for each process."""
    pages = 0
    for entry in processes.of(folder):
        try:
            pages += int((entry / "statm").read_text().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def watched(folder: Path, trace: Path) -> tuple[float, int]:
    """Look at the counters of one side."""
    return processes.cpu_s(folder), requests(trace)


def measure(folder: Path, sites: int, seconds: float) -> list[dict[str, Any]]:
    """Bring both up, let them settle, watch them."""
    home, document = folder / "home", folder / "federation.yaml"
    document.write_text(
        "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata: {name: local}\n"
        f"spec: {{groups: [{{name: local, sites: {sites}}}]}}\n"
    )
    traces = [folder / "ours.jsonl", folder / "stock.jsonl"]
    ours = {
        **os.environ, "UMBEL_HOME": str(home), "PYTHONPATH": str(TRACING), "TRACE_FILE": str(traces[0]),
    }  # fmt: skip
    os.environ |= {"PYTHONPATH": str(TRACING), "TRACE_FILE": str(traces[1])}
    with stock(sites) as (_, theirs):
        subprocess.run(
            [str(BIN / "umbel"), "up", "-f", str(document)],
            env=ours,
            check=True,
            capture_output=True,
        )
        try:
            time.sleep(SETTLE_S)
            sides = ((home, traces[0]), (theirs, traces[1]))
            before = [watched(*side) for side in sides]
            time.sleep(seconds)
            after = [watched(*side) for side in sides]
            memory = [processes.memory_mib(side[0]) for side in sides]
            resident = resident_mib(home)
        finally:
            subprocess.run([str(BIN / "umbel"), "down"], env=ours, check=True, capture_output=True)
    cpu = [100 * (b[0] - a[0]) / seconds for a, b in zip(before, after, strict=True)]
    asked = [(b[1] - a[1]) * 20 / seconds / sites for a, b in zip(before, after, strict=True)]
    return [
        case(f"idle_{sites}_sites_percent_of_a_core", *cpu),
        case(f"idle_{sites}_sites_requests_per_site_in_20_s", *asked),
        case(f"idle_{sites}_sites_memory_mib", *memory, umbel_unshared_mib=round(resident, 1)),
    ]


def main() -> None:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=120.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        cases = measure(Path(text), chosen.sites, chosen.seconds)
    print(json.dumps({"cases": cases}, indent=1))


if __name__ == "__main__":
    main()
