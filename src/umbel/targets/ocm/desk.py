"""Asks a hub's desk, through its gate: who is there, who may come in, whether a round runs."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from umbel.errors import RequestError
from umbel.gate.refusals import AnswerOdd, broken, refusal
from umbel.model.status import Admission, FederationStatus, NodeSeen, Rounds, RunStatus

T = TypeVar("T")

TIMEOUT_S = 30.0
CONNECT_S = 5.0  # where nothing answers, others are not kept waiting
REGISTERING_S = 120.0  # a thousand new sites take a while
_ALL = "/v1/federations"


class AuthorityUnusable(RequestError):
    """What should be a CA certificate is none."""

    code = "U358"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the CA certificate for the gate at {address} cannot be read",
            hint="it must be in PEM form; applying the federation again makes it anew",
        )


# Hub and operator may be of different versions: keys that we do not know are dropped.
_NODES = TypeAdapter(list[NodeSeen])
_RUNS = TypeAdapter(list[RunStatus])
_ROUNDS = TypeAdapter(Rounds)
_ADMISSION = TypeAdapter(Admission)


class DeskClient:
    """One hub's desk. Kept open for as long as its federation is looked after."""

    def __init__(self, address: str, ca: bytes, token: str, *, federation: str = "") -> None:
        self._address = address
        self._federation = federation
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            trust.load_verify_locations(cadata=ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise AuthorityUnusable(address) from error
        self._http = httpx.AsyncClient(
            base_url=f"https://{address}",
            headers={"authorization": f"Bearer {token}"},
            verify=trust,
            trust_env=False,  # neither proxies nor other authorities of the environment
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the conversation."""
        await self._http.aclose()

    async def nodes(self) -> list[NodeSeen]:
        """List the SuperNodes that the SuperLink knows."""
        return self._read(_NODES, await self._ask("GET", "/nodes"))

    async def runs(self) -> list[RunStatus]:
        """List the runs, newest first."""
        return self._read(_RUNS, await self._ask("GET", "/runs"))

    async def rounds(self, *, wait_s: float = 0.0) -> Rounds:
        """Say whether a round is under way; wait so long for a moment when none is."""
        told = await self._ask("GET", f"/rounds?wait={wait_s:g}", timeout_s=wait_s + TIMEOUT_S)
        return self._read(_ROUNDS, told)

    async def put_sites(
        self, sites: Mapping[str, str], apps: Mapping[str, Sequence[str]] | None = None
    ) -> Admission:
        """Let exactly these sites (names to public keys) in; apps with environments run there."""
        order: dict[str, Any] = {"sites": dict(sites)} | ({"apps": dict(apps)} if apps else {})
        told = await self._ask("PUT", "/sites", order, timeout_s=REGISTERING_S)
        return self._read(_ADMISSION, told)

    async def put_status(self, status: FederationStatus) -> None:
        """Leave a status at the desk, for who asks."""
        await self._ask("PUT", "/status", asdict(status))

    async def _ask(
        self, method: str, path: str, order: Any = None, *, timeout_s: float = TIMEOUT_S
    ) -> Any:
        name = quote(await self._name(), safe="")
        return await self._send(method, f"{_ALL}/{name}{path}", order, timeout_s)

    def _read(self, form: TypeAdapter[T], told: Any) -> T:
        try:
            return form.validate_python(told)
        except ValidationError as error:
            raise AnswerOdd(self._address, "it is of another form") from error

    async def _name(self) -> str:
        """Find out which federation it is, once: a desk knows one."""
        if not self._federation:
            known = await self._send("GET", _ALL, None, TIMEOUT_S)
            try:
                self._federation = str(known[0]["metadata"]["name"])
            except (LookupError, TypeError) as error:
                raise AnswerOdd(self._address, "it names no federation") from error
        return self._federation

    async def _send(self, method: str, path: str, order: Any, timeout_s: float) -> Any:
        try:
            limit = httpx.Timeout(timeout_s, connect=CONNECT_S)
            answer = await self._http.request(method, path, json=order, timeout=limit)
        except httpx.HTTPError as error:
            raise broken(self._address, error) from error
        if not answer.is_success:
            raise refusal(self._address, answer.status_code, answer.content)
        try:
            return answer.json()
        except ValueError as error:
            raise AnswerOdd(self._address, "it is not JSON") from error
