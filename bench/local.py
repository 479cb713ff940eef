"""One machine: Umbel against a plain shell script of stock Flower commands, in the same run.

    python bench/local.py [--sites 3 10] > local.json

The script does what Flower's documentation says for TLS, node keys and process isolation: openssl and
ssh-keygen, `flower-superlink`, `flwr supernode register`, `flower-supernode`, `flower-superexec`.
Ready means: every SuperNode is online at the SuperLink.
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

from stock import BIN, stock, stock_environment

APP = Path(__file__).parent.parent / "tests" / "apps" / "message_numpy"
FLOWER_KINDS = ("superlink", "supernode", "server-exec", "client-exec")


def umbel(home: Path, *words: str) -> tuple[float, str]:
    """Run the command; gives its seconds and what it printed."""
    began_s = time.perf_counter()
    done = subprocess.run(
        [str(BIN / "umbel"), *words],
        env={**os.environ, "UMBEL_HOME": str(home), "NO_COLOR": "1"},
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return time.perf_counter() - began_s, done.stdout


def own_memory_mib(home: Path) -> float:
    """Sum the PSS of what is not Flower's own: daemon, nursery, gate."""
    total_kib = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name = (entry / "comm").read_text().strip()
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            if str(home) in command and not name.startswith(FLOWER_KINDS):
                rollup = (entry / "smaps_rollup").read_text()
                total_kib += int(rollup.split("\nPss:")[1].split()[0])
        except OSError:
            continue
    return round(total_kib / 1024, 1)


def first_round_umbel_s(home: Path) -> float:
    """Measure from submit to the end of round 1, by the events' own clock."""
    began_s = time.time()
    _, printed = umbel(home, "run", str(APP), "-o", "json", "-c", "num-server-rounds=1")
    run_id = json.loads(printed)["run_id"]
    events = home / "federations" / "local" / "hub" / "runs" / run_id / "events.jsonl"
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "round-ended" and event["round"] == 1:
            from datetime import datetime  # noqa: PLC0415

            return datetime.fromisoformat(event["at"]).timestamp() - began_s
    raise SystemExit("no round")


def first_round_stock_s(folder: Path) -> float:
    """Measure from submit to the line that ends round 1."""
    command = [str(BIN / "flwr"), "run", str(APP), "fed", "--stream"]
    command += ["--run-config", "num-server-rounds=1"]
    began_s = time.perf_counter()
    with subprocess.Popen(
        command, env=stock_environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b"Strategy execution finished" in line:
                seconds = time.perf_counter() - began_s
                process.wait(60)
                return seconds
    raise SystemExit("no round")


def measure(sites: int) -> list[dict[str, Any]]:
    """Measure both, one after the other."""
    cases = []
    with stock(sites) as (stock_s, folder):
        stock_first_s = first_round_stock_s(folder)
    with tempfile.TemporaryDirectory() as text:
        home = Path(text) / "home"
        document = Path(text) / "federation.yaml"
        document.write_text(
            "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata: {name: local}\n"
            f"spec:\n  groups: [{{name: local, sites: {sites}}}]\n"
        )
        up_s, _ = umbel(home, "up", "-f", str(document))
        try:
            cases.append(case(f"ready_{sites}_sites_s", up_s, stock_s))
            again_s, _ = umbel(home, "up", "-f", str(document))
            cases.append(case(f"second_up_{sites}_sites_s", again_s))
            status_s, _ = umbel(home, "status", "-o", "json")
            cases.append(case(f"status_{sites}_sites_s", status_s))
            cases.append({**case(f"own_memory_{sites}_sites_mib", own_memory_mib(home))})
            first_s = first_round_umbel_s(home)
            cases.append(case(f"submit_to_first_round_{sites}_sites_s", first_s, stock_first_s))
        finally:
            down_s, _ = umbel(home, "down")
        cases.append(case(f"down_{sites}_sites_s", down_s))
    return cases


def case(name: str, ours: float, theirs: float | None = None) -> dict[str, Any]:
    """Write one row; the unit is the name's end."""
    ratio = None if theirs is None else round(theirs / ours, 2)
    rounded = None if theirs is None else round(theirs, 3)
    return {"name": name, "umbel_s": round(ours, 3), "stock_s": rounded, "ratio": ratio}


def main() -> None:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, nargs="+", default=[3, 10])
    chosen = parser.parse_args()
    cases = [row for sites in chosen.sites for row in measure(sites)]
    print(json.dumps({"cases": cases}, indent=1))


if __name__ == "__main__":
    main()
