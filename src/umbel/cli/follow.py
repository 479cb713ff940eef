"""Watches a run: a bar, a line a round, a table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from umbel.cli.output import Output, console, number, printable, say, show_data, table
from umbel.model.event import RoundEnded, accuracy_of, from_line, loss_of

STATUSES = {"completed": 0, "failed": 1, "stopped": 3}
SHOWN_TRACEBACKS = 3


class GivesEvents(Protocol):
    """Tells what happens in a run, until it ends."""

    def events(self, name: str, run: str, /) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class Words:
    """How a run is called, and where its results and its log are."""

    title: str
    results: str
    log: str


class Follower:
    """Follows one run to its end."""

    def __init__(
        self,
        client: GivesEvents,
        federation: str,
        run_id: str,
        *,
        quiet: bool,
        words: Words | None = None,
    ) -> None:
        self._client = client
        self._words = words or Words(
            f"run {run_id}",
            f"umbel pull {run_id} fetches the model and the metrics",
            f"umbel logs {run_id} shows what the ServerApp wrote",
        )
        self._federation = federation
        self._run_id = run_id
        self._quiet = quiet
        self._rounds: list[RoundEnded] = []
        self._planned: int | None = None
        self._raised: list[dict[str, Any]] = []
        self._failed: dict[str, str] = {}
        self._died: dict[str, str] = {}  # says more than the error that others make of it
        self._building = False
        self._began_s = time.monotonic()

    def watch(self) -> dict[str, Any]:
        """Show progress until the run ends; gives its last status."""
        out = console(stderr=True)
        last: dict[str, Any] = {}
        events = self._client.events(self._federation, self._run_id)
        if self._quiet or not out.is_terminal:
            for event in events:
                last = self._take(event, last)
            return last
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=out, transient=True) as bar:
            task = bar.add_task("waiting for the first round", total=None)
            for event in events:
                last = self._take(event, last, bar.console.print)
                bar.update(
                    task,
                    total=self._planned,
                    completed=len(self._numbered()),
                    description=self._headline(last),
                )
        return last

    def _numbered(self) -> list[RoundEnded]:
        return [event for event in self._rounds if event.round > 0]

    def _headline(self, last: dict[str, Any]) -> str:
        if self._building:
            return "building the app's environment"
        if not self._rounds:
            return f"{last.get('status', 'pending')}: waiting for the first round"
        event = self._rounds[-1]
        return f"round {event.round}/{self._planned or '?'}"

    def _take(self, item: dict[str, Any], last: dict[str, Any], tell: Any = say) -> dict[str, Any]:
        """Learn from one event; gives the newest status."""
        match item["kind"]:
            case "status":
                return item
            case "run-began":
                self._planned = item["rounds"]
            case "round-ended":
                self._round(item, tell)
            case "reply-failed":
                self._failed[item["site"]] = item["reason"]
            case "app-raised":
                self._raised.append(item)
            case "task-died":
                self._died[item["site"]] = f"the task's process {item['cause']}"
            case "environment-building" | "environment-ready" | "environment-failed":
                self._environment(item, tell)
        return last

    def _environment(self, item: dict[str, Any], tell: Any) -> None:
        """Say what the wait before the first round is for."""
        was, self._building = self._building, item["kind"] == "environment-building"
        if item["kind"] == "environment-failed":
            if item["site"] != "hub":  # the hub's failure is the run's, and told with it
                self._died[item["site"]] = environment_line(item)
        elif was != self._building and not self._quiet:
            tell(environment_line(item))

    def _round(self, item: dict[str, Any], tell: Any) -> None:
        import json

        event = from_line(json.dumps(item))
        if not isinstance(event, RoundEnded):
            return
        self._rounds.append(event)
        if not self._quiet:
            tell(round_line(event, self._planned))

    def show_result(self, ended: dict[str, Any], output: Output) -> None:
        """Show rounds, failures, tracebacks and how it ended."""
        if output in (Output.JSON, Output.YAML):
            show_data(ended, output)
            self._show_failures(ended)
            return
        if self._rounds:
            say()
            table(["ROUND", "LOSS", "ACCURACY", "NODES", "FAILED", "SECONDS"], self._rows())
        self._show_failures(ended)
        seconds = time.monotonic() - self._began_s
        details = f": {printable(ended['details'])}" if ended.get("details") else ""
        say(f"\n{self._words.title} {ended.get('status')} after {seconds:.1f} s{details}")
        if ended.get("status") == "completed" and self._rounds:
            say(self._words.results)

    def _rows(self) -> list[list[str]]:
        return [
            [
                str(event.round),
                number(loss_of(event)),
                number(accuracy_of(event)),
                str(event.replies) if event.round else "",
                str(event.failures) if event.round else "",
                f"{event.seconds:.2f}" if event.round else "",
            ]
            for event in self._rounds
        ]

    def _show_failures(self, ended: dict[str, Any]) -> None:
        for item in _distinct(self._raised)[:SHOWN_TRACEBACKS]:
            where = "the ServerApp" if item["site"] == "hub" else f"the ClientApp at {item['site']}"
            say(f"\n{where} raised an exception:\n")
            say(printable(item["traceback"].rstrip()))
        told = {item["site"] for item in self._raised}
        for site, reason in sorted((self._failed | self._died).items()):
            if site not in told:
                say(f"\n{site} failed: {printable(reason)}")
        if not self._rounds and ended.get("status") == "failed" and not self._raised:
            say(self._words.log)

    def exit_status(self, ended: dict[str, Any]) -> int:
        """Give the run's result; a run in which no site ever answered well has failed."""
        status = STATUSES.get(str(ended.get("status")), 1)
        answered = any(event.replies for event in self._numbered())
        if status == 0 and self._numbered() and not answered and (self._failed or self._died):
            return 1
        return status


def environment_line(item: dict[str, Any]) -> str:
    """Tell in one line what becomes of the app's environment."""
    match item["kind"]:
        case "environment-building":
            listed = printable(", ".join(item["dependencies"])) or "Flower alone"
            return f"building the app's environment: {listed}"
        case "environment-ready":
            return f"the environment is ready after {item['seconds']:.1f} s; it is kept"
    return f"the app's environment cannot be built: {printable(item['reason'])}"


def round_line(event: RoundEnded, planned: int | None) -> str:
    """Tell a round in one line."""
    start = f"round {event.round}/{planned or '?'}" if event.round else "start     "
    parts = [start, f"loss {number(loss_of(event))}", f"accuracy {number(accuracy_of(event))}"]
    if event.round:
        failed = f", {event.failures} failed" if event.failures else ""
        parts.append(f"{event.replies} nodes{failed}")
        parts.append(f"{event.seconds:.2f} s")
    return "  ".join(parts)


def _distinct(raised: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep one traceback a site: the same error in every round says no more."""
    seen: dict[str, dict[str, Any]] = {}
    for item in raised:
        seen.setdefault(item["site"], item)
    return list(seen.values())
