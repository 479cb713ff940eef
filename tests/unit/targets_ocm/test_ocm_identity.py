from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

from cryptography import x509

from umbel.model.federation import Federation
from umbel.targets.ocm import identity
from umbel.targets.ocm.identity import Identity, Secrets, Wanted, settle
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.pods import Object

NAMES = Names("fl", "lab")


def document(users: tuple[str, ...] = (), rotation: str = "") -> Federation:
    notes = {identity.ROTATE: rotation} if rotation else {}
    people = [{"name": user, "role": "viewer"} for user in users]
    return Federation.model_validate(
        {
            "metadata": {"name": "lab", "namespace": "fl", "annotations": notes},
            "spec": {"superlink": {"on": "ocm"}, "security": {"users": people}},
        }
    )


def wanted(federation: Federation, hosts: tuple[str, ...] = (), *, spread: bool = False) -> Wanted:
    return Wanted(federation, NAMES, hosts, "umbel-system", spread)


def kept(made: Identity) -> Secrets:
    """What the cluster gives back of what was written to it."""
    shown = dict.fromkeys(made.secrets.tokens, made.bundle.encode())
    return Secrets(made.secrets.authority, made.secrets.gate, made.secrets.tokens, shown)


def names_of(objects: list[Object]) -> list[tuple[str, str]]:
    return [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in objects]


def leaf_of(made: Identity) -> x509.Certificate:
    return x509.load_pem_x509_certificate(made.secrets.gate["server.crt"])


def trusted(made: Identity) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(made.bundle.encode())


def test_the_first_look_makes_everything_and_the_ca_stays_with_the_operator() -> None:
    made, objects = settle(wanted(document(users=("ann",)), ("fl.example.org",)), Secrets())
    assert names_of(objects) == [
        ("umbel-system", NAMES.authority_secret),
        ("fl", "lab-gate"),
        ("fl", "lab-user-owner"),
        ("fl", "lab-user-ann"),
    ]
    assert all(b"PRIVATE KEY" not in value for value in made.secrets.tokens.values())
    said = leaf_of(made).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    dns = said.get_values_for_type(x509.DNSName)
    assert {"fl.example.org", "lab.fl.svc", "localhost"} <= set(dns)
    leaf_of(made).verify_directly_issued_by(trusted(made)[0])


def test_a_second_look_writes_nothing() -> None:
    made, _ = settle(wanted(document(users=("ann",))), Secrets())
    again, objects = settle(wanted(document(users=("ann",))), kept(made))
    assert objects == []
    assert again.secrets.authority == made.secrets.authority
    assert again.bundle == made.bundle


def test_another_name_is_another_certificate_by_the_same_ca() -> None:
    made, _ = settle(wanted(document()), Secrets())
    moved, objects = settle(wanted(document(), ("new.example.org",)), kept(made))
    assert names_of(objects) == [("fl", "lab-gate")]
    assert trusted(moved) == trusted(made)


def test_a_user_who_is_gone_is_not_known_any_more() -> None:
    made, _ = settle(wanted(document(users=("ann",))), Secrets())
    without, objects = settle(wanted(document()), kept(made))
    assert names_of(objects) == [("fl", "lab-gate")]
    assert b"ann" not in without.secrets.gate["users.json"]


def test_a_ca_changes_in_three_steps_each_when_everybody_has_the_one_before() -> None:
    asked = document(rotation="one")
    first, _ = settle(wanted(document()), Secrets())
    (old,) = trusted(first)

    coming, objects = settle(wanted(asked), kept(first))
    assert trusted(coming)[0] == old
    assert len(trusted(coming)) == 2
    leaf_of(coming).verify_directly_issued_by(old)
    assert ("umbel-system", NAMES.authority_secret) in names_of(objects)

    waiting, objects = settle(wanted(asked), kept(coming))
    assert waiting.bundle == coming.bundle
    assert objects == []

    signing, _ = settle(wanted(asked, spread=True), kept(coming))
    new = trusted(signing)[0]
    assert set(trusted(signing)) == {old, new} == set(trusted(coming))
    leaf_of(signing).verify_directly_issued_by(new)

    still, _ = settle(wanted(asked), kept(signing))
    assert len(trusted(still)) == 2

    done, objects = settle(wanted(asked, spread=True), kept(signing))
    assert trusted(done) == [new]
    assert done.changing == ""
    assert ("fl", "lab-user-owner") in names_of(objects), "people trust the new CA alone, too"

    assert settle(wanted(asked, spread=True), kept(done))[1] == []


def test_a_change_that_was_made_is_not_made_again_and_another_value_asks_anew() -> None:
    asked = document(rotation="one")
    held, _ = settle(wanted(document()), Secrets())
    for _ in range(3):
        held, _ = settle(wanted(asked, spread=True), kept(held))
    assert held.changing == ""
    (now,) = trusted(held)
    again, _ = settle(wanted(asked, spread=True), kept(held))
    assert trusted(again) == [now]
    other, _ = settle(wanted(document(rotation="two")), kept(held))
    assert len(trusted(other)) == 2


def test_how_long_the_present_trust_is_published_is_kept_with_the_ca() -> None:
    made, _ = settle(wanted(document()), Secrets())
    assert identity.spread_for_s(Secrets()) == 0
    mark, _, _ = made.secrets.authority[identity.SINCE].decode().partition(" ")
    before = (datetime.now(UTC) - timedelta(seconds=90)).isoformat(timespec="seconds")
    aged = {**made.secrets.authority, identity.SINCE: f"{mark} {before}".encode()}
    assert identity.spread_for_s(Secrets(aged)) >= 90
    later, _ = settle(wanted(document()), Secrets(aged, made.secrets.gate, made.secrets.tokens))
    assert later.secrets.authority[identity.SINCE] == aged[identity.SINCE]


def test_a_secret_is_read_as_it_was_written() -> None:
    secret = {"data": {"token": base64.b64encode(b"x").decode()}}
    assert identity.read(secret) == {"token": b"x"}
    assert identity.read(None) == {}
