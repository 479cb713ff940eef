"""From what was seen to what is wanted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from umbel.model.plan import Action, Plan, Step
from umbel.model.site import Verdict
from umbel.model.unit import Health, Kind, Present, Sighting, Unit, Unknown

_ORDER = {kind: number for number, kind in enumerate(Kind)}


def diff(
    federation: str,
    wanted: Mapping[str, Unit],
    seen: Mapping[str, Sighting],
    verdicts: Sequence[Verdict] = (),
) -> Plan:
    """Choose the steps from seen to wanted. No clock, no network, no log."""
    reasons = {v.site: "; ".join(v.reasons) for v in verdicts if not v.chosen}
    steps = [_step(unit, seen.get(name)) for name, unit in wanted.items()]
    for name, sighting in sorted(seen.items()):
        if name not in wanted:
            steps.append(_leftover(name, sighting, reasons))
    return Plan(federation, tuple(steps), tuple(verdicts), basis=digest(seen))


def _step(unit: Unit, sighting: Sighting | None) -> Step:
    match sighting:
        case None:
            action, reason = Action.CREATE, "does not exist"
        case Unknown(why):
            action, reason = Action.WAIT, f"cannot see it: {why}"
        case Present(fingerprint=found) if found == unit.fingerprint:
            action, reason = Action.KEEP, "as wanted"
        case Present(settings=settings):
            action, reason = Action.REPLACE, f"its definition changed: {changes(settings, unit)}"
    return Step(action, unit.name, unit.site, reason)


def _leftover(name: str, sighting: Sighting, reasons: Mapping[str, str]) -> Step:
    site = name.partition("/")[0]
    if isinstance(sighting, Unknown):
        return Step(Action.WAIT, name, site, f"cannot see it: {sighting.why}")
    return Step(Action.REMOVE, name, site, reasons.get(site, "not in the document"))


def changes(before: Mapping[str, object], unit: Unit) -> str:
    """Name what differs, old and new, shortest form."""
    if not before:
        return "settings"  # the target keeps no more than a fingerprint
    names = sorted({*before, *unit.settings})
    differing = [n for n in names if before.get(n) != unit.settings.get(n)]
    parts = [f"{n} {before.get(n)!r} → {unit.settings.get(n)!r}" for n in differing]
    return ", ".join(parts) or "settings"


def digest(seen: Mapping[str, Sighting]) -> str:
    """Name what was seen. Health is left out: it comes and goes while a plan stays right."""
    lines = []
    for name, sighting in sorted(seen.items()):
        what = sighting.fingerprint if isinstance(sighting, Present) else "unknown"
        lines.append(f"{name} {what}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def all_ready(wanted: Mapping[str, Unit], seen: Mapping[str, Sighting]) -> bool:
    """Whether every wanted unit is there, as wanted, and does well."""
    return all(
        isinstance(s := seen.get(name), Present)
        and s.fingerprint == unit.fingerprint
        and s.health is Health.READY
        for name, unit in wanted.items()
    )


def in_order(units: Mapping[str, Unit]) -> list[Unit]:
    """Sort units into the order in which they are started."""
    return sorted(units.values(), key=lambda unit: (_ORDER[unit.kind], unit.site))
