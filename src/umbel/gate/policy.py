"""Who may do what. Pure: a head, what is known and the time go in, a decision comes out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from umbel.flower.routes import BY_PATH, Api, Route
from umbel.gate.credentials import Person
from umbel.gate.desk import Page, page_of
from umbel.gate.head import Head
from umbel.gate.proof import KEY, NEWEST_S, OLDEST_S, SIGNATURE, TIMESTAMP, Claim, Proofs, age_s
from umbel.model.role import Role

STRANGER = "stranger"
NO_ROUTE = "unknown route"

_TASK_TOKEN = re.compile(r"[0-9A-Fa-f]{256}")
_SUPEREXEC = {
    "flwr-superexec-ts": re.compile(r"[0-9]{1,12}"),
    "flwr-superexec-nonce": re.compile(r"[0-9a-f]{32}"),
    "flwr-superexec-body-sha256": re.compile(r"[0-9a-f]{64}"),
    "flwr-superexec-signature": re.compile(r"[0-9a-f]{64}"),
}
_REACHES = frozenset((has, needs) for has in Role for needs in Role if has.reaches(needs))


class Known(Protocol):
    """What the policy asks about people and sites."""

    @property
    def sites_known(self) -> bool:
        """Whether the list of sites is the current one."""

    def person(self, token: str) -> Person | None:
        """Find who holds the token."""

    def site(self, fingerprint: str) -> str | None:
        """Find the site with this key."""


class Decision(NamedTuple):
    """Whether a request goes on. `why` is for the audit log; a stranger never reads it."""

    who: str
    what: str
    status: int = 0  # of the refusal; 0 lets the request pass
    why: str = ""
    at_desk: Person | None = None  # who speaks to the desk; None: it is for the SuperLink

    @property
    def allowed(self) -> bool:
        """Whether the request goes on."""
        return self.status == 0


class _Caller(NamedTuple):
    """Who is speaking; `why` and `status` say why that is not known."""

    who: str = STRANGER
    why: str = ""
    status: int = 401
    person: Person | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Decides about requests, given who is known."""

    known: Known
    proofs: Proofs
    has_desk: bool = False

    def decide(self, api: Api, head: Head, now: float) -> Decision:
        """Decide about one request; `now` is in seconds since the epoch."""
        route = BY_PATH[api].get(head.target) if head.method == "POST" else None
        page = None
        if route is None and self.has_desk and api is Api.CONTROL:
            page = page_of(head.method, head.target)
        goal = route or page
        what = goal.title if goal else NO_ROUTE
        caller = self._caller(api, head, route, now)
        if caller.who == STRANGER:
            return Decision(STRANGER, what, caller.status, caller.why)
        if goal is None:
            return Decision(caller.who, what, 401, NO_ROUTE)
        if caller.person is None:
            return Decision(caller.who, what)
        return _by_role(caller.person, goal)

    def _caller(self, api: Api, head: Head, route: Route | None, now: float) -> _Caller:
        match api:
            case Api.FLEET:
                return self._site(head, now)
            case Api.CONTROL:
                return self._person(head)
            case Api.RUNTIME:
                return _task(head, route)

    def _person(self, head: Head) -> _Caller:
        scheme, _, token = head.fields.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return _Caller(why="no token")
        person = self.known.person(token)
        if person is None:
            return _Caller(why="unknown token")
        return _Caller(f"user:{person.name}", person=person)

    def _site(self, head: Head, now: float) -> _Caller:
        fields = head.fields
        if KEY not in fields or TIMESTAMP not in fields or SIGNATURE not in fields:
            return _Caller(why="no site key")
        claim = Claim(fields[KEY], fields[TIMESTAMP], fields[SIGNATURE])
        site = self.proofs.owner(claim.key, self.known.site)
        if site is None and not self.known.sites_known:
            # A site that gets 401 gives up; whether this is one cannot be told right now.
            return _Caller(why="the list of sites is unreadable", status=503)
        if site is None:
            return _Caller(why="unknown site key")
        return self._proven(site, claim, now)

    def _proven(self, site: str, claim: Claim, now: float) -> _Caller:
        age = age_s(claim.timestamp, now)
        if age is None:
            return _Caller(why=f"no valid time with the key of {site}")
        if not NEWEST_S < age < OLDEST_S:
            side = "behind" if age > 0 else "ahead"
            return _Caller(why=f"the clock of {site} is {abs(age):.0f} s {side}")
        if not self.proofs.holds(claim):
            return _Caller(why=f"wrong signature with the key of {site}")
        return _Caller(f"site:{site}")


def _task(head: Head, route: Route | None) -> _Caller:
    """Let pass what has the form of a credential; SuperLink checks what it says."""
    if route is not None and route.name == "acquire-task":
        if all(form.fullmatch(head.fields.get(name, "")) for name, form in _SUPEREXEC.items()):
            return _Caller("runtime")
        return _Caller(why="no executor signature")
    if _TASK_TOKEN.fullmatch(head.fields.get("flwr-task-token", "")):
        return _Caller("runtime")
    return _Caller(why="no task token")


def _by_role(person: Person, goal: Route | Page) -> Decision:
    who = f"user:{person.name}"
    if goal.role is None:
        return Decision(who, goal.title, 401, "login is not offered")
    if (person.role, goal.role) not in _REACHES:
        return Decision(who, goal.title, 403, f"needs the role {goal.role}")
    return Decision(who, goal.title, at_desk=person if isinstance(goal, Page) else None)
