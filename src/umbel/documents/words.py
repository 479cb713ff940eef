"""Suggestions: the word that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_LONGEST = 64  # nothing longer is a slip of the finger
_OTHER_NAMES = {
    "target": "on",
    "type": "on",
    "replicas": "sites",
    "count": "sites",
    "nodes": "sites",
    "supernodes": "sites",
    "server": "superlink",
    "hub": "superlink",
    "host": "endpoint",
    "address": "endpoint",
    "selector": "placement",
    "path": "hostPath",
    "affinity": "placement",
}


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that this one was probably meant to be."""
    by_form = {_form(k): k for k in known}
    form = _form(word)
    if len(word) > _LONGEST or not form:
        return None
    if form in by_form:
        return by_form[form]
    other = _OTHER_NAMES.get(form)
    if other in by_form.values():
        return other
    close = difflib.get_close_matches(form, sorted(by_form), 1, 0.7)
    return by_form[close[0]] if close else None


def _form(word: str) -> str:
    """A word without what people vary: case, and signs between its parts."""
    return re.sub(r"[-_. ]", "", word).lower() if len(word) <= _LONGEST else word


def either(words: Sequence[str]) -> str:
    """List words as alternatives: a, b or c."""
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def slug(text: str) -> str:
    """The name nearest to a text; empty if there is none."""
    lowered = re.sub(r"[^a-z0-9]+", "-", text[:200].lower())
    return lowered.strip("-")[:63].rstrip("-")
