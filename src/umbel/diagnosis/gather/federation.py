"""Looks at one declared federation: its files, its processes, its doors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from umbel.agent.processes import Process
from umbel.agent.supervisor import last_words
from umbel.diagnosis.facts import (
    CertificateDue,
    CertificateTrouble,
    DataSeen,
    FederationSeen,
    Moment,
    PortSeen,
    UnitSeen,
)
from umbel.diagnosis.gather import doors, keepers
from umbel.diagnosis.gather.machine import written
from umbel.diagnosis.gather.processes import Processes
from umbel.errors import SecurityError
from umbel.identity import certificates
from umbel.identity.certificates import Trouble
from umbel.identity.provision import LOOPBACK, SERVER
from umbel.model.federation import Federation, Target
from umbel.model.unit import HUB, Kind
from umbel.ports import Kept
from umbel.targets.local.layout import Layout

_AUDIT_END = 4096


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the state has of one federation."""

    document: Federation
    ports: Mapping[str, int]
    units: Sequence[Kept]


def look(home: Path, known: Remembered, processes: Processes, now: datetime) -> FederationSeen:
    """Describe the federation."""
    document, layout = known.document, Layout(home, known.document.name)
    sites = sorted({kept.unit.site for kept in known.units} - {HUB})
    troubles, due = _certificates(layout, document, sites, now)
    endpoint = document.spec.superlink.endpoint
    return FederationSeen(
        document=document,
        ports=_ports(known, processes),
        troubles=tuple(troubles),
        due=tuple(due),
        checked=len(sites) + 1 if known.units else 0,
        doors=doors.look(layout.gate_config, layout.bundle, endpoint) if known.units else (),
        units=tuple(_unit(layout, kept) for kept in known.units),
        data=tuple(_data(document)),
        conditions=keepers.conditions(home, document.name),
        unresolved=doors.why_unresolved(endpoint),
    )


def _ports(known: Remembered, processes: Processes) -> tuple[PortSeen, ...]:
    declared = known.document.spec.superlink.ports
    wanted = {"fleet": declared.fleet, "control": declared.control, "runtime": declared.runtime}
    chosen = {name: port for name, port in wanted.items() if port is not None}
    used = {f"site/{kept.unit.site}" for kept in known.units} | set(wanted)
    ports = {**chosen, **{name: port for name, port in known.ports.items() if name in used}}
    return tuple(
        PortSeen(purpose, port, processes.holder(port), purpose in chosen)
        for purpose, port in sorted(ports.items())
    )


def _certificates(
    layout: Layout, document: Federation, sites: Sequence[str], now: datetime
) -> tuple[list[CertificateTrouble], list[CertificateDue]]:
    link = document.spec.superlink
    names = {HUB: sorted({link.endpoint, *link.alternative_names, *LOOPBACK})}
    troubles: list[CertificateTrouble] = []
    due: list[CertificateDue] = []
    if not layout.gate_config.exists():
        return troubles, due  # declared, and never started
    for who in (HUB, *sites):
        place = layout.place(who)
        certificate = place / f"{SERVER}.crt"
        key = place / f"{SERVER}.key"
        try:
            found = certificates.check(
                certificate, key, layout.bundle, names.get(who, LOOPBACK), now
            )
            troubles += [CertificateTrouble(who, p.trouble, p.fact, p.hint) for p in found]
            if not found:
                due.append(CertificateDue(who, certificates.describe(certificate, now).days_left))
        except SecurityError as error:
            troubles.append(CertificateTrouble(who, Trouble.DAMAGED, error.fact, error.hint))
    return troubles, due


def _unit(layout: Layout, kept: Kept) -> UnitSeen:
    unit = kept.unit
    log = layout.log(unit.site, unit.kind)
    alive = Process(kept.pid, kept.started).alive()
    return UnitSeen(
        name=unit.name,
        alive=alive,
        exit_code="" if alive else _exit_code(layout, unit.site, unit.kind, kept.pid),
        last_words="" if alive else last_words({"log": log}),
        log=log,
    )


def _exit_code(layout: Layout, site: str, kind: Kind, pid: int) -> str:
    try:
        noted, code = layout.exit_note(site, kind).read_text().split()
    except (OSError, ValueError):
        return ""
    return code if int(noted) == pid else ""


def _data(document: Federation) -> Iterator[DataSeen]:
    for group in document.spec.groups:
        path = group.data.host_path
        if path is not None and group.on is Target.LOCAL:
            yield DataSeen(group.name, path, why_unreadable(Path(path)))


def why_unreadable(folder: Path) -> str:
    """Say why a folder's files cannot be read, if so."""
    if not folder.exists():
        return "is not there"
    if not folder.is_dir():
        return "is not a folder"
    return "" if os.access(folder, os.R_OK | os.X_OK) else "cannot be read by this user"


def moments(home: Path, names: Sequence[str]) -> list[Moment]:
    """Tell of each federation what has passed already: certificates' begin, logs, audit lines."""
    found: list[Moment] = []
    for name in names:
        layout = Layout(home, name)
        for path in (layout.authority / "ca.crt", layout.place(HUB) / f"{SERVER}.crt"):
            try:
                begin = certificates.load(path).not_valid_before_utc
            except SecurityError:
                continue
            found.append(Moment(f"the begin of {path}", begin))
        found += written([layout.audit, layout.database])
        found += _last_audit(layout.audit)
    return found


def _last_audit(path: Path) -> list[Moment]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _AUDIT_END))
            line = file.read().splitlines()[-1]
        return [Moment(f"the last line of {path}", datetime.fromisoformat(json.loads(line)["at"]))]
    except (OSError, ValueError, IndexError, KeyError, TypeError):
        return []
