"""The answers that the gate gives itself. One of them, always the same, for every stranger."""

from __future__ import annotations

import json
from functools import lru_cache
from http import HTTPStatus

JSON = "content-type: application/json"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_MESSAGES = {
    401: "refused",
    403: "not allowed",
    413: "the request is too large",
    429: "too many failures, try again in a minute",
    502: "the connection behind the gate broke",
    503: "not available, try again",
}


@lru_cache
def status_line(status: int) -> str:
    """Give the first line of an answer."""
    try:
        return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP/1.1 {status} "


def answer(status: int, *, keeps: bool = False, message: str = "") -> bytes:
    """Write a whole answer with a JSON body as Flower's clients read it."""
    body = json.dumps(
        {"code": status, "message": message or _MESSAGES[status]}, separators=(",", ":")
    )
    lines = [status_line(status), JSON, f"content-length: {len(body)}"]
    if status in (429, 503):
        lines.append("retry-after: 60" if status == 429 else "retry-after: 1")  # noqa: PLR2004
    if not keeps:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("ascii")
