"""How a problem looks in a terminal, whatever the document holds."""

from __future__ import annotations

import pytest

from umbel.documents import DocumentInvalid, load


def error_of(text: str, source: str = "federation.yaml") -> DocumentInvalid:
    with pytest.raises(DocumentInvalid) as caught:
        load(text, source=source)
    return caught.value


def test_a_problem_shows_its_line_and_points_into_it() -> None:
    error = error_of("metadata: {name: lab}\nspec:\n  groups:\n    - name: a\n      sitez: 3\n")
    allowed = "name, on, sites, zones, cardinality, placement, data, kubernetes"
    assert error.render().splitlines() == [
        'federation.yaml:5:7: U122 spec.groups[0].sitez: unknown key "sitez"',
        "  5 |       sitez: 3",
        "    |       ^",
        f'  hint: did you mean "sites"? allowed here: {allowed}',
    ]


def test_a_problem_of_the_whole_file_shows_no_line() -> None:
    assert error_of("").render().splitlines() == [
        "federation.yaml: U108 the document is empty",
        "  hint: write a new document with: umbel init",
    ]


@pytest.mark.parametrize(
    "text",
    [
        'metadata: {name: "\\e]0;owned\\a"}\n',
        '"\\e[31m\\u202e": 1\n',
        'metadata: {name: a, labels: {"\\r\\nx": "\\t"}}\n',
        "metadata: {name: a}\nspec: {groups: [{name: a, on: \u200bocm}]}\n",
        "a: \x1b[2J\n",
        'a: "\\e\n',
        "a: !\u2066x y\n",
        "&\u00a0 a: b\n",
        'metadata: {name: a}\nspec: {superlink: {endpoint: "\\e"}}\n',
        'metadata: {name: a}\nspec: {groups: [{name: a, placement: {tolerations: "\\e"}}]}\n',
    ],
)
def test_nothing_reaches_the_terminal_raw(text: str) -> None:
    error = error_of(text, source="bad\x1b[31m\nname.yaml")
    for line in [*error.render().splitlines(), error.fact, error.hint, str(error)]:
        assert line.isprintable()
    for problem in error.problems:
        assert all(str(value).isprintable() for value in problem.as_json().values())


def test_the_caret_stays_under_its_character() -> None:
    (problem,) = error_of('metadata: {name: a, annotations: {"日本\\t": "x"}, x: 1}\n').problems
    shown, caret = problem.render().splitlines()[1:3]
    columns = caret.index("^") - 2  # two characters before it are two columns wide
    assert shown[columns] == "x"
    assert problem.source[problem.caret] == "x"


def test_a_long_line_is_cut_around_the_mistake() -> None:
    filler = ", ".join(f"key{n}: v" for n in range(200))
    (problem,) = error_of(f"metadata: {{name: a, annotations: {{{filler}}}, nam: 1}}\n").problems
    assert problem.column > 1000
    assert len(problem.source) <= 102
    assert problem.source[problem.caret :].startswith("nam: 1")
    assert problem.source.startswith("…")


def test_a_long_value_is_shortened_in_the_fact() -> None:
    error = error_of(f"metadata: {{name: {'A' * 60}{'b' * 3}}}\nspec: {{{'k' * 5000}: 1}}\n")
    assert all(len(problem.render()) < 600 for problem in error.problems)


def test_the_error_is_a_web_problem_too() -> None:
    told = error_of("metadata: {nam: a}\n").as_problem()
    assert told["code"] == "U122"
    (problem,) = told["problems"]
    assert problem["line"] == 1
    assert problem["field"] == "metadata.nam"
    assert problem["title"] == "UnknownKey"
