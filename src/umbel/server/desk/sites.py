"""Lets exactly the wanted sites in: on the gate's list, and at the SuperLink."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from cryptography.hazmat.primitives import serialization

from umbel.errors import SecurityError
from umbel.files import ensure_private_folder, write_private
from umbel.flower.control import ControlRefused
from umbel.identity.node_keys import NodeKey, fingerprint
from umbel.identity.roster import KeyBound, Roster
from umbel.model.status import Admission, NodeSeen
from umbel.server.problems import OrderInvalid

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # what the gate takes as a site's name
_NOT_LET_IN = re.compile(r"answer 40[13]\)")  # said of the desk, not of a site
_NOWHERE = Path()  # the private half is at the site, and only there


class Enrols(Protocol):
    """What is asked of the SuperLink."""

    async def nodes(self, federation: str) -> Sequence[NodeSeen]: ...
    async def enrol(self, keys: Mapping[str, NodeKey]) -> Mapping[str, int]: ...
    async def enrol_each(
        self, keys: Mapping[str, NodeKey]
    ) -> tuple[Mapping[str, int], Mapping[str, str]]: ...
    async def expel(self, fingerprints: Sequence[str]) -> Sequence[str]: ...


class Doorkeeper:
    """Keeps the gate's list and the SuperLink's nodes as wanted. One order at a time."""

    def __init__(self, federation: str, flower: Enrols, roster: Roster) -> None:
        self._federation = federation
        self._flower = flower
        self._roster = roster
        self._turn = asyncio.Lock()
        self._spent: dict[str, str] = {}  # keys that the SuperLink never takes, and why

    async def admit(self, wanted: Mapping[str, str]) -> Admission:
        """Let in exactly these sites (names to public keys); one bad site keeps no other out."""
        keys, refused = read_keys(wanted)
        async with self._turn:
            held = self._roster.sites()
            keys, doubled = _single(keys, held)
            refused |= doubled
            # Who is not wanted is out at once, also while the SuperLink cannot be asked.
            stay = {n: k.fingerprint for n, k in keys.items() if held.get(n) == k.fingerprint}
            await asyncio.to_thread(self._roster.replace, stay)
            seen = await self._flower.nodes(self._federation)
            ids, unfit = await self._register(keys, seen)
            refused |= unfit
            # Only now: a SuperNode that comes before its key is registered gives up.
            inside = {n: k.fingerprint for n, k in keys.items() if n in ids}
            await asyncio.to_thread(self._roster.replace, inside)
            # Flower never takes a key again that it let go: who is only refused keeps its node.
            strangers = [node for node in seen if node.name not in refused]
            gone = await self._expel(strangers, set(inside.values()))
        left = [name for name in held if held[name] != inside.get(name)]
        new = [name for name in inside if name not in stay]
        return Admission(ids, new, sorted({*left, *gone}), refused)

    async def _register(
        self, keys: Mapping[str, NodeKey], seen: Sequence[NodeSeen]
    ) -> tuple[dict[str, int], dict[str, str]]:
        """Have a node for each key; gives the ids, and who has none and why."""
        known = {(node.name, node.fingerprint): node.node_id for node in seen}
        ids = {n: known.get((n, k.fingerprint), 0) for n, k in keys.items()}
        refused = {n: self._spent[k.fingerprint] for n, k in keys.items()
                   if not ids[n] and k.fingerprint in self._spent}  # fmt: skip
        new = [n for n in keys if not ids[n] and n not in refused]
        made, unfit = await self._enrol({name: keys[name] for name in new})
        self._spent |= {keys[name].fingerprint: why for name, why in unfit.items()}
        return {n: i for n, i in ids.items() if i} | dict(made), refused | dict(unfit)

    async def _enrol(
        self, keys: Mapping[str, NodeKey]
    ) -> tuple[Mapping[str, int], Mapping[str, str]]:
        """Register all at once; when that is refused, find out one by one who is to blame."""
        if not keys:
            return {}, {}
        try:
            return await self._flower.enrol(keys), {}
        except ControlRefused as error:
            if _NOT_LET_IN.search(error.fact):
                raise
            return await self._flower.enrol_each(keys)

    async def _expel(self, seen: Sequence[NodeSeen], inside: set[str]) -> Sequence[str]:
        strangers = [node.fingerprint for node in seen if node.fingerprint not in inside]
        return await self._flower.expel(strangers) if strangers else []


def keep_apps(roster: Path, apps: Any) -> None:
    """Leave beside the roster which sites can run an app; apps that are not there run everywhere."""
    named = isinstance(apps, dict) and all(
        isinstance(sites, list) and all(isinstance(site, str) for site in sites)
        for sites in apps.values()
    )
    if not named:
        raise OrderInvalid('apps must be {"publisher/name": [site, …]}')
    path, text = roster.with_name("environments.json"), json.dumps(apps, sort_keys=True)
    before = path.read_text() if path.exists() else "{}"
    if before != text:
        ensure_private_folder(path.parent)
        write_private(path, text)


def read_keys(wanted: Mapping[str, str]) -> tuple[dict[str, NodeKey], dict[str, str]]:
    """Read the public keys; gives who has none that can be used, and why."""
    keys: dict[str, NodeKey] = {}
    refused: dict[str, str] = {}
    for name, pem in wanted.items():
        if not _NAME.fullmatch(name):
            refused[name] = "the name has characters that the gate does not take"
            continue
        try:
            keys[name] = _key(pem.encode(errors="replace"))
        except SecurityError as error:
            refused[name] = error.fact
    return keys, refused


def _key(pem: bytes) -> NodeKey:
    """Write the key in the very form that Flower compares, however it came here."""
    name = fingerprint(pem)
    anew = serialization.load_pem_public_key(pem).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return NodeKey(_NOWHERE, anew, name)


def _single(
    keys: Mapping[str, NodeKey], held: Mapping[str, str]
) -> tuple[dict[str, NodeKey], dict[str, str]]:
    """Leave a key that several claim to who had it before, or to nobody."""
    times = Counter(key.fingerprint for key in keys.values())
    owners = {of: name for name, of in held.items()}
    single: dict[str, NodeKey] = {}
    refused: dict[str, str] = {}
    for name, key in keys.items():
        owner = owners.get(key.fingerprint, "")
        if times[key.fingerprint] == 1 or owner == name:
            single[name] = key
        else:
            others = [n for n, k in keys.items() if k.fingerprint == key.fingerprint and n != name]
            refused[name] = KeyBound(key.fingerprint, owner or others[0], name).fact
    return single, refused
