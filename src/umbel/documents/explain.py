"""A broken rule of the form, in words: its kind, the fact, and a hint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from umbel.documents import nodes
from umbel.documents.outline import choices_at, homes, keys_at, setting_at
from umbel.documents.problems import DocumentInvalid, Kind, Mark, Path, dotted, quoted
from umbel.documents.quantities import counted
from umbel.documents.words import closest, either, slug
from umbel.model.document import LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN, NAME_PATTERN
from umbel.model.federation import HOST_PATTERN, VERSION_PATTERN
from umbel.model.kubernetes import PATH_PATTERN


class UnknownKey(DocumentInvalid):
    """A key that means nothing at its place."""

    code = "U122"


class MissingKey(DocumentInvalid):
    """A key that must be there is not."""

    code = "U123"


class WrongType(DocumentInvalid):
    """A value of another kind than the key takes, such as text for a number."""

    code = "U124"


class OutOfRange(DocumentInvalid):
    """A number is too small or too large."""

    code = "U125"


class NotAChoice(DocumentInvalid):
    """The key takes one of a few words, and this is none of them."""

    code = "U126"


class BadName(DocumentInvalid):
    """A name breaks the rule for names."""

    code = "U127"


class BadLabel(DocumentInvalid):
    """A label's key or value breaks the rule for labels."""

    code = "U128"


class BadFormat(DocumentInvalid):
    """An address, path, version or percentage is not written as it must be."""

    code = "U129"


class BadLength(DocumentInvalid):
    """A text or list is too short or too long."""

    code = "U130"


class UnsupportedVersion(DocumentInvalid):
    """This apiVersion is not one that Umbel reads."""

    code = "U131"


class UnsupportedKind(DocumentInvalid):
    """The document is of another kind than Federation."""

    code = "U132"


class ValueRefused(DocumentInvalid):
    """A value breaks a rule of its own."""

    code = "U133"


class CaKeyChoice(DocumentInvalid):
    """The CA key's protection is not given by exactly one file."""

    code = "U142"


class CardinalityOrder(DocumentInvalid):
    """A group's smallest number of sites is greater than its largest."""

    code = "U143"


class ServiceIncomplete(DocumentInvalid):
    """A service lacks what its type needs."""

    code = "U144"


class Explanation(NamedTuple):
    """What to tell about a finding."""

    kind: Kind
    fact: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule at a place in the tree."""

    rule: str
    path: Path
    mark: Mark
    node: nodes.Node | None
    on_key: bool
    settings: Mapping[str, Any]
    message: str

    @property
    def is_type(self) -> bool:
        """Whether a value of another type was expected."""
        return self.rule in EXPECTED

    @property
    def key(self) -> str:
        """The last key on the path."""
        return str(self.path[-1]) if self.path else ""

    @property
    def text(self) -> str:
        """What stands in the document: the key, or the scalar."""
        if self.on_key:
            return self.key
        return self.node.raw if isinstance(self.node, nodes.Scalar) else ""


EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
}
_NAME_RULE = 'names are lower-case letters, digits and "-", with a letter or digit at both ends'
_LABEL_RULE = (
    'labels are letters, digits, "-", "_" and ".", at most 63, with a letter or digit at both ends'
)
_FORMATS: dict[str, tuple[Kind, str, str]] = {
    NAME_PATTERN: (BadName, "a name", _NAME_RULE),
    LABEL_KEY_PATTERN: (BadLabel, "a label key", f"{_LABEL_RULE}; example.org/ may stand before"),
    LABEL_VALUE_PATTERN: (BadLabel, "a label value", _LABEL_RULE),
    HOST_PATTERN: (
        BadFormat,
        "a host name or an IP address",
        "give the bare name or address, without https:// and without a path",
    ),
    PATH_PATTERN: (
        BadFormat,
        "an absolute path",
        'begin it with "/", without quotes or backslashes',
    ),
    VERSION_PATTERN: (BadFormat, "a version", "write it as 1.41 or 1.41.0, in quotes"),
}


def explained(findings: list[Finding]) -> Explanation:
    """Put one place's findings into words; several are the branches of a union."""
    if all(finding.is_type for finding in findings):
        return _wrong_type(findings[0], [EXPECTED[f.rule] for f in findings])
    finding = next(f for f in findings if not f.is_type)
    return _EXPLAINERS.get(finding.rule, _refused)(finding)


def suggestion(finding: Finding) -> str | None:
    """The key that an unknown one was probably meant to be."""
    return closest(finding.key, keys_at(finding.path[:-1]))


def _unknown_key(finding: Finding) -> Explanation:
    parent = finding.path[:-1]
    fact = f"unknown key {quoted(finding.key)}"
    allowed = f"allowed here: {', '.join(keys_at(parent))}"
    if finding.key == "<<":
        return Explanation(UnknownKey, "merge keys (<<) are not supported", "write the keys out")
    if meant := suggestion(finding):
        return Explanation(UnknownKey, fact, f"did you mean {quoted(meant)}? {allowed}")
    if elsewhere := homes().get(finding.key):
        home = elsewhere[0] or "the top of the document"
        return Explanation(UnknownKey, fact, f"it belongs under {home}; {allowed}")
    return Explanation(UnknownKey, fact, allowed)


def _missing(finding: Finding) -> Explanation:
    where = dotted(finding.path[:-1]) or "the document"
    fact = f"the key {quoted(finding.key)} is missing"
    hint = f'add "{finding.key}: ..." to {where}'
    if finding.path == ("metadata",):
        hint = 'give the federation a name: "metadata: {name: my-federation}"'
    return Explanation(MissingKey, fact, hint)


def _wrong_type(finding: Finding, expected: list[str]) -> Explanation:
    whole = "a number" not in expected
    wanted = either([e for e in dict.fromkeys(expected) if whole or e != "a whole number"])
    found, node = _described(finding.node), finding.node
    return Explanation(
        WrongType, f"expected {wanted}, found {found}", _type_hint(node, expected[0], wanted)
    )


def _described(node: nodes.Node | None) -> str:
    match node:
        case nodes.Listing():
            return "a list"
        case nodes.Mapping():
            return "keys and values"
        case nodes.Scalar(value=bool()):
            return node.raw
        case nodes.Scalar(value=str()):
            return f"the text {quoted(node.raw)}"
        case nodes.Scalar(value=int() | float()):
            return f"the number {node.raw}"
        case _:
            return "nothing"


def _type_hint(node: nodes.Node | None, expected: str, wanted: str) -> str:
    """Say how to write the value so that it has the type that is expected."""
    match node:
        case nodes.Listing() if expected == "keys and values":
            return 'remove the "- " or the brackets'
        case nodes.Mapping() if "a list" in wanted:
            return 'begin each item with "- "'
        case nodes.Scalar(value=None):
            return "give it a value, or remove the key"
        case nodes.Scalar():
            return _scalar_hint(node, expected, wanted)
        case _:
            return f"write {wanted} here"


def _scalar_hint(node: nodes.Scalar, expected: str, wanted: str) -> str:
    if expected == "text":
        return f"put it in quotes: {quoted(node.raw)}"
    if isinstance(node.value, str) and "number" in wanted:
        return _number_hint(node.raw)
    if expected == "keys and values" and ":" in node.raw:
        return 'put a space after the ":"'
    if wanted == "a list":
        return f"write it as a list: [{quoted(node.raw)[1:-1]}]"
    return "remove the fraction" if isinstance(node.value, float) else f"write {wanted} here"


def _number_hint(raw: str) -> str:
    if isinstance(nodes.resolved(raw), int | float):
        return f"remove the quotes: {raw}"
    value = counted(raw)
    return f"write it without a unit: {value}" if value is not None else "write it in digits"


def _range(finding: Finding) -> Explanation:
    low = setting_at(finding.path, "minimum")
    high = setting_at(finding.path, "maximum")
    fact = f"{quoted(finding.text)[1:-1]} is out of range"
    if low is not None and high is not None:
        return Explanation(OutOfRange, fact, f"give a number from {low} to {high}")
    return Explanation(
        OutOfRange, fact, f"give {low} or more" if high is None else f"at most {high}"
    )


def _choice(finding: Finding) -> Explanation:
    known = choices_at(finding.path)
    found = _described(finding.node).removeprefix("the text ")
    allowed = f"choose {either(known)}" if len(known) > 1 else f"write {either(known)}"
    if finding.path == ("apiVersion",):
        return Explanation(
            UnsupportedVersion, f"{found} is not supported", f"write apiVersion: {known[0]}"
        )
    if finding.path == ("kind",):
        fact = f"the document is a {found}, not a Federation"
        return Explanation(UnsupportedKind, fact, "is it the right file? Write kind: Federation")
    meant = closest(finding.text, known) if len(known) > 1 else None
    hint = f"did you mean {quoted(meant)}? {allowed}" if meant else allowed
    return Explanation(NotAChoice, f"{found} is not a choice here", hint)


def _format(finding: Finding) -> Explanation:
    pattern = str(finding.settings.get("pattern", ""))
    kind, what, rule = _FORMATS.get(
        pattern, (BadFormat, "of the right form", f"it must match {pattern}")
    )
    if pattern.endswith("%$"):
        what, rule = "a percentage", 'write it as "25%", or give a whole number'
    better = slug(finding.text) if kind is BadName else ""
    example = f"; for example {quoted(better)}" if better else ""
    return Explanation(kind, f"{quoted(finding.text)} is not {what}", rule + example)


def _length(finding: Finding) -> Explanation:
    settings = finding.settings
    unit = "characters" if finding.rule.startswith("string") else "items"
    if "max_length" in settings:
        given = len(finding.text) if unit == "characters" else settings.get("actual_length")
        fact = f"{given} {unit} are too many"
        return Explanation(BadLength, fact, f"at most {settings['max_length']} are allowed")
    fact = "this is empty" if settings.get("min_length") == 1 else f"too few {unit}"
    return Explanation(BadLength, fact, "give it a value, or remove the key")


def _told(kind: Kind) -> Callable[[Finding], Explanation]:
    """Take fact and hint from the model, which knows them best."""

    def explanation(finding: Finding) -> Explanation:
        fact = str(finding.settings.get("fact", finding.message))
        return Explanation(kind, quoted(fact, 300)[1:-1], str(finding.settings.get("hint", "")))

    return explanation


_refused = _told(ValueRefused)

_EXPLAINERS: dict[str, Callable[[Finding], Explanation]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    **dict.fromkeys(("greater_than", "greater_than_equal", "less_than", "less_than_equal"), _range),
    **dict.fromkeys(("enum", "literal_error"), _choice),
    "string_pattern_mismatch": _format,
    **dict.fromkeys(("string_too_long", "string_too_short", "too_long", "too_short"), _length),
    "host": _told(BadFormat),
    "ca_key": _told(CaKeyChoice),
    "cardinality": _told(CardinalityOrder),
    "service": _told(ServiceIncomplete),
}
