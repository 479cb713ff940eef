"""The verbs of a federation far away, through its gate: TLS with its own CA, and a token."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import select
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlencode

from umbel.client import Conversation, Json, federation_path, run_path
from umbel.errors import Relayed, RequestError, UmbelError
from umbel.files import CannotWrite
from umbel.gate.refusals import AnswerOdd, HubUnreachable, broken, refusal

TIMEOUT_S = 60.0  # a stream says every few seconds that it lives
TRIES = 15  # about a minute
LONGEST_PAUSE_S = 5.0
PIECE = 256 * 1024
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")
_HUB_RESTARTS = ("U213", "U247")  # the desk answers, the SuperLink not yet


class AddressInvalid(RequestError):
    """The address is not HOST:PORT."""

    code = "U353"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"{address!r} is not an address",
            hint="give the gate's control door as HOST:PORT, such as fl.example.org:9093",
        )


class ConnectionDamaged(RequestError):
    """The files of a connection cannot be used."""

    code = "U354"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} cannot be used: {why}",
            hint="umbel connect NAME --address HOST:PORT --ca FILE --token-file FILE stores the "
            "connection again",
        )


class NameUnsafe(RequestError):
    """The hub names a file that would be written outside of the folder."""

    code = "U357"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the run's file {path!r} would be written elsewhere",
            hint="nothing was written for it; do not trust this hub",
        )


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a federation is, whom to trust there, and who we are. Files are read when used."""

    address: str
    ca: Path
    token_file: Path

    def place(self) -> tuple[str, int]:
        """Give host and port."""
        found = _ADDRESS.fullmatch(self.address)
        if found is None or not 0 < int(found[3]) < 1 << 16:
            raise AddressInvalid(self.address)
        return found[1] or found[2], int(found[3])

    def trust(self) -> ssl.SSLContext:
        """Trust the federation's own authority and nobody else's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(cafile=self.ca)
        except ssl.SSLError as error:
            raise ConnectionDamaged(self.ca, "it holds no certificate in PEM form") from error
        except OSError as error:
            raise ConnectionDamaged(self.ca, error.strerror or "cannot be read") from error
        return context

    def token(self) -> str:
        """Read the token."""
        try:
            token = self.token_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not a token"
            raise ConnectionDamaged(self.token_file, why) from error
        if not token or not token.isprintable() or " " in token:
            raise ConnectionDamaged(self.token_file, "it is not a token")
        return token


class RemoteClient(Conversation):
    """Speaks to the desk of a federation, through its gate."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self._place = remote.place()
        self._trust = remote.trust()

    def run(self, name: str, app: Path, config: Mapping[str, Any]) -> Json:
        """Build the app here, send it there."""
        from umbel.flower.control import build  # noqa: PLC0415  # Flower is slow to load

        fab, _ = build(app)
        order = {"fab": base64.b64encode(fab).decode("ascii"), "config": dict(config)}
        return self._call("POST", federation_path(name) + "/runs", json.dumps(order))

    def files(self, name: str, run: str) -> list[Json]:
        """List what a run left, with sizes."""
        found: list[Json] = self._call("GET", run_path(name, run) + "/files")
        return found

    def pull(self, name: str, run: str, into: Path) -> list[Path]:
        """Fetch what a run left into a folder; gives what was written."""
        written = []
        for item in self.files(name, run):
            path, size = str(item["path"]), int(item["size"])
            goal = into.joinpath(*_inside(path))
            try:
                goal.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CannotWrite(goal, error) from error
            self._download(f"{run_path(name, run)}/files/{quote(path)}", goal, size)
            written.append(goal)
        return written

    def nodes(self, name: str) -> list[Json]:
        """List the SuperNodes that the SuperLink knows."""
        found: list[Json] = self._call("GET", federation_path(name) + "/nodes")
        return found

    def put_sites(self, name: str, sites: Mapping[str, str]) -> Json:
        """Let exactly these sites (names to public keys) in from now on."""
        order = json.dumps({"sites": dict(sites)})
        return self._call("PUT", federation_path(name) + "/sites", order)

    def put_status(self, name: str, status: Mapping[str, Any]) -> None:
        """Leave a status at the desk, for who asks."""
        self._call("PUT", federation_path(name) + "/status", json.dumps(dict(status)))

    def rounds(self, name: str, *, wait_s: float = 0.0) -> Json:
        """Say whether a round is under way; wait so long for a moment when none is."""
        query = urlencode({"wait": min(wait_s, TIMEOUT_S / 2)})
        return self._call("GET", f"{federation_path(name)}/rounds?{query}")

    def _request(self, method: str, path: str, body: str | None = None) -> http.client.HTTPResponse:
        headers = {"authorization": f"Bearer {self.remote.token()}", "connection": "close"}
        if body is not None:
            headers["content-type"] = "application/json"
        host, port = self._place
        connection = http.client.HTTPSConnection(host, port, context=self._trust, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            if response.status >= 400:  # noqa: PLR2004
                raise refusal(self.remote.address, response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise broken(self.remote.address, error) from error
        return response

    def _broken(self, error: Exception) -> UmbelError:
        if isinstance(error, ValueError):
            return AnswerOdd(self.remote.address, "it is not JSON")
        return broken(self.remote.address, error)

    def _is_broken(self, error: UmbelError) -> bool:
        if isinstance(error, Relayed):
            return error.code in _HUB_RESTARTS
        return isinstance(error, HubUnreachable)

    def _mend(self, error: UmbelError | None, tries: int) -> None:
        """Give the hub time to come back; it has about a minute."""
        if tries >= TRIES:
            raise error or HubUnreachable(self.remote.address, "it tells no end of the run")
        select.select([], [], [], min(0.2 * 2**tries, LONGEST_PAUSE_S))

    def _download(self, path: str, goal: Path, size: int) -> None:
        """Write a file that is whole, or none."""
        response = self._request("GET", path)
        beside = goal.with_name(f".{goal.name}.part")
        left = size = int(response.headers.get("content-length") or size)
        try:
            with _new_file(beside) as file:
                while left and (piece := self._piece(response)):
                    file.write(piece)
                    left -= len(piece)
            if left:
                raise HubUnreachable(self.remote.address, f"it sent {size - left} of {size} bytes")
            beside.replace(goal)
        except OSError as error:
            raise CannotWrite(goal, error) from error
        finally:
            response.close()
            beside.unlink(missing_ok=True)

    def _piece(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read(PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(error) from error


def _inside(path: str) -> tuple[str, ...]:
    """Take a file's path apart; it must lead down."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts):
        raise NameUnsafe(path)
    return PurePosixPath(path).parts


def _new_file(path: Path) -> Any:
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    return os.fdopen(fd, "wb")
