"""CEL expressions over sites: compiled once, asked once a site."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

from umbel.errors import DocumentError
from umbel.model.site import Site
from umbel.placement.clusters import EVERYWHERE, Place, managed_cluster
from umbel.placement.functions import FUNCTIONS

_TYPES = frozenset(("bool", "bytes", "double", "int", "list", "map", "string", "uint"))
_TIMES = frozenset(("duration", "timestamp", "getDate", "getDayOfMonth", "getDayOfWeek")) | {
    *("getDayOfYear", "getFullYear", "getHours", "getMilliseconds"),
    *("getMinutes", "getMonth", "getSeconds"),
}
_BUILT_IN = (
    _TYPES
    | _TIMES
    | {
        *("contains", "endsWith", "matches", "size", "startsWith", "dyn", "type"),
        *("of", "none", "or", "orValue", "value", "hasValue"),
    }
)
_KNOWN_FUNCTIONS = _BUILT_IN | FUNCTIONS.keys() | {"scores"}
_KNOWN_NAMES = _TYPES | {"managedCluster", "optional"}
_STRINGS = re.compile(
    r"""[bB]?[rR]('''.*?'''|\"\"\".*?\"\"\"|'[^']*'|"[^"]*")"""
    r"""|'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""",
    re.DOTALL,
)
_COMMENTS = re.compile(r"//[^\n]*")
_BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(\s*(\w+)\s*,")
_USES = re.compile(r"(?<!\w)managedCluster\b((?:\s*\.\s*\w+){0,2})\s*(\(?)")
_PLACE = re.compile(r"(?:ERROR: )?<input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")
_IN_OTHER_WORDS = tuple(
    (re.compile(pattern), better, advice)
    for pattern, better, advice in (
        (r".*Recursion limit.*", "nested too deeply", "write several shorter expressions"),
        (r"(unsupported syntax .*)", r"\1", "use has(a.b) && a.b == ... instead"),
        (r"token recognition error at: '= ?'", "unexpected '='", "compare with =="),
        (r"token recognition error at: (.*)", r"unreadable \1", ""),
        (r"\w+ input '<EOF>'.*", "it ends too early", ""),
        (r"\w+ input ('.*?') expecting.*", r"unexpected \1", ""),
    )
)
_SHORT = 60
_PACKAGE = "cel"
_EVALUATOR = "cel.cel"


class CelInvalid(DocumentError):
    """A CEL expression cannot be compiled."""

    code = "U150"

    def __init__(self, expression: str, at: tuple[int, int], why: str, *, hint: str) -> None:
        line, column = at
        super().__init__(
            f"CEL expression {shorten(expression)} does not compile: line {line}, column {column}: {why}",
            hint=hint,
        )
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression and the places of the object that it can look at."""

    source: str
    program: Any
    places: frozenset[Place]


class Question:
    """Some expressions, all of which a site must answer with true."""

    def __init__(self, sources: Sequence[str]) -> None:
        """Compile; raises CelInvalid."""
        self._expressions = [compile(source) for source in sources]
        self._places = frozenset().union(*(e.places for e in self._expressions))
        self._scores: dict[str, list[dict[str, Any]]] = {}
        self._context = _library().Context(
            functions={**FUNCTIONS, "scores": lambda _, name: self._scores[name]}
        )
        self._asks_scores = any("scores" in e.program.functions() for e in self._expressions)

    def miss(self, site: Site) -> str | None:
        """Say why the site does not match, None if it does."""
        if self._asks_scores:
            self._scores = _scores(site)
        self._context.add_variable("managedCluster", managed_cluster(site, self._places))
        for expression in self._expressions:
            try:
                answer = expression.program.execute(self._context)
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
                return f"CEL {shorten(expression.source)} failed: {_told(error)}"
            if answer is not True:
                said = "false" if answer is False else f"{shorten(repr(answer))}, not true"
                return f"CEL {shorten(expression.source)} is {said}"
        return None


def compile(expression: str) -> Expression:  # noqa: A001  # the word for it, always qualified
    """Compile an expression, or raise CelInvalid with the position and what to do."""
    try:
        program = _library().compile(expression)
    except ValueError as error:
        raise _unreadable(expression, str(error)) from None
    bare = _bare(expression)
    _refuse_unknown_functions(expression, bare, program.functions())
    _refuse_unknown_names(expression, bare, program.variables())
    return Expression(expression, program, _places(bare))


@cache
def _library() -> Any:
    """Load the evaluator, and not the command line that its package imports (0.4 s)."""
    # it logs every function that raises; here that is an answer: the site does not match
    logging.getLogger(_PACKAGE).setLevel(logging.CRITICAL)
    package = find_spec(_PACKAGE)
    folders = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec(_EVALUATOR, folders) if folders else None
    if _EVALUATOR in sys.modules or spec is None or spec.loader is None:
        return import_module(_EVALUATOR)
    # it must start only once in a process: whoever imports the package later finds it here
    sys.modules[_EVALUATOR] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[_EVALUATOR])
    return sys.modules[_EVALUATOR]


def shorten(text: str) -> str:
    """Quote a text on one line, cut to a readable length."""
    line = " ".join(text.split())
    return f"`{line}`" if len(line) <= _SHORT else f"`{line[: _SHORT - 1]}…`"


def _scores(site: Site) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for coordinate, value in site.scores.items():
        resource, _, name = coordinate.partition("/")
        found.setdefault(resource, []).append({"name": name, "value": value})
    return found


def _told(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r}" if error.args else "a key is missing"
    return re.sub(r"\. Check (?:that|function).*", "", str(error), flags=re.DOTALL)


def _bare(expression: str) -> str:
    """Blank out strings and comments, so that positions stay and words in them do not count."""
    blank = _STRINGS.sub(lambda found: '"' + " " * (len(found[0]) - 2) + '"', expression)
    return _COMMENTS.sub(lambda found: " " * len(found[0]), blank)


def _places(bare: str) -> frozenset[Place]:
    """Find what the expression can look at: building less of each site is most of the speed."""
    places: set[Place] = set()
    for found in _USES.finditer(bare):
        path = re.findall(r"\w+", found[1])
        if found[2]:
            path.pop()  # the last word is a function, called on what stands before it
        if not path:
            if re.match(r"\s*\.\s*scores\b", found[1]):
                continue  # answered from the site itself
            return EVERYWHERE
        places |= {p for p in EVERYWHERE if p[: len(path)] == tuple(path)}
    return frozenset(places)


def _position(expression: str, index: int) -> tuple[int, int]:
    before = expression[:index]
    return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1


def _unreadable(expression: str, told: str) -> CelInvalid:
    found = _PLACE.search(told.replace(expression, "", 1))
    if found is None:
        return CelInvalid(expression, (1, 1), told, hint="simplify the expression")
    why, hint = found[3], "an example: managedCluster.metadata.labels['gpu'] == 'true'"
    for pattern, better, advice in _IN_OTHER_WORDS:
        if pattern.search(why):
            why, hint = pattern.sub(better, why), advice or hint
            break
    return CelInvalid(expression, (int(found[1]), int(found[2])), why, hint=hint)


def _refuse_unknown_functions(expression: str, bare: str, functions: Sequence[str]) -> None:
    for name in functions:
        if name.isidentifier() and name not in _KNOWN_FUNCTIONS:
            found = re.search(rf"\b{name}\s*\(", bare)
            at = _position(expression, found.start() if found else 0)
            known = ", ".join(sorted(_KNOWN_FUNCTIONS))
            raise CelInvalid(expression, at, f"unknown function {name!r}", hint=f"known: {known}")


def _refuse_unknown_names(expression: str, bare: str, names: Sequence[str]) -> None:
    for name in sorted(set(names) - _KNOWN_NAMES - set(_BOUND.findall(bare))):
        found = re.search(rf"(?<![\w.]){name}\b", bare)
        at = _position(expression, found.start() if found else 0)
        hint = "the site is managedCluster, its labels are managedCluster.metadata.labels"
        raise CelInvalid(expression, at, f"unknown name {name!r}", hint=hint)
