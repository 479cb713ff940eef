"""What who calls a federation through its gate may meet, in words."""

from __future__ import annotations

import json
import ssl
from typing import Any

from umbel.errors import Relayed, RequestError, UmbelError, WorldError

REFUSED, NOT_ALLOWED, THROTTLED = 401, 403, 429


class HubUnreachable(WorldError):
    """Nobody answers where the federation should be."""

    code = "U248"

    def __init__(self, address: str, why: str) -> None:
        super().__init__(
            f"the federation at {address} does not answer: {why}",
            hint="check the address and the network between; a hub that restarts is back in seconds",
        )


class HubUntrusted(RequestError):
    """Who answers there cannot show a certificate of the federation's authority."""

    code = "U350"

    def __init__(self, address: str, why: str) -> None:
        super().__init__(
            f"who answers at {address} is not to be trusted: {why}",
            hint="take the CA certificate from whoever runs the federation, by a way you trust, and "
            "the address that its certificate names; nothing was sent",
        )


class TokenRefused(RequestError):
    """The gate does not know the token."""

    code = "U351"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the gate at {address} does not take the token",
            hint="ask whoever runs the federation for a new one: it may have been revoked, or be of "
            "another federation; or this is the address of one that has no desk",
        )


class RoleTooSmall(RequestError):
    """The user is known, but may not do this."""

    code = "U352"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the token's user may not do this: {why}",
            hint="roles are given in spec.security.users; an admin can change yours",
        )


class AnswerOdd(WorldError):
    """The answer is not one of ours."""

    code = "U249"

    def __init__(self, address: str, why: str) -> None:
        super().__init__(
            f"the answer of {address} cannot be read: {why}",
            hint="the address must be that of the gate's control door, and both sides of one version",
        )


def refusal(address: str, status: int, body: bytes) -> UmbelError:
    """Say what an answer that is no success means."""
    try:
        data: Any = json.loads(body)
    except ValueError:
        data = None
    told = data if isinstance(data, dict) else {}
    if "code" in told and "detail" in told:
        return Relayed(told)
    message = str(told.get("message") or f"answer {status}")
    if status == REFUSED:
        return TokenRefused(address)
    if status == NOT_ALLOWED:
        return RoleTooSmall(message)
    if status in (THROTTLED, 502, 503, 504):
        return HubUnreachable(address, message)
    return AnswerOdd(address, message)


def broken(address: str, error: BaseException) -> UmbelError:
    """Say what a connection that failed means; the first cause counts."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return HubUntrusted(address, getattr(cause, "verify_message", "") or str(cause))
        if isinstance(cause, ssl.SSLError):
            return HubUnreachable(
                address, getattr(cause, "reason", "") or "the TLS handshake failed"
            )
        cause = cause.__cause__ or cause.__context__
    words = getattr(error, "strerror", None) or str(error)
    return HubUnreachable(address, words or type(error).__name__)
