"""The federation's status as whoever operates it last told, with what the desk sees itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from umbel import __version__
from umbel.files import write_private
from umbel.flower import versions
from umbel.model.status import (
    Condition,
    FederationStatus,
    NodeSeen,
    RunStatus,
    SiteStatus,
)
from umbel.server.problems import OrderInvalid

_FORM = TypeAdapter(FederationStatus)
_STATES = {"online": "online", "offline": "offline", "registered": "starting"}


class Report:
    """The last report, kept on disk."""

    def __init__(self, path: Path, federation: str) -> None:
        self._path = path
        self._federation = federation

    def keep(self, told: Mapping[str, Any]) -> None:
        """Keep a report in place of the former one; keys that we do not know are kept too."""
        try:
            status = _FORM.validate_python({**told, "runs": None})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise OrderInvalid(f"the status is wrong at {where}: {first['msg']}") from error
        if status.name != self._federation:
            raise OrderInvalid(f"this is the desk of {self._federation}, not of {status.name}")
        kept = {"as_of": datetime.now(UTC).isoformat(timespec="seconds"), "status": dict(told)}
        write_private(self._path, json.dumps(kept))

    def last(self) -> tuple[dict[str, Any], str] | None:
        """Give the last report and when it came; None when there is none that can be read."""
        try:
            kept = json.loads(self._path.read_bytes())
            return dict(kept["status"]), str(kept["as_of"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def answer(
        self, nodes: Sequence[NodeSeen] | None, runs: Sequence[RunStatus] | None, now: datetime
    ) -> dict[str, Any]:
        """Give the status with the runs of now; without any report, what the nodes tell."""
        live = None if runs is None else [asdict(run) for run in runs]
        kept = self.last()
        if kept is None:
            status = asdict(unreported(self._federation, nodes))
            return {**status, "runs": live, "as_of": None, "age_s": None}
        status, as_of = kept
        age_s = (now - datetime.fromisoformat(as_of)).total_seconds()
        return {**status, "runs": live, "as_of": as_of, "age_s": max(0.0, round(age_s, 1))}


def unreported(federation: str, nodes: Sequence[NodeSeen] | None) -> FederationStatus:
    """Say what can be said without a report."""
    silent = Condition(
        "Reported",
        "Unknown",
        "NobodyReported",
        "nobody has reported about this federation yet",
        "whoever operates it does so within seconds; until then only the SuperLink tells",
    )
    return FederationStatus(
        name=federation,
        phase="Unknown",
        endpoint={"fleet": "", "control": ""},
        versions={"umbel": __version__, "flower": versions.installed()},
        conditions=(silent,),
        sites=tuple(map(_site, nodes or ())),
        certificates=(),
        runs=None,
    )


def _site(node: NodeSeen) -> SiteStatus:
    return SiteStatus(
        name=node.name,
        group="",
        target="",
        chosen=True,
        state=_STATES.get(node.status, "unknown"),
        node_id=str(node.node_id),
        fingerprint=node.fingerprint,
    )
