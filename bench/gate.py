"""The gate against nginx: TLS in front of one upstream on a Unix socket, alternately in one run.

    python bench/gate.py [--requests 4000] [--bodies 60] [--polls 1000] [--one-core] > gate.json

`stock_s` is nginx's figure (Debian's package, streaming as the gate does, no access log). The gate
authenticates as it always does, nginx lets everybody in. Small requests are asked in three ways:
`fleet_signed` with a new signature each time, as a SuperNode does, which costs the most;
`fleet_resent` with one that was seen before; `control` with a token, and a line in the audit log.
Everything else is signed anew. Small requests are asked by one client; the proxy has a core of its
own, the client and the upstream share another (`--one-core`: all share one, nobody waits for a core
to wake up, and what is left is processor time). Bodies are seconds per 5 MiB, one at a time and four
at once; `cpu` is what the proxy itself used of a processor. Memory is the sum of the processes' PSS
while requests are held, and the peak of RSS with 10 x 100 MB stuck behind a reader who does not read,
and then on their way.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate_doors import (
    MIB,
    NGINX,
    TOKEN,
    Client,
    Proxy,
    Site,
    gate,
    nginx,
    request,
    until_true,
    upstream,
    upstream_says,
    write_certificate,
)

BODY = 5 * MIB
LARGE = 100_000_000
FLOWS = 10
TURN = 50  # small requests to one, then to the other
HEARTBEAT = "/v1/fleet/send-node-heartbeat"


@dataclass
class Samples:
    """What was measured of one proxy."""

    wall_s: list[float]
    cpu_s: list[float]


@dataclass(frozen=True)
class Bench:
    """The two doors, who asks, and how much."""

    folder: Path
    proxies: Sequence[Proxy]  # the gate first
    sites: Sequence[Site]
    behind: int  # the upstream's process

    def alternately(
        self, once: Callable[[Proxy], list[float]], *, turns: int, asked: int
    ) -> list[Samples]:
        """Measure each in turn, `asked` requests each time; the first turn only warms up."""
        found = [Samples([], []) for _ in self.proxies]
        for turn in range(turns + 1):
            for samples, proxy in zip(found, self.proxies, strict=True):
                before_s = proxy.cpu_s()
                taken = once(proxy)
                if turn:
                    samples.wall_s.extend(taken)
                    samples.cpu_s.append((proxy.cpu_s() - before_s) / asked)
        return found

    def small(self, kind: str, requests: int) -> list[dict[str, Any]]:
        """Ask something small again and again on one connection."""
        seen = self.sites[0].headers()
        token = {"authorization": f"Bearer {TOKEN}"}
        heads: dict[str, Callable[[], bytes]] = {
            "fleet_signed": lambda: request(HEARTBEAT, self.sites[0].headers(), 16),
            "fleet_resent": lambda: request(HEARTBEAT, seen, 16),
            "control": lambda: request("/v1/control/list-runs", token, 16),
        }
        clients = {
            proxy.name: proxy.connect(proxy.control if kind == "control" else proxy.fleet)
            for proxy in self.proxies
        }

        def once(proxy: Proxy) -> list[float]:
            taken = []
            for _ in range(TURN):
                data = heads[kind]() + bytes(16)
                began = time.perf_counter()
                clients[proxy.name].send(data)
                clients[proxy.name].answer()
                taken.append(time.perf_counter() - began)
            return taken

        found = self.alternately(once, turns=requests // TURN, asked=TURN)
        return [
            case(f"small_{kind}_median_s", [samples.wall_s for samples in found]),
            case(f"small_{kind}_p99_s", [[p99(samples.wall_s)] for samples in found]),
            case(f"small_{kind}_cpu_s", [samples.cpu_s for samples in found]),
        ]

    def body(self, bodies: int, *, up: bool, at_once: int) -> list[dict[str, Any]]:
        """Send bodies of 5 MiB to the upstream, or get them."""
        each = max(1, bodies // 10 // at_once)

        def flow(client: Client) -> None:
            for _ in range(each):
                (push if up else pull)(client, self.sites[0])

        def once(proxy: Proxy) -> list[float]:
            clients = [proxy.connect() for _ in range(at_once)]
            began = time.perf_counter()
            with ThreadPoolExecutor(at_once) as pool:
                list(pool.map(flow, clients))
            return [(time.perf_counter() - began) / (each * at_once)]

        found = self.alternately(once, turns=10, asked=each * at_once)
        name = f"{'request' if up else 'response'}_bodies_{at_once}_at_once"
        return [
            case(f"{name}_s", [samples.wall_s for samples in found]),
            case(f"{name}_cpu_s", [samples.cpu_s for samples in found]),
        ]

    @contextlib.contextmanager
    def pinned(self, *, one_core: bool) -> Iterator[None]:
        """Give the proxies one core, and everybody else another."""
        all_cores = os.sched_getaffinity(0)
        first, last = min(all_cores), min(all_cores) if one_core else max(all_cores)
        proxies = [pid for proxy in self.proxies for pid in proxy.pids()]
        places = {**dict.fromkeys(proxies, last), self.behind: first, 0: first}
        for pid, core in places.items():
            os.sched_setaffinity(pid, {core})
        yield
        for pid in places:
            os.sched_setaffinity(pid, all_cores)

    def held(self, polls: int) -> list[dict[str, Any]]:
        """Hold many polls at once, answer all of them."""
        totals, growths, releases = [], [], []
        for proxy in self.proxies:
            before = proxy.pss_mib()
            clients = [proxy.connect() for _ in range(polls)]
            for client, site in zip(clients, self.sites, strict=True):
                client.send(request("/v1/fleet/pull-messages", site.headers()))
            until_true(lambda: upstream_says(self.folder, "/waiting") == polls)
            totals.append([proxy.pss_mib()])
            growths.append([totals[-1][0] - before])
            began = time.perf_counter()
            upstream_says(self.folder, "/release")
            answered = sum(client.answer() == 64 for client in clients)
            releases.append([time.perf_counter() - began])
            if answered != polls:
                raise SystemExit(f"{proxy.name}: {answered} of {polls} polls were answered")
            for client in clients:
                client.close()
        return [
            case(f"held_{polls}_total_mib", totals),
            case(f"held_{polls}_growth_mib", growths),
            case(f"held_{polls}_all_answered_s", releases),
        ]

    def in_flight(self, *, up: bool) -> list[dict[str, Any]]:
        """Get ten times 100 MB stuck half-way, then let them go."""
        stuck, peaks = [], []
        for proxy in self.proxies:
            proxy.forget_peak()
            before = proxy.pss_mib()
            stuck.append([(_stuck_up if up else _stuck_down)(self, proxy) - before])
            peaks.append([proxy.peak_mib()])
        way = "up" if up else "down"
        return [
            case(f"stuck_10_x_100_mb_{way}_growth_mib", stuck),
            case(f"in_flight_10_x_100_mb_{way}_peak_mib", peaks),
        ]


def push(client: Client, site: Site) -> None:
    """Send a body, and get a small answer."""
    client.send(request("/v1/fleet/push-object", site.headers(), BODY))
    client.send(_ZEROS)
    client.answer()


def pull(client: Client, site: Site) -> None:
    """Get a body."""
    headers = {**site.headers(), "flwr-answer-bytes": str(BODY)}
    client.send(request("/v1/fleet/pull-object", headers))
    client.answer()


def _stuck_up(bench: Bench, proxy: Proxy) -> float:
    def flow(site: Site) -> None:
        client = proxy.connect()
        client.send(request("/v1/fleet/push-messages", site.headers(), LARGE))
        for _ in range(LARGE // len(_MEGABYTE)):
            client.send(_MEGABYTE)
        client.answer()
        client.close()

    with ThreadPoolExecutor(FLOWS) as pool:
        flows = [pool.submit(flow, site) for site in bench.sites[:FLOWS]]
        until_true(lambda: upstream_says(bench.folder, "/waiting") == FLOWS)
        memory = _settled(proxy)
        upstream_says(bench.folder, "/release")
        for done in flows:
            done.result()
    return memory


def _stuck_down(bench: Bench, proxy: Proxy) -> float:
    go_on = threading.Event()

    def flow(site: Site) -> None:
        client = proxy.connect()
        headers = {**site.headers(), "flwr-answer-bytes": str(LARGE)}
        client.send(request("/v1/fleet/pull-object", headers))
        go_on.wait()
        client.answer()
        client.close()

    with ThreadPoolExecutor(FLOWS) as pool:
        flows = [pool.submit(flow, site) for site in bench.sites[:FLOWS]]
        time.sleep(0.5)
        memory = _settled(proxy)
        go_on.set()
        for done in flows:
            done.result()
    return memory


def _settled(proxy: Proxy) -> float:
    """Give the memory once nothing moves any more."""
    before, now = 0.0, proxy.pss_mib()
    while abs(now - before) > 0.05:
        time.sleep(0.3)
        before, now = now, proxy.pss_mib()
    return now


_ZEROS = bytes(BODY)
_MEGABYTE = bytes(1_000_000)


def p99(taken: list[float]) -> float:
    """Give what one in a hundred exceeds."""
    return statistics.quantiles(taken, n=100)[98]


def case(name: str, found: list[list[float]]) -> dict[str, Any]:
    """Write one row of medians; the unit is the name's end."""
    ours, theirs = [*map(statistics.median, found), None][:2]
    assert ours is not None
    ratio = None if theirs is None else round(theirs / max(ours, 1e-9), 2)
    rounded = None if theirs is None else round(theirs, 6)
    row = {"name": name, "umbel_s": round(ours, 6), "stock_s": rounded, "ratio": ratio}
    print(row, file=sys.stderr)
    return row


def measure(doors: Callable[[], Any], chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure everything; memory in processes that did nothing else before."""
    cases = []
    with doors() as bench:
        cases += bench.held(chosen.polls)
    for up in (True, False):
        with doors() as bench:
            cases += bench.in_flight(up=up)
    with doors() as bench:
        with bench.pinned(one_core=chosen.one_core):
            for kind in ("fleet_signed", "fleet_resent", "control"):
                cases += bench.small(kind, chosen.requests)
        for at_once in (1, 4):
            for up in (True, False):
                cases += bench.body(chosen.bodies, up=up, at_once=at_once)
    return cases


def main() -> None:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--bodies", type=int, default=60)
    parser.add_argument("--polls", type=int, default=1000)
    parser.add_argument("--one-core", action="store_true")
    chosen = parser.parse_args()
    if NGINX is None:
        print("nginx is missing (apt-get install nginx-light): no comparison", file=sys.stderr)
    sites = [Site() for _ in range(max(chosen.polls, FLOWS))]

    @contextlib.contextmanager
    def doors() -> Iterator[Bench]:
        with gate(folder, sites) as ours, nginx(folder) as theirs:
            yield Bench(folder, [ours, theirs] if theirs else [ours], sites, behind.pid)

    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        write_certificate(folder)
        with upstream(folder) as behind:
            print(json.dumps({"cases": measure(doors, chosen)}, indent=1))


if __name__ == "__main__":
    main()
