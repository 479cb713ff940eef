from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from umbel.diagnosis import federations
from umbel.diagnosis.checks import judge
from umbel.diagnosis.facts import (
    CertificateDue,
    CertificateTrouble,
    DataSeen,
    DoorSeen,
    Facts,
    FederationSeen,
    Holder,
    PortSeen,
    UnitSeen,
    Unseen,
)
from umbel.diagnosis.finding import Finding, Severity, causes
from umbel.identity.certificates import Trouble
from umbel.model.status import Condition

Builds = Callable[..., Facts]
Federates = Callable[..., FederationSeen]
LOG = Path("/home/ada/umbel/gate.log")
FOREIGN = Holder(99, "nginx: master", "www", ours=False)


def bad(facts: Facts) -> list[Finding]:
    return [f for f in causes(judge(facts)) if f.severity is not Severity.OK]


def test_a_port_of_ours_that_another_holds_is_the_cause_of_what_follows(
    healthy: Builds, a_federation: Federates
) -> None:
    seen = a_federation(
        ports=(PortSeen("control", 9093, FOREIGN),),
        units=(UnitSeen("hub/gate", False, "1", "address in use", LOG),),
        doors=(DoorSeen("control", "127.0.0.1:9093", untrusted="wrong version number"),),
        conditions=(Condition("HubAvailable", "False", "gate-failing", "gate is failing"),),
    )
    (found,) = bad(healthy(federations=(seen,)))
    assert found.name == "PortTaken"
    assert "nginx: master" in found.fact
    assert "99" in found.fact


@pytest.mark.parametrize(("declared", "word"), [(True, "spec.superlink.ports"), (False, "chosen")])
def test_the_hint_for_a_taken_port_depends_on_who_chose_it(
    a_federation: Federates, declared: bool, word: str
) -> None:
    seen = a_federation(ports=(PortSeen("control", 9093, FOREIGN, declared),))
    (found,) = federations.ports(seen)
    assert word in found.hint


def test_a_holder_that_the_kernel_hides_is_named_by_its_user() -> None:
    assert federations.who(Holder(0, "", "www", ours=False)) == "a process of user www"


def test_usual_ports_of_others_are_one_note_for_each_holder(nothing_yet: Builds) -> None:
    ports = (PortSeen("fleet", 9092, FOREIGN), PortSeen("control", 9093, FOREIGN))
    (found,) = bad(nothing_yet(default_ports=ports))
    assert found.severity is Severity.NOTE
    assert "9092" in found.fact
    assert "9093" in found.fact


@pytest.mark.parametrize("trouble", list(Trouble))
def test_every_trouble_of_a_certificate_is_a_problem_that_explains_the_door(
    healthy: Builds, a_federation: Federates, trouble: Trouble
) -> None:
    seen = a_federation(
        troubles=(CertificateTrouble("hub", trouble, "fact", "hint"),),
        doors=(DoorSeen("control", "127.0.0.1:9093", untrusted="certificate has expired"),),
        conditions=(Condition("CertificatesValid", "False", "Expired", "gate ended"),),
    )
    (found,) = bad(healthy(federations=(seen,)))
    assert found.name == federations.certificate_finding(trouble)
    assert (found.severity, found.hint) == (Severity.PROBLEM, "hint")


def test_the_same_trouble_of_many_sites_is_one_finding(a_federation: Federates) -> None:
    troubles = tuple(
        CertificateTrouble(f"local-{n}", Trouble.EXPIRED, "it ended", "umbel up") for n in range(9)
    )
    (found,) = federations.certificates(a_federation(troubles=troubles))
    assert "local-0" in found.fact
    assert "4 more" in found.fact


def test_a_certificate_that_ends_soon_is_a_warning(a_federation: Federates) -> None:
    due = (CertificateDue("hub", 3), CertificateDue("local-1", 60))
    (found,) = federations.certificates(a_federation(due=due))
    assert (found.name, found.severity) == ("CertificateEndsSoon", Severity.WARNING)
    assert "local-1" not in found.fact


@pytest.mark.parametrize(
    ("door", "name", "severity"),
    [
        (DoorSeen("fleet", "h:1", closed="Connection refused"), "DoorClosed", Severity.PROBLEM),
        (DoorSeen("fleet", "h:1", untrusted="self-signed"), "DoorUntrusted", Severity.PROBLEM),
        (DoorSeen("fleet", "h:1", stranger=200), "StrangerLetIn", Severity.PROBLEM),
        (DoorSeen("fleet", "h:1", stranger=0), "DoorSilent", Severity.WARNING),
        (DoorSeen("fleet", "h:1", stranger=401), "Door", Severity.OK),
        (DoorSeen("fleet", "h:1", stranger=429), "Door", Severity.OK),
    ],
)
def test_a_door_must_be_reached_believed_and_closed_to_strangers(
    a_federation: Federates, door: DoorSeen, name: str, severity: Severity
) -> None:
    (found,) = federations.doors(a_federation(doors=(door,)))
    assert (found.name, found.severity) == (name, severity)


def test_an_endpoint_without_an_address_is_a_warning(a_federation: Federates) -> None:
    found = list(federations.doors(a_federation(doors=(), unresolved="Name not known")))
    assert [(f.name, f.severity) for f in found] == [("EndpointUnknown", Severity.WARNING)]


def test_a_dead_unit_is_told_with_its_last_words(a_federation: Federates) -> None:
    dead = UnitSeen("hub/superlink", False, "137", "out of memory", LOG)
    (found,) = federations.units(a_federation(units=(dead,)))
    assert "ended with 137" in found.fact
    assert "out of memory" in found.fact
    assert str(LOG) in found.hint


def test_many_dead_units_are_counted(a_federation: Federates) -> None:
    dead = tuple(UnitSeen(f"local-{n}/supernode", False, "", "", LOG) for n in range(30))
    found = list(federations.units(a_federation(units=dead)))
    assert len(found) == federations.SHOWN + 1
    assert "25 more" in found[-1].fact


def test_a_condition_that_is_not_met_is_a_problem_with_its_hint(a_federation: Federates) -> None:
    conditions = (
        Condition("Ready", "False", "SitesMissing", "2 of 3 online"),
        Condition("SitesOnline", "False", "SitesMissing", "2 of 3 online", "umbel logs"),
        Condition("HubAvailable", "True", "Running"),
    )
    (found,) = federations.conditions(a_federation(conditions=conditions))
    assert (found.name, found.severity, found.hint) == (
        "SitesOnline",
        Severity.PROBLEM,
        "umbel logs",
    )


def test_a_condition_that_nobody_knows_is_a_warning(a_federation: Federates) -> None:
    unknown = a_federation(conditions=(Condition("SitesOnline", "Unknown", "CannotLook", "?"),))
    silent = a_federation(conditions=Unseen("no answer within 1.5 s"))
    for seen in (unknown, silent):
        (found,) = federations.conditions(seen)
        assert found.severity is Severity.WARNING


def test_data_that_cannot_be_read_is_a_problem(a_federation: Federates) -> None:
    seen = (DataSeen("ct", "/data/ct", "is not there"), DataSeen("mr", "/data/mr"))
    first, second = federations.data(a_federation(data=seen))
    assert (first.name, first.severity) == ("DataUnreadable", Severity.PROBLEM)
    assert "/data/ct is not there" in first.fact
    assert second.severity is Severity.OK
