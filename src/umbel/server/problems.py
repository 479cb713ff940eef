"""Errors as answers: RFC 9457 problems."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from umbel.errors import DocumentError, RequestError, UmbelError
from umbel.gate.refusals import RoleTooSmall


class OrderInvalid(RequestError):
    """What a request carries cannot be read."""

    code = "U355"

    def __init__(self, fact: str) -> None:
        super().__init__(
            f"the request cannot be carried out: {fact}",
            hint="the reference of the gate's routes and of the HTTP API lists what there is",
        )


_STATUSES: tuple[tuple[type[UmbelError], int], ...] = (
    (DocumentError, 422),
    (OrderInvalid, 422),
    (RoleTooSmall, 403),
    (RequestError, 404),
)


async def problem(_: Request, error: Exception) -> Response:
    """Tell an error of ours."""
    assert isinstance(error, UmbelError)  # noqa: S101  # registered for it
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 503)
    return JSONResponse(error.as_problem(), status, media_type="application/problem+json")


async def read_order(request: Request, most: int) -> dict[str, Any]:
    """Read a JSON object of at most so many bytes."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise OrderInvalid(f"it has more than {most >> 20} MiB")
    try:
        order = json.loads(body)
    except ValueError as error:
        raise OrderInvalid(f"it is not JSON: {error}") from error
    if not isinstance(order, dict):
        raise OrderInvalid("it is not a JSON object")
    return order
