"""From text to a tree of values: YAML, less what makes YAML surprising or dangerous.

The parser's events are read one by one and counted before anything is built of them, so that
neither depth nor aliases can make a small file large.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import yaml

from umbel.documents.nodes import Entry, Listing, Mapping, Node, Scalar, plain, resolved
from umbel.documents.problems import (
    DocumentInvalid,
    Kind,
    Mark,
    Path,
    Problem,
    Text,
    invalid,
    quoted,
)
from umbel.documents.reading import ControlCharacter
from umbel.documents.syntax import syntax_problem

MAX_DEPTH = 32
MAX_VALUES = 100_000
MAX_NOTED = 1000  # mistakes after which no more are collected
MAX_SIZE = 1 << 20  # characters, with every alias written out

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LARGEST = 2**63 - 1  # what Flower and JSON readers agree on


class FileEmpty(DocumentInvalid):
    """There is nothing in the document but white space and comments."""

    code = "U108"


class DuplicateKey(DocumentInvalid):
    """A mapping has the same key twice."""

    code = "U112"


class KeyNotText(DocumentInvalid):
    """A key is a number, true, false, nothing, a list or a mapping."""

    code = "U113"


class TagRefused(DocumentInvalid):
    """A value has a YAML tag."""

    code = "U114"


class AliasUnknown(DocumentInvalid):
    """An alias names no anchor above it."""

    code = "U115"


class AliasBomb(DocumentInvalid):
    """The document is huge when its aliases are written out."""

    code = "U116"


class TooDeep(DocumentInvalid):
    """Values are nested deeper than any federation needs."""

    code = "U117"


class TooManyValues(DocumentInvalid):
    """The document holds more values than any federation needs."""

    code = "U118"


class SeveralDocuments(DocumentInvalid):
    """The file holds more than one YAML document."""

    code = "U119"


class NotAMapping(DocumentInvalid):
    """The document is a list or a single value."""

    code = "U120"


class NumberUnusable(DocumentInvalid):
    """A number is not finite, or has more than 64 bits."""

    code = "U121"


def composed(text: Text) -> tuple[Mapping, list[Problem]]:
    """Read the text as one mapping; give it with the mistakes that do not hide the rest."""
    composer = _Composer(text)
    root = composer.run()
    if root is None or (isinstance(root, Scalar) and root.value is None):
        hint = "write a new document with: umbel init"
        raise invalid([text.problem(FileEmpty, "the document is empty", hint)])
    if not isinstance(root, Mapping):
        what = (
            "a list" if isinstance(root, Listing) else f"a single value: {quoted(str(plain(root)))}"
        )
        fact = f"the document is {what}, where keys and values were expected"
        hint = 'it begins with "apiVersion: umbel.dev/v1alpha1"'
        raise invalid([*composer.problems, text.problem(NotAMapping, fact, hint, at=root.mark)])
    return root, composer.problems


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end was not seen yet."""

    node: Listing | Mapping
    anchor: str | None
    name: str | None = None  # the key that waits for its value; None: the value is dropped
    mark: Mark | None = None  # where that key is; None: a key comes next


@dataclass(slots=True)
class _Composer:
    text: Text
    problems: list[Problem] = field(default_factory=list)
    anchors: dict[str, Node] = field(default_factory=dict)
    stack: list[_Open] = field(default_factory=list)
    root: Node | None = None
    documents: int = 0
    count: int = 0
    size: int = 0

    def run(self) -> Node | None:
        """Read all events."""
        try:
            for event in yaml.parse(self.text.content, Loader=_LOADER):
                self._take(event)
        except yaml.YAMLError as error:
            raise invalid([*self.problems, syntax_problem(self.text, error)]) from error
        return self.root

    def _take(self, event: yaml.Event) -> None:
        mark = event.start_mark
        at = Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)
        match event:
            case yaml.DocumentStartEvent():
                self._one_document(at)
            case yaml.ScalarEvent():
                self._count(at, 1, len(event.value) + 1, 1)
                self._tag(event.tag, at)
                self._finish(self._scalar(event, at), event.anchor)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._count(at, 1, 1, 1)
                self._tag(event.tag, at)
                node = Mapping(at) if isinstance(event, yaml.MappingStartEvent) else Listing(at)
                self.stack.append(_Open(node, event.anchor))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                done = self.stack.pop()
                self._finish(done.node, done.anchor)
            case yaml.AliasEvent():
                self._finish(self._alias(event.anchor or "", at), None)

    def _one_document(self, at: Mark) -> None:
        self.documents += 1
        if self.documents > 1:
            fact = "a second document begins here"
            self._stop(SeveralDocuments, fact, 'one federation a file: remove the "---"', at)

    def _stop(self, kind: Kind, fact: str, hint: str, at: Mark) -> None:
        raise invalid([*self.problems, self.text.problem(kind, fact, hint, at=at)])

    def _note(self, kind: Kind, fact: str, hint: str, at: Mark, *key: str) -> None:
        if len(self.problems) < MAX_NOTED:
            path = (*self._path(), *key)
            self.problems.append(self.text.problem(kind, fact, hint, at=at, path=path))

    def _path(self) -> Path:
        """The path of the value that comes next."""
        path: list[str | int] = []
        for level in self.stack:
            if isinstance(level.node, Listing):
                path.append(len(level.node.items))
            elif level.name is not None:
                path.append(level.name)
        return tuple(path)

    def _count(self, at: Mark, count: int, size: int, height: int) -> None:
        """Count values in before they are built, an alias with all that it stands for."""
        self.count += count
        self.size += size
        if len(self.stack) + height > MAX_DEPTH:
            fact = f"values are nested more than {MAX_DEPTH} levels deep"
            self._stop(TooDeep, fact, "check the brackets and the indentation", at)
        if count > 1 and (self.count > MAX_VALUES or self.size > MAX_SIZE):
            fact = "with its aliases written out, the document is too large"
            self._stop(AliasBomb, fact, "write the values out, or use fewer aliases (*name)", at)
        if self.count > MAX_VALUES:
            fact = f"the document holds more than {MAX_VALUES:,} values"
            hint = "many alike sites are one group with a number: sites: 500"
            self._stop(TooManyValues, fact, hint, at)

    def _tag(self, tag: str | None, at: Mark) -> None:
        if tag is not None:
            short = tag.replace("tag:yaml.org,2002:", "!!")
            fact = f"tags are not allowed here: {quoted(short)}"
            self._note(TagRefused, fact, "remove the tag; put text in quotes to keep it text", at)

    def _scalar(self, event: yaml.ScalarEvent, at: Mark) -> Scalar:
        raw = event.value
        node = Scalar(at, raw, raw, size=len(raw) + 1)
        if not event.style and event.tag is None:
            node.value = resolved(raw)
        if isinstance(node.value, int | float) and not _usable(node.value):
            fact = f"{quoted(raw)} is not a number that can be used"
            hint = f"whole numbers go to {_LARGEST}; put it in quotes if it is text"
            self._note(NumberUnusable, fact, hint, at)
            node.value, node.spoilt = 0, True
        if isinstance(node.value, str) and (found := _UNSEEN.search(raw)):
            fact = f"the text holds a character that cannot be seen: U+{ord(found[0]):04X}"
            self._note(ControlCharacter, fact, "remove the escape that makes it", at)
            node.spoilt = True
        return node

    def _alias(self, name: str, at: Mark) -> Node:
        node = self.anchors.get(name)
        if node is None:
            inside = any(level.anchor == name for level in self.stack)
            why = "stands inside the value that it names" if inside else "names nothing above it"
            hint = 'text that begins with "*" needs quotes'
            self._note(AliasUnknown, f"the alias {quoted('*' + name)} {why}", hint, at)
            return Scalar(at, name, None, spoilt=True)
        self._count(at, node.count + 1, node.size, node.height)
        return node

    def _finish(self, node: Node, anchor: str | None) -> None:
        """Put a finished value where it belongs."""
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        level = self.stack[-1]
        level.node.grow(node)
        if isinstance(level.node, Listing):
            level.node.items.append(node)
        elif level.mark is None:
            level.mark = node.mark
            level.name = self._key(level.node, node)
        else:
            if level.name is not None:
                level.node.entries[level.name] = Entry(level.mark, node)
            level.name = level.mark = None

    def _key(self, mapping: Mapping, node: Node) -> str | None:
        """Take a value as a key; None if it cannot be one."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            what = "a list or mapping" if not isinstance(node, Scalar) else quoted(node.raw)
            quotes = "" if not isinstance(node, Scalar) else f": {quoted(node.raw)}"
            hint = f"put it in quotes{quotes}" if quotes else "keys are text"
            self._note(KeyNotText, f"a key must be text, and this is {what}", hint, node.mark)
            return None
        if first := mapping.entries.get(node.value):
            fact = f"the key {quoted(node.value)} is here twice, first in line {first.mark.line}"
            self._note(DuplicateKey, fact, "keep one of them", node.mark, node.value)
            return None
        return node.value


def _usable(value: float) -> bool:
    return -_LARGEST <= value <= _LARGEST if isinstance(value, int) else math.isfinite(value)
