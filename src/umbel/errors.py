"""Every error a person can see: a code, the fact, and a hint what to do.

One class an error, one code a class, codes are never reused. `docs/errors/` has a page for each.

    UmbelError
    ├── DocumentError      U1xx  the document is wrong
    ├── WorldError         U2xx  the machine, the network or Flower is not as needed
    ├── RequestError       U3xx  asked for something that is not there or not allowed
    └── SecurityError      U4xx  identity, keys, certificates, tokens
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class UmbelError(Exception):
    """The base of all that is told to a person: never raised itself."""

    code: ClassVar[str] = ""
    exit_status: ClassVar[int] = 1

    def __init__(self, fact: str, *, hint: str = "") -> None:
        super().__init__(fact)
        self.fact = fact
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.code} {self.fact}"

    def as_problem(self) -> dict[str, Any]:
        """Give the error as the members of an RFC 9457 problem."""
        return {
            "type": f"https://umbel.dev/errors/{self.code}",
            "title": getattr(self, "title", type(self).__name__),
            "code": self.code,
            "detail": self.fact,
            "hint": self.hint,
            "exit": self.exit_status,
        }


class DocumentError(UmbelError):
    """The document is wrong."""

    exit_status = 2


class WorldError(UmbelError):
    """The machine, the network or Flower is not as needed."""


class RequestError(UmbelError):
    """Somebody asked for something that is not there or not allowed."""

    exit_status = 2


class SecurityError(UmbelError):
    """Identity, keys, certificates or tokens are not in order."""


class Relayed(UmbelError):
    """An error that another process of ours met: the same words, told here."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail", "")), hint=str(problem.get("hint", "")))
        self.title = str(problem.get("title", ""))
        self.code = str(problem.get("code", ""))  # type: ignore[misc]  # its own, not the class's
        self.exit_status = int(problem.get("exit", 1))  # type: ignore[misc]
