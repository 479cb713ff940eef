"""Who is known: people by the hash of their token, sites by the fingerprint of their key."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from umbel.errors import UmbelError, WorldError
from umbel.model.role import Role

T = TypeVar("T")

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class RosterUnreadable(WorldError):
    """The file of users or sites cannot be used."""

    code = "U243"
    exit_status = 2

    def __init__(self, path: Path, fact: str) -> None:
        super().__init__(
            f"the gate cannot use {path}: {fact}",
            hint="umbel writes this file: repeat `umbel up`",
        )


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a token."""

    name: str
    role: Role
    sha256: str


class Watched(Generic[T]):
    """A file's content, read again when the file changed; a broken new one leaves the old."""

    def __init__(self, path: Path, parse: Callable[[Any], T]) -> None:
        self._path = path
        self._parse = parse
        self._stamp = self._look()
        self.value: T = self._read()
        self.fault: UmbelError | None = None

    def refresh(self) -> bool:
        """Read the file again if it changed; tell whether it did."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.value = self._read()
        except RosterUnreadable as error:
            self.fault = error
        else:
            self.fault = None
        return True

    def _look(self) -> tuple[int, ...]:
        try:
            seen = self._path.stat()
        except OSError:
            return ()
        return (seen.st_mtime_ns, seen.st_size, seen.st_ino)

    def _read(self) -> T:
        try:
            return self._parse(json.loads(self._path.read_bytes()))
        except OSError as error:
            raise RosterUnreadable(self._path, error.strerror or "it cannot be read") from error
        except (ValueError, KeyError, TypeError) as error:
            raise RosterUnreadable(self._path, "it is not of the expected form") from error


class Credentials:
    """The people and sites of a federation, as of now."""

    def __init__(self, users: Path, sites: Path) -> None:
        self._users = Watched(users, parse_people)
        self._sites = Watched(sites, parse_sites)

    @property
    def sites_known(self) -> bool:
        """Whether the list of sites is the current one: if not, a miss proves nothing."""
        return self._sites.fault is None

    def person(self, token: str) -> Person | None:
        """Find who holds the token; every entry is compared, each in constant time."""
        digest = hashlib.sha256(token.encode()).hexdigest()
        found = _match(self._users.value, digest)
        if found is None and self._users.refresh():
            found = _match(self._users.value, digest)
        return found

    def site(self, fingerprint: str) -> str | None:
        """Find the site with this key; a site that joined a moment ago is found too."""
        found = self._sites.value.get(fingerprint)
        if found is None and self._sites.refresh():
            found = self._sites.value.get(fingerprint)
        return found

    def refresh(self) -> list[UmbelError]:
        """Read again what changed, and give what is newly wrong with it."""
        files = (self._users, self._sites)
        return [file.fault for file in files if file.refresh() and file.fault]


def parse_people(data: Any) -> tuple[Person, ...]:
    """Read `[{"name", "role", "sha256"}]`."""
    return tuple(
        Person(_checked(item["name"], _NAME), Role(item["role"]), _checked(item["sha256"], _SHA256))
        for item in data
    )


def parse_sites(data: Any) -> Mapping[str, str]:
    """Read `{"<sha256 of the key's DER form>": {"site": name}}`."""
    return {
        _checked(fingerprint, _SHA256): _checked(item["site"], _NAME)
        for fingerprint, item in dict(data).items()
    }


def _checked(text: str, form: re.Pattern[str]) -> str:
    if not form.fullmatch(text):
        raise ValueError(text)
    return text


def _match(people: tuple[Person, ...], digest: str) -> Person | None:
    found = None
    for person in people:
        if hmac.compare_digest(person.sha256, digest):
            found = person
    return found
