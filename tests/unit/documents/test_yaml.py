"""YAML, less what makes it surprising or dangerous."""

from __future__ import annotations

from pathlib import Path

import pytest

from umbel.documents import DocumentInvalid, Problem, load, load_file

HEAD = "metadata: {name: lab}\n"


def problem_of(text: bytes | str) -> Problem:
    with pytest.raises(DocumentInvalid) as caught:
        load(text)
    (problem,) = caught.value.problems
    return problem


def laughs(levels: int) -> str:
    """Each line is nine times the line before."""
    rows = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, levels))
    return "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(rows)


SYNTAX = [
    ("spec:\n\tgroups: 1\n", "U111", (2, 1), "a tab is used for indentation", "spaces"),
    ("spec:\n  a: 1\n\tb: 2\n", "U111", (3, 1), "a tab is used for indentation", "spaces"),
    ("a: [1, 2\nb: 3\n", "U110", (1, 4), 'this list has no closing "]"', "close it"),
    ("a: {b: 1\n", "U110", (1, 4), 'this mapping has no closing "}"', "close it"),
    ("a: b: c\n", "U110", (1, 5), 'a ":" is not expected here', "needs quotes"),
    ("a: - b\n", "U110", (1, 4), 'a list item ("- ") is not expected here', "next line"),
    ('a: "x\n', "U110", (1, 4), "this quote is never closed", "same kind of quote"),
    ("a:\n  b: 1\n c: 2\n", "U110", (3, 2), "does not fit the lines above", "same column"),
    ("- a\nb: 1\n", "U110", (2, 1), "does not fit the lines above", "same column"),
    ("a: 1\nfoo\n", "U110", (2, 1), 'this line is not "key: value"', "with the space"),
    ("a: @x\n", "U110", (1, 4), 'a value cannot begin with "@"', "quotes"),
    ('a: "C:\\path"\n', "U110", (1, 7), "no escape that YAML knows", "single quotes"),
    ("a: ]\n", "U110", (1, 4), "a value was expected here", "give a value"),
    ("%YAML 2.0\n---\na: 1\n", "U110", (1, 1), "this version of YAML", "%YAML"),
    ("a: !<x\n", "U110", (1, 7), "this is not YAML", "the one above"),
    (f"{HEAD}---\na: 1\n", "U119", (2, 1), "a second document begins here", "one federation"),
    (f"{HEAD}spec: !!python/object:os.system {{}}\n", "U114", (2, 7), "!!python/object", "remove"),
    ("metadata: {name: !!str lab}\n", "U114", (1, 18), "tags are not allowed", "quotes"),
    (f"{HEAD}spec: *x\n", "U115", (2, 7), 'the alias "*x" names nothing above it', "quotes"),
    (f"{HEAD}spec: {{groups: &x [*x]}}\n", "U115", (2, 20), "stands inside the value", "quotes"),
    (laughs(12), "U116", (6, 10), "aliases written out", "fewer aliases"),
    ("[" * 100_000, "U117", (1, 33), "more than 32 levels deep", "brackets"),
    (f"{HEAD}spec: [{'a,' * 100_000}]", "U118", (2, 199_994), "more than 100,000 values", "500"),
    (f"{HEAD}1: x\n", "U113", (2, 1), 'a key must be text, and this is "1"', 'quotes: "1"'),
    (f"{HEAD}true: x\n", "U113", (2, 1), 'this is "true"', 'quotes: "true"'),
    (f"{HEAD}[a]: x\n", "U113", (2, 1), "this is a list or mapping", "keys are text"),
    (f"{HEAD}metadata: 1\n", "U112", (2, 1), "twice, first in line 1", "keep one"),
    ("- a\n- b\n", "U120", (1, 1), "the document is a list", "apiVersion"),
    ("hello\n", "U120", (1, 1), 'a single value: "hello"', "apiVersion"),
    ("", "U108", (0, 0), "the document is empty", "umbel init"),
    ("# nothing\n\n", "U108", (0, 0), "the document is empty", "umbel init"),
    ("---\n", "U108", (0, 0), "the document is empty", "umbel init"),
    ("a: \x1b[31m\n", "U107", (1, 4), "U+001B", "delete it"),
    ("a: 1\nb: \ufeffc\n", "U107", (2, 4), "U+FEFF", "delete it"),
    ("a: \ud800\n", "U107", (1, 4), "U+D800", "delete it"),
    ("a\0b", "U107", (1, 2), "a binary file", "YAML file"),
]


@pytest.mark.parametrize(("text", "code", "at", "fact", "hint"), SYNTAX)
def test_bad_yaml_is_explained(
    text: str, code: str, at: tuple[int, int], fact: str, hint: str
) -> None:
    problem = problem_of(text)
    assert (problem.code, problem.line, problem.column) == (code, *at)
    assert fact in problem.fact
    assert hint in problem.hint


@pytest.mark.parametrize(
    "number", [".nan", ".inf", "-.INF", "1e999", "9" * 19, "9" * 9999, "0x" + "f" * 16]
)
def test_a_number_that_nobody_can_use_is_refused(number: str) -> None:
    text = f"{HEAD}spec: {{groups: [{{name: a, data: {{nodeConfig: {{x: {number}}}}}}}]}}\n"
    problem = problem_of(text)
    assert (problem.code, problem.field) == ("U121", "spec.groups[0].data.nodeConfig.x")


@pytest.mark.parametrize("escape", [r"\e", r"\0", r"\u202e", r"\x9b"])
def test_an_escape_that_makes_an_unseen_character_is_refused(escape: str) -> None:
    problem = problem_of(f'metadata: {{name: a, annotations: {{note: "x{escape}"}}}}\n')
    assert (problem.code, problem.field) == ("U107", "metadata.annotations.note")


def test_on_and_its_like_are_text() -> None:
    text = f"{HEAD}spec:\n  groups:\n    - name: no\n      on: local\n      sites: 1\n"
    (group,) = load(text).spec.groups
    assert (group.name, group.on) == ("no", "local")
    noted = load("metadata: {name: a, labels: {gpu: yes, b: off, c: 0b11, d: 1_0, e: null-1}}")
    assert noted.metadata.labels == {
        "gpu": "yes",
        "b": "off",
        "c": "0b11",
        "d": "1_0",
        "e": "null-1",
    }


def test_numbers_are_read_as_in_yaml_1_2() -> None:
    config = "{a: 0o17, b: 0x1F, c: 0755, d: 1e3, e: -2, f: .5, g: true, h: 12:30, i: '1'}"
    text = f"{HEAD}spec: {{groups: [{{name: a, data: {{nodeConfig: {config}}}}}]}}"
    found = load(text).spec.groups[0].data.node_config
    assert list(found.values()) == [15, 31, 755, 1000.0, -2, 0.5, True, "12:30", "1"]
    assert isinstance(found["d"], float)
    assert found["g"] is True


def test_a_few_aliases_are_welcome() -> None:
    text = (
        "metadata: {name: a, labels: &l {region: eu}}\n"
        "spec: {groups: [{name: a, sites: [{name: x, labels: *l}, {name: y, labels: *l}]}]}\n"
    )
    sites = load(text).spec.groups[0].sites
    assert not isinstance(sites, int)
    assert [site.labels for site in sites] == [{"region": "eu"}, {"region": "eu"}]


def test_a_long_text_named_often_is_refused_before_it_is_written_out() -> None:
    text = f"{HEAD}a: &a {'x' * 500_000}\nb: [{'*a, ' * 9000}]\n"
    assert problem_of(text).code == "U116"


def test_depth_through_aliases_counts() -> None:
    text = f"a: &a {'[' * 15}{']' * 15}\nb: &b {'[' * 15}*a{']' * 15}\nc: [[*b]]\n"
    assert problem_of(text).code == "U117"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_line_ending_is_accepted_and_counted(ending: str) -> None:
    good = ending.join(["metadata:", "  name: lab", ""])
    assert load(good).name == "lab"
    problem = problem_of(good + ending.join(["spec:", "  grups: []", ""]))
    assert (problem.line, problem.column, problem.source) == (4, 3, "  grups: []")


def test_a_utf8_mark_is_accepted_silently() -> None:
    assert load(b"\xef\xbb\xbfmetadata: {name: lab}\n").name == "lab"
    assert load("\ufeffmetadata: {name: lab}\n").name == "lab"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_wide_encodings_are_named(encoding: str) -> None:
    problem = problem_of(HEAD.encode(encoding))
    assert problem.code == "U106"
    assert "UTF-8" in problem.fact
    assert "save it as UTF-8" in problem.hint


def test_bytes_that_are_not_utf8_are_placed() -> None:
    problem = problem_of("metadata:\n  name: müll\n".encode("latin-1"))
    assert (problem.code, problem.line, problem.column) == ("U105", 2, 10)
    assert problem.fact == "byte 0xFC is not UTF-8"


def test_ten_megabytes_are_refused_before_they_are_parsed() -> None:
    text = b"a: b\n" * 2_000_000 + b"\t: not YAML"
    problem = problem_of(text)
    assert (problem.code, problem.line) == ("U104", 0)


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "federation.yml").write_text(HEAD)
    with pytest.raises(DocumentInvalid) as caught:
        load_file(tmp_path / "federation.yaml")
    assert caught.value.code == "U101"
    assert caught.value.hint == f"did you mean {tmp_path / 'federation.yml'}?"


def test_a_missing_file_alone_points_to_init(tmp_path: Path) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        load_file(tmp_path / "nowhere" / "federation.yaml")
    assert caught.value.code == "U101"
    assert "umbel init" in caught.value.hint


def test_a_folder_names_the_document_in_it(tmp_path: Path) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        load_file(tmp_path)
    assert (caught.value.code, caught.value.hint) == ("U102", "give a file")
    (tmp_path / "federation.yaml").write_text(HEAD)
    with pytest.raises(DocumentInvalid) as caught:
        load_file(tmp_path)
    assert caught.value.hint == f"did you mean {tmp_path / 'federation.yaml'}?"


def test_a_path_that_the_system_refuses_is_told(tmp_path: Path) -> None:
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    for path in (loop, tmp_path / "a\0b", tmp_path / ("x" * 300)):
        with pytest.raises(DocumentInvalid) as caught:
            load_file(path)
        assert caught.value.code == "U103"
        assert caught.value.fact.isprintable()


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(DocumentInvalid) as caught:
        load_file(Path("/dev/zero"))
    assert caught.value.code == "U104"


def test_a_file_is_read_and_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "federation.yaml"
    path.write_text(HEAD)
    assert load_file(path).name == "lab"
    path.write_text("metadata: {}\n")
    with pytest.raises(DocumentInvalid) as caught:
        load_file(path)
    assert caught.value.problems[0].where == f"{path}:1:1"
