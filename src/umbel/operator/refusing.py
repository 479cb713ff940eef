"""What a hub says of a document that only its writer can mend: told at once, not waited out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from umbel.errors import DocumentError, Relayed, UmbelError
from umbel.kube.client import KubeRefused

INVALID = 422
_CODED = re.compile(r"(U[0-9]{3}) (.*?)(?: Hint: (.*))?", re.DOTALL)
# Mistakes that are found where the federation is kept; those of the document itself are U1xx.
_MENDED_BY_HAND = frozenset({"U361", "U374", "U395", "U396", "U397"})


class DocumentRefused(DocumentError):
    """The hub's API server does not take the document."""

    code = "U153"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the hub does not take the document: {why}",
            hint="mend what it names; nothing was changed",
        )


def told(error: KubeRefused) -> UmbelError:
    """Give what the API server said about a document as an error of the document, if it is one."""
    if error.status != INVALID:
        return error
    return DocumentRefused(error.fact.partition(": ")[2] or error.fact)


def assert_waitable(status: Mapping[str, Any]) -> None:
    """Raise what an operator said, if waiting cannot help."""
    for condition in status.get("conditions") or ():
        found = _CODED.fullmatch(str(condition.get("message", "")))
        if condition.get("status") != "False" or found is None:
            continue
        code, fact, hint = found.groups()
        if code.startswith("U1") or code in _MENDED_BY_HAND:
            title = str(condition.get("reason", ""))
            raise Relayed(
                {"title": title, "code": code, "detail": fact, "hint": hint or "", "exit": 2}
            )
