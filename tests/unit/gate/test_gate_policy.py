from __future__ import annotations

import hashlib
from base64 import b64encode
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from umbel.flower.routes import BY_PATH, ROUTES, Api, Route
from umbel.gate.credentials import Person
from umbel.gate.head import Head
from umbel.gate.policy import Decision, Policy
from umbel.gate.proof import Proofs
from umbel.model.role import Role

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
TASK = {"flwr-task-token": "a0" * 128}
EXECUTOR = {
    "flwr-superexec-ts": "1772366400",
    "flwr-superexec-nonce": "0" * 32,
    "flwr-superexec-body-sha256": "0" * 64,
    "flwr-superexec-signature": "0" * 64,
}


class Known:
    """Knows who it is told to know."""

    def __init__(self, *, current: bool = True) -> None:
        self.sites: dict[str, str] = {}
        self.people = {f"{role}-token": Person(f"the-{role}", role, "") for role in Role}
        self.sites_known = current
        self.asked: list[str] = []

    def person(self, token: str) -> Person | None:
        return self.people.get(token)

    def site(self, fingerprint: str) -> str | None:
        self.asked.append(fingerprint)
        return self.sites.get(fingerprint)


class Signer:
    def __init__(self, curve: ec.EllipticCurve | None = None) -> None:
        self.key = ec.generate_private_key(curve or ec.SECP256R1())
        public = self.key.public_key()
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        self.pem = public.public_bytes(serialization.Encoding.PEM, spki)
        der = public.public_bytes(serialization.Encoding.DER, spki)
        self.fingerprint = hashlib.sha256(der).hexdigest()

    def fields(self, age: float = 0.0) -> dict[str, str]:
        timestamp = datetime.fromtimestamp(NOW - age, UTC).isoformat()
        signature = self.key.sign(timestamp.encode(), ec.ECDSA(hashes.SHA256()))
        return {
            "flwr-public-key": b64encode(self.pem).decode(),
            "flwr-timestamp": timestamp,
            "flwr-signature": b64encode(signature).decode(),
        }


@pytest.fixture
def known() -> Known:
    return Known()


@pytest.fixture
def signer(known: Known) -> Signer:
    signer = Signer()
    known.sites[signer.fingerprint] = "north"
    return signer


def decide(
    known: Known, api: Api, target: str, fields: dict[str, str], method: str = "POST"
) -> Decision:
    return Policy(known, Proofs()).decide(api, Head(method, target, fields=fields), NOW)


def credentials(api: Api, route: Route, signer: Signer) -> dict[str, str]:
    """What the most powerful caller of an API shows."""
    match api:
        case Api.FLEET:
            return signer.fields()
        case Api.CONTROL:
            return {"authorization": "Bearer admin-token"}
        case Api.RUNTIME:
            return EXECUTOR if route.name == "acquire-task" else TASK


@pytest.mark.parametrize("api", list(Api))
def test_every_route_opens_on_its_own_door_and_no_other(
    api: Api, known: Known, signer: Signer
) -> None:
    everything = signer.fields() | EXECUTOR | TASK | {"authorization": "Bearer admin-token"}
    for route in ROUTES:
        decision = decide(known, api, route.path, everything)
        login = route.api is Api.CONTROL and route.role is None
        assert decision.allowed is (route.api is api and not login), route
        if not decision.allowed:
            assert decision.status == 401


@pytest.mark.parametrize("api", list(Api))
def test_without_a_credential_every_path_is_refused_alike(api: Api, known: Known) -> None:
    targets = [r.path for r in ROUTES] + ["/", "/health", "/docs", "/openapi.json", "*", ""]
    decisions = [decide(known, api, target, {}) for target in targets]
    assert {(d.who, d.status) for d in decisions} == {("stranger", 401)}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("api", list(Api))
def test_only_post_is_let_through(method: str, api: Api, known: Known, signer: Signer) -> None:
    for route in BY_PATH[api].values():
        fields = credentials(api, route, signer)
        assert decide(known, api, route.path, fields, method).status == 401


@pytest.mark.parametrize(
    "target",
    [
        "/v1/fleet/get-run/",
        "/v1/fleet//get-run",
        "//v1/fleet/get-run",
        "/v1/fleet/get-run?",
        "/v1/fleet/get-run?a=b",
        "/v1/fleet/get-run#x",
        "/v1/fleet/get%2Drun",
        "/v1/fleet/./get-run",
        "/v1/control/../fleet/get-run",
        "/V1/fleet/get-run",
        "http://x/v1/fleet/get-run",
        "v1/fleet/get-run",
    ],
)
def test_a_path_is_taken_literally(target: str, known: Known, signer: Signer) -> None:
    assert decide(known, Api.FLEET, target, signer.fields()).status == 401


# People


@pytest.mark.parametrize("role", list(Role))
def test_a_role_reaches_what_it_should_and_no_more(role: Role, known: Known) -> None:
    order = list(Role)
    for route in BY_PATH[Api.CONTROL].values():
        decision = decide(known, Api.CONTROL, route.path, {"authorization": f"Bearer {role}-token"})
        assert decision.who == f"user:the-{role}"
        if route.role is None:
            assert decision.status == 401
        elif order.index(role) < order.index(route.role):
            assert (decision.status, decision.why) == (403, f"needs the role {route.role}")
        else:
            assert decision.allowed


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "bearer x",
        "Basic admin-token",
        "admin-token",
        "Bearer  admin-token",
    ],
)
def test_a_wrong_authorization_is_a_strangers(value: str, known: Known) -> None:
    decision = decide(known, Api.CONTROL, "/v1/control/list-runs", {"authorization": value})
    assert (decision.who, decision.status) == ("stranger", 401)


def test_a_user_learns_nothing_about_unknown_paths(known: Known) -> None:
    decision = decide(
        known, Api.CONTROL, "/v1/control/no-such", {"authorization": "Bearer viewer-token"}
    )
    assert (decision.status, decision.what) == (401, "unknown route")


# Sites


def test_a_site_is_known_by_its_key(known: Known, signer: Signer) -> None:
    decision = decide(known, Api.FLEET, "/v1/fleet/pull-messages", signer.fields())
    assert decision == Decision("site:north", "fleet/pull-messages")


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_all_curves_of_flower_are_checked(curve: ec.EllipticCurve, known: Known) -> None:
    signer = Signer(curve)
    known.sites[signer.fingerprint] = "north"
    assert decide(known, Api.FLEET, "/v1/fleet/get-run", signer.fields()).allowed


@pytest.mark.parametrize("age", [-4.0, 0.0, 300.0, 304.0])
def test_a_time_within_the_window_passes(age: float, known: Known, signer: Signer) -> None:
    assert decide(known, Api.FLEET, "/v1/fleet/get-run", signer.fields(age)).allowed


@pytest.mark.parametrize(
    ("age", "why"), [(-5.0, "5 s ahead"), (-3600.0, "3600 s ahead"), (305.0, "305 s behind")]
)
def test_a_wrong_clock_is_refused_and_named(
    age: float, why: str, known: Known, signer: Signer
) -> None:
    decision = decide(known, Api.FLEET, "/v1/fleet/get-run", signer.fields(age))
    assert (decision.who, decision.status) == ("stranger", 401)
    assert decision.why == f"the clock of north is {why}"


@pytest.mark.parametrize("name", ["flwr-public-key", "flwr-timestamp", "flwr-signature"])
@pytest.mark.parametrize("value", [None, "", "x", "%%%", b64encode(b"x" * 70).decode()])
def test_each_part_of_the_claim_counts(
    name: str, value: str | None, known: Known, signer: Signer
) -> None:
    fields = signer.fields()
    del fields[name]
    if value is not None:
        fields[name] = value
    assert decide(known, Api.FLEET, "/v1/fleet/get-run", fields).status == 401


def test_a_signature_by_another_key_is_refused(known: Known, signer: Signer) -> None:
    fields = signer.fields() | {"flwr-signature": Signer().fields()["flwr-signature"]}
    decision = decide(known, Api.FLEET, "/v1/fleet/get-run", fields)
    assert decision.why == "wrong signature with the key of north"


def test_a_signature_over_another_time_is_refused(known: Known, signer: Signer) -> None:
    fields = signer.fields() | {"flwr-timestamp": signer.fields(age=1)["flwr-timestamp"]}
    assert decide(known, Api.FLEET, "/v1/fleet/get-run", fields).status == 401


def test_a_time_without_a_zone_is_refused(known: Known, signer: Signer) -> None:
    fields = signer.fields() | {"flwr-timestamp": "2026-03-01T12:00:00"}
    assert decide(known, Api.FLEET, "/v1/fleet/get-run", fields).status == 401


def test_an_unknown_key_is_a_strangers(known: Known) -> None:
    decision = decide(known, Api.FLEET, "/v1/fleet/get-run", Signer().fields())
    assert (decision.who, decision.status, decision.why) == ("stranger", 401, "unknown site key")


def test_a_key_that_cannot_sign_so_is_refused(known: Known) -> None:
    public = ed25519.Ed25519PrivateKey.generate().public_key()
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    der = public.public_bytes(serialization.Encoding.DER, spki)
    known.sites[hashlib.sha256(der).hexdigest()] = "north"
    pem = public.public_bytes(serialization.Encoding.PEM, spki)
    fields = Signer().fields() | {"flwr-public-key": b64encode(pem).decode()}
    assert decide(known, Api.FLEET, "/v1/fleet/get-run", fields).status == 401


def test_a_site_is_not_sent_away_while_the_list_is_unreadable() -> None:
    decision = decide(Known(current=False), Api.FLEET, "/v1/fleet/get-run", Signer().fields())
    assert decision.status == 503


def test_a_site_that_was_removed_is_refused_though_its_proof_is_remembered(
    known: Known, signer: Signer
) -> None:
    policy = Policy(known, Proofs())
    head = Head("POST", "/v1/fleet/get-run", fields=signer.fields())
    assert policy.decide(Api.FLEET, head, NOW).allowed
    assert policy.decide(Api.FLEET, head, NOW + 300).allowed
    assert not policy.decide(Api.FLEET, head, NOW + 306).allowed
    known.sites.clear()
    assert not policy.decide(Api.FLEET, head, NOW).allowed


# Tasks


@pytest.mark.parametrize(
    "token", ["", "a0" * 127, "a0" * 129, "g0" * 128, "a0" * 127 + "a ", "a0" * 128 + ",b"]
)
def test_a_task_token_has_256_hex_digits(token: str, known: Known) -> None:
    fields = {"flwr-task-token": token}
    assert decide(known, Api.RUNTIME, "/v1/runtime/get-nodes", fields).status == 401


def test_a_task_token_does_not_get_tasks(known: Known) -> None:
    assert decide(known, Api.RUNTIME, "/v1/runtime/acquire-task", TASK).status == 401
    assert decide(known, Api.RUNTIME, "/v1/runtime/get-nodes", EXECUTOR).status == 401


@pytest.mark.parametrize("name", list(EXECUTOR))
@pytest.mark.parametrize("value", ["", "zz", "0" * 65])
def test_an_executor_shows_all_its_headers(name: str, value: str, known: Known) -> None:
    fields = EXECUTOR | {name: value}
    assert decide(known, Api.RUNTIME, "/v1/runtime/acquire-task", fields).status == 401
    assert decide(known, Api.RUNTIME, "/v1/runtime/acquire-task", EXECUTOR).allowed
