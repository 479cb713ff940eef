from __future__ import annotations

import pytest

from umbel.flower.routes import ROUTES, Api
from umbel.gate.credentials import Person
from umbel.gate.desk import PAGES, ROLE, USER, Page, page_of
from umbel.gate.head import parse
from umbel.gate.policy import Decision, Policy
from umbel.gate.proof import Proofs
from umbel.model.role import Role

ONE = "/v1/federations/lab"
NO_PAGES = (
    "/v1/",
    "/v1/versions",
    "/v1/version/",
    "/v1/control/list-runs",
    "/v1/federations/",
    "/v1/federations//runs",
    f"{ONE}/plan",
    f"{ONE}/runs/1/2",
    f"{ONE}%2Fruns",
    f"{ONE}%2fruns",
    f"{ONE}/runs/1%00",
    f"{ONE}/runs?site=<script>",
    f"{ONE}/runs#part",
    "/healthz",
    "//v1/version",
    "http://elsewhere/v1/version",
)


class Known:
    """Knows one person of each role."""

    sites_known = True

    def person(self, token: str) -> Person | None:
        role = token.removesuffix("-token")
        return Person(f"the-{role}", Role(role), "") if role in list(Role) else None

    def site(self, fingerprint: str) -> str | None:
        raise AssertionError(fingerprint)


def decide(
    method: str, target: str, who: str = "", *, api: Api = Api.CONTROL, has_desk: bool = True
) -> Decision:
    lines = [f"{method} {target} HTTP/1.1", "host: x"]
    if who:
        lines.append(f"authorization: Bearer {who}-token")
    head = parse("\r\n".join([*lines, "", ""]).encode(), count=10)
    return Policy(Known(), Proofs(), has_desk=has_desk).decide(api, head, 0.0)


def written(page: Page) -> str:
    """Give a path that asks for the page."""
    filled = page.path.replace("{name}", "lab").replace("{run}", "123")
    return filled.replace("{path:path}", "out/model.npz")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
@pytest.mark.parametrize("role", list(Role))
def test_a_page_opens_to_its_role_and_those_above(page: Page, role: Role) -> None:
    decision = decide(page.method, written(page), role)
    assert decision.what == page.title
    assert decision.who == f"user:the-{role}"
    if role.reaches(page.role):
        assert decision.allowed
        assert decision.at_desk == Person(f"the-{role}", role, "")
    else:
        assert (decision.status, decision.why) == (403, f"needs the role {page.role}")


def test_looking_is_for_viewers_runs_for_operators_and_changing_for_admins() -> None:
    least = {"GET": Role.VIEWER, "POST": Role.OPERATOR, "PUT": Role.ADMIN}
    assert {page.title: page.role for page in PAGES} == {p.title: least[p.method] for p in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
@pytest.mark.parametrize("who", ["", "unknown"])
def test_a_stranger_is_told_what_every_stranger_is_told(page: Page, who: str) -> None:
    decision = decide(page.method, written(page), who)
    assert (decision.who, decision.status, decision.at_desk) == ("stranger", 401, None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_without_a_desk_there_are_no_pages(page: Page) -> None:
    decision = decide(page.method, written(page), "admin", has_desk=False)
    assert (decision.what, decision.status) == ("unknown route", 401)


@pytest.mark.parametrize("api", [Api.FLEET, Api.RUNTIME])
def test_the_other_doors_have_no_desk(api: Api) -> None:
    assert decide("GET", "/v1/version", "admin", api=api).status == 401


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_other_methods_find_nothing(method: str) -> None:
    assert decide(method, ONE, "admin").status == 401


@pytest.mark.parametrize("target", NO_PAGES)
def test_what_is_no_page_is_refused_even_to_an_admin(target: str) -> None:
    assert page_of("GET", target) is None
    assert decide("GET", target, "admin").status == 401


def test_flowers_own_routes_go_to_the_superlink_as_before() -> None:
    for route in ROUTES:
        if route.api is Api.CONTROL and route.role is not None:
            decision = decide("POST", route.path, "admin")
            assert decision.allowed
            assert decision.at_desk is None


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (f"{ONE}/runs/12/files/a/b%20c.npz", "file"),
        (f"{ONE}/runs/12/logs?site=all&follow=1", "logs"),
        (f"{ONE}/rounds?wait=2.5", "rounds"),
        (f"{ONE}/runs/no%20number", "run"),
    ],
)
def test_paths_and_queries_may_be_escaped(target: str, name: str) -> None:
    page = page_of("GET", target)
    assert page is not None
    assert page.name == name


def test_who_speaks_is_said_by_the_gate_and_never_by_the_client() -> None:
    raw = (
        b"PUT /v1/federations/lab/sites HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n"
        b"umbel-user: root\r\nUmbel-Role: admin\r\nauthorization: Bearer secret\r\n"
        b"flwr-task-token: 1\r\ncontent-type: application/json\r\n\r\n"
    )
    head = parse(raw, count=20).for_desk({USER: "nora", ROLE: "viewer"})
    assert head.for_upstream().decode().split("\r\n") == [
        "PUT /v1/federations/lab/sites HTTP/1.1",
        "host: umbel",
        "content-length: 2",
        "content-type: application/json",
        "umbel-user: nora",
        "umbel-role: viewer",
        "",
        "",
    ]
