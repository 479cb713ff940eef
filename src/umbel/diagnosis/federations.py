"""Judges each declared federation: ports, certificates, doors, units, sites, data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from umbel.diagnosis.facts import (
    CertificateTrouble,
    DoorSeen,
    Facts,
    FederationSeen,
    Holder,
    PortSeen,
    UnitSeen,
    Unseen,
)
from umbel.diagnosis.finding import DependsOn, Finding, Severity, ok
from umbel.identity.certificates import Trouble

SOON_DAYS = 7
SHOWN = 5
_KEEPERS = (DependsOn("DaemonGone"), DependsOn("DaemonSilent"), DependsOn("NurseryGone"))
_CLOCK = DependsOn("ClockBehind")
_REFUSAL = 400  # this status and above

Check = Callable[[FederationSeen], Iterator[Finding]]


def each(check: Check) -> Callable[[Facts], Iterator[Finding]]:
    """Make a check of one federation a check of all."""

    def judge(facts: Facts) -> Iterator[Finding]:
        for federation in facts.federations:
            yield from check(federation)

    return judge


def default_ports(facts: Facts) -> Iterator[Finding]:
    """The usual ports are free, for who has none yet."""
    for port in facts.default_ports:
        if port.holder is not None and not port.holder.ours:
            yield Finding(
                "DefaultPortTaken",
                Severity.NOTE,
                f"port {port.number} ({port.purpose}) is held by {who(port.holder)}",
                "nothing to do: another free port is chosen",
                about=port.purpose,
            )
    if facts.default_ports and all(port.holder is None for port in facts.default_ports):
        numbers = ", ".join(str(port.number) for port in facts.default_ports)
        yield ok("Ports", f"free: {numbers}")


def ports(federation: FederationSeen) -> Iterator[Finding]:
    """Nobody else has our ports."""
    foreign = [p for p in federation.ports if p.holder is not None and not p.holder.ours]
    for port in foreign:
        assert port.holder is not None  # noqa: S101  # chosen above
        yield Finding(
            "PortTaken",
            Severity.PROBLEM,
            f"port {port.number} ({port.purpose}) of {federation.name} is held by "
            f"{who(port.holder)}",
            _free_port(port),
            about=federation.name,
            depends_on=(DependsOn("ProcessLeft"),),
        )
    if federation.ports and not foreign:
        yield ok("Ports", f"{len(federation.ports)} ports, all ours or free", federation.name)


def _free_port(port: PortSeen) -> str:
    if port.declared:
        return (
            f"end that program, or change spec.superlink.ports.{port.purpose} in the document; "
            "then umbel up"
        )
    return "end that program, then umbel up; or umbel down, umbel up: another port is chosen then"


def who(holder: Holder) -> str:
    """Name who listens, as far as the kernel tells."""
    if holder.pid == 0:
        return f"a process of user {holder.user}"
    return f"process {holder.pid} of user {holder.user}: {holder.command}"


def certificates(federation: FederationSeen) -> Iterator[Finding]:
    """Every certificate is one that clients will take."""
    by_trouble: dict[Trouble, list[CertificateTrouble]] = {}
    for trouble in federation.troubles:
        by_trouble.setdefault(trouble.trouble, []).append(trouble)
    for kind, troubles in by_trouble.items():
        yield Finding(
            certificate_finding(kind),
            Severity.PROBLEM,
            f"{_some([t.who for t in troubles])} of {federation.name}: {troubles[0].fact}",
            troubles[0].hint,
            about=federation.name,
            depends_on=(_CLOCK,) if "not-yet" in kind else (),
        )
    soon = [due for due in federation.due if due.days_left < SOON_DAYS]
    if soon:
        days = min(due.days_left for due in soon)
        yield Finding(
            "CertificateEndsSoon",
            Severity.WARNING,
            f"{_some([due.who for due in soon])} of {federation.name}: "
            f"the certificate ends in {days} days",
            "umbel up renews it; the daemon does so by itself while it runs",
            about=federation.name,
        )
    if federation.checked and not federation.troubles and not soon:
        yield ok("Certificates", f"{federation.checked} are good", federation.name)


def certificate_finding(kind: Trouble) -> str:
    """Name the finding: `wrong-ca` is CertificateWrongCa."""
    return "Certificate" + "".join(part.capitalize() for part in str(kind).split("-"))


def doors(federation: FederationSeen) -> Iterator[Finding]:
    """A client reaches every door and believes it; a stranger is refused."""
    for door in federation.doors:
        yield from _door(federation, door)
    if federation.unresolved:
        yield Finding(
            "EndpointUnknown",
            Severity.WARNING,
            f"{federation.document.spec.superlink.endpoint}: {federation.unresolved}",
            "sites and people dial this name: add it to the DNS, or change "
            "spec.superlink.endpoint",
            about=federation.name,
        )


def _door(federation: FederationSeen, door: DoorSeen) -> Iterator[Finding]:
    name = f"the {door.api} door of {federation.name} ({door.address})"
    about = f"{federation.name}/{door.api}"
    if door.closed:
        causes = (DependsOn("UnitDead"), DependsOn("PortTaken", federation.name), *_KEEPERS)
        fact, hint = f"{name} cannot be reached: {door.closed}", "umbel up"
        yield Finding("DoorClosed", Severity.PROBLEM, fact, hint, about, causes)
    elif door.untrusted:
        causes = (
            _CLOCK,
            DependsOn("PortTaken", federation.name),
            *(DependsOn(certificate_finding(kind), federation.name) for kind in Trouble),
        )
        fact = f"{name} is not believed by our CA's clients: {door.untrusted}"
        hint = "umbel up renews the certificate and tells the gate"
        yield Finding("DoorUntrusted", Severity.PROBLEM, fact, hint, about, causes)
    elif door.stranger == 0:
        fact = f"{name} shakes hands, and then does not answer"
        yield Finding("DoorSilent", Severity.WARNING, fact, "umbel status", about, _KEEPERS)
    elif door.stranger < _REFUSAL:
        fact = f"{name} answers a stranger with {door.stranger}"
        hint = "umbel down at once; this is a bug: please report it"
        yield Finding("StrangerLetIn", Severity.PROBLEM, fact, hint, about)
    else:
        yield ok("Door", f"{door.address} is reached, and refuses strangers", about)


def units(federation: FederationSeen) -> Iterator[Finding]:
    """Every recorded unit has its process."""
    dead = [unit for unit in federation.units if not unit.alive]
    for unit in dead[:SHOWN]:
        yield Finding(
            "UnitDead",
            Severity.PROBLEM,
            f"{unit.name} of {federation.name} does not run{_how(unit)}",
            f"umbel up starts it again; its log is {unit.log}",
            about=f"{federation.name}/{unit.name}",
            depends_on=(*_KEEPERS, DependsOn("PortTaken", federation.name)),
        )
    if len(dead) > SHOWN:
        fact = f"{len(dead) - SHOWN} more units of {federation.name} do not run"
        more = Finding("UnitDead", Severity.PROBLEM, fact, "umbel up", federation.name, _KEEPERS)
        yield more
    if federation.units and not dead:
        yield ok("Units", f"{len(federation.units)} run", federation.name)


def _how(unit: UnitSeen) -> str:
    code = f" (ended with {unit.exit_code})" if unit.exit_code else ""
    return f"{code}: {unit.last_words}" if unit.last_words else code


def conditions(federation: FederationSeen) -> Iterator[Finding]:
    """The daemon itself is content."""
    if isinstance(federation.conditions, Unseen):
        yield Finding(
            "StatusUnseen",
            Severity.WARNING,
            f"the daemon did not tell how {federation.name} does: {federation.conditions.why}",
            "umbel status waits longer",
            about=federation.name,
            depends_on=_KEEPERS,
        )
        return
    for condition in federation.conditions:
        if condition.type == "Ready" or condition.status == "True":
            continue
        yield Finding(
            condition.type,
            Severity.PROBLEM if condition.status == "False" else Severity.WARNING,
            f"{federation.name}: {condition.message}",
            condition.hint or "umbel status -o wide",
            about=federation.name,
            depends_on=(
                *_KEEPERS,
                DependsOn("UnitDead"),
                DependsOn("PortTaken", federation.name),
                *(DependsOn(certificate_finding(kind), federation.name) for kind in Trouble),
            ),
        )


def data(federation: FederationSeen) -> Iterator[Finding]:
    """The declared data folders are there."""
    for seen in federation.data:
        if seen.why:
            yield Finding(
                "DataUnreadable",
                Severity.PROBLEM,
                f"group {seen.group} of {federation.name}: {seen.path} {seen.why}",
                "make the folder readable for the user that runs Umbel, or change data.hostPath",
                about=f"{federation.name}/{seen.group}",
            )
        else:
            yield ok("Data", f"{seen.path} can be read", f"{federation.name}/{seen.group}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
