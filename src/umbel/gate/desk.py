"""The desk's pages: what is asked of a federation as a whole, beside Flower's own calls.

One table for both: the gate knows by it who may ask, and the desk answers exactly these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from umbel.model.role import Role

USER, ROLE = "umbel-user", "umbel-role"  # who speaks, as the gate tells the desk

# A name may be escaped, but no escape makes a slash or ends a string.
_ONE = r"(?:[A-Za-z0-9._~-]|%(?!2[Ff]|00)[0-9A-Fa-f]{2}){1,128}"
_MANY = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%(?!2[Ff]|00)[0-9A-Fa-f]{2}){1,2048}"
_QUERY = re.compile(r"[A-Za-z0-9._~%&=+,:-]*")
_FORMS = {"{name}": _ONE, "{run}": _ONE, "{path:path}": _MANY}
_PART = re.compile(r"(\{[a-z:]+\})")


@dataclass(frozen=True)
class Page:
    """One thing to ask for. `role` is the least that a person needs."""

    name: str
    method: str
    path: str
    role: Role

    @property
    def title(self) -> str:
        """How the audit log names it."""
        return f"desk/{self.name}"

    @cached_property
    def form(self) -> re.Pattern[str]:
        """What a request's path must look like, wholly."""
        parts = _PART.split(self.path)
        return re.compile("".join(_FORMS.get(part) or re.escape(part) for part in parts))


_ALL = "/v1/federations"
_FEDERATION = f"{_ALL}/{{name}}"
_RUN = f"{_FEDERATION}/runs/{{run}}"

PAGES = (
    Page("version", "GET", "/v1/version", Role.VIEWER),
    Page("federations", "GET", _ALL, Role.VIEWER),
    Page("status", "GET", _FEDERATION, Role.VIEWER),
    Page("report", "PUT", f"{_FEDERATION}/status", Role.ADMIN),
    Page("nodes", "GET", f"{_FEDERATION}/nodes", Role.VIEWER),
    Page("sites", "PUT", f"{_FEDERATION}/sites", Role.ADMIN),
    Page("rounds", "GET", f"{_FEDERATION}/rounds", Role.VIEWER),
    Page("runs", "GET", f"{_FEDERATION}/runs", Role.VIEWER),
    Page("start", "POST", f"{_FEDERATION}/runs", Role.OPERATOR),
    Page("run", "GET", _RUN, Role.VIEWER),
    Page("events", "GET", f"{_RUN}/events", Role.VIEWER),
    Page("logs", "GET", f"{_RUN}/logs", Role.VIEWER),
    Page("stop", "POST", f"{_RUN}/stop", Role.OPERATOR),
    Page("files", "GET", f"{_RUN}/files", Role.VIEWER),
    Page("file", "GET", f"{_RUN}/files/{{path:path}}", Role.VIEWER),
)


def page_of(method: str, target: str) -> Page | None:
    """Find the page that a request asks for, if there is one."""
    path, _, query = target.partition("?")
    if not _QUERY.fullmatch(query):
        return None
    return next((p for p in PAGES if p.method == method and p.form.fullmatch(path)), None)
