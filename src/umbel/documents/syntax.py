"""What the YAML parser dislikes, in words that help."""

from __future__ import annotations

from typing import NamedTuple

import yaml

from umbel.documents.problems import DocumentInvalid, Mark, Problem, Text, quoted


class NotYaml(DocumentInvalid):
    """The text breaks the rules of YAML."""

    code = "U110"


class TabIndentation(DocumentInvalid):
    """A line is indented with a tab."""

    code = "U111"


class _Advice(NamedTuple):
    """Words for what the parser says; `opener` points at where the trouble begins."""

    fact: str
    hint: str
    opener: bool = False


_UNCLOSED_LIST = _Advice(
    'this list has no closing "]"', 'close it, and put "," between items', True
)
_UNCLOSED_MAP = _Advice(
    'this mapping has no closing "}"', 'close it, and put "," between keys', True
)
_ALIGN = _Advice(
    "this line does not fit the lines above it",
    "keys of one mapping, and items of one list, begin in the same column",
)
_ADVICE = {
    "mapping values are not allowed in this context": _Advice(
        'a ":" is not expected here',
        'check the indentation of this line and the one above; text with ": " in it needs quotes',
    ),
    "block sequence entries are not allowed in this context": _Advice(
        'a list item ("- ") is not expected here', "begin the list on the next line"
    ),
    "did not find expected key": _ALIGN,
    "did not find expected '-' indicator": _ALIGN,
    "did not find expected ',' or ']'": _UNCLOSED_LIST,
    "did not find expected ',' or '}'": _UNCLOSED_MAP,
    "could not find expected ':'": _Advice(
        'this line is not "key: value"', 'put ": " after the key, with the space', True
    ),
    "found unexpected end of stream": _Advice(
        "this quote is never closed", "close it with the same kind of quote", True
    ),
    "found unknown escape character": _Advice(
        "this is no escape that YAML knows", "write the text in single quotes, or double the \\"
    ),
    "did not find expected node content": _Advice(
        "a value was expected here", "give a value, or put the text in quotes"
    ),
    "found incompatible YAML document": _Advice(
        "this version of YAML is not supported", "remove the line that begins with %YAML"
    ),
}


def syntax_problem(text: Text, error: yaml.YAMLError) -> Problem:
    """Explain what the parser stumbled over."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return text.problem(NotYaml, f"this is not YAML: {error}", "check it with a YAML editor")
    at = _mark(error.problem_mark)
    tabbed = _tab_before(text, at.line)
    if tabbed and ("tab" in str(error.problem) or tabbed.line == at.line):
        hint = "indent with spaces; most editors can turn tabs into spaces"
        return text.problem(TabIndentation, "a tab is used for indentation", hint, at=tabbed)
    advice = _ADVICE.get(str(error.problem)) or _unexpected(text, at, str(error.problem))
    if advice.opener and error.context_mark:
        at = _mark(error.context_mark)
    return text.problem(NotYaml, advice.fact, advice.hint, at=at)


def _mark(mark: yaml.Mark) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def _tab_before(text: Text, line: int) -> Mark | None:
    """Find the tab that indents this line."""
    source = text.lines[line - 1] if line <= len(text.lines) else ""
    column = source.find("\t")
    return Mark(line, column + 1) if column >= 0 and not source[:column].strip() else None


def _unexpected(text: Text, at: Mark, problem: str) -> _Advice:
    source = text.lines[at.line - 1] if at.line <= len(text.lines) else ""
    character = source[at.column - 1 : at.column]
    if "cannot start any token" in problem and character:
        return _Advice(f"a value cannot begin with {quoted(character)}", "put the text in quotes")
    return _Advice(f"this is not YAML: {problem}", "check this line and the one above")
