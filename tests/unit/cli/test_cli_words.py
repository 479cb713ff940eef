from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
import typer

from umbel.cli import context, output
from umbel.cli.output import Output, number, printable, readable_errors, show_data, show_error
from umbel.cli.run import ConfigInvalid, read_config
from umbel.client import Client, NothingRuns
from umbel.errors import Relayed, RequestError


class Gone(RequestError):
    """Something is gone, for a test."""

    code = "U399"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("true", True),
        ("false", False),
        ('"5"', "5"),
        ("'a text'", "a text"),
        ("plain text", "plain text"),
        ("True", "True"),
        ("", ""),
        ("a=b", "a=b"),
        ("[1, 2]", "[1, 2]"),
        ("2026-11-15", "2026-11-15"),
        ("größe", "größe"),
        ("1\nx = 2", "1\nx = 2"),
    ],
)
def test_a_config_value_is_a_number_a_truth_or_a_text(text: str, value: object) -> None:
    found = read_config([f"key={text}"])["key"]
    assert found == value
    assert type(found) is type(value)


def test_config_pairs_are_collected_and_the_last_one_counts() -> None:
    assert read_config(["a=1", " b = 2 ", "a=3"]) == {"a": 3, "b": 2}
    assert read_config([]) == {}


@pytest.mark.parametrize("pair", ["", "key", "=5", " =5"])
def test_what_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(ConfigInvalid):
        read_config([pair])


def test_control_characters_of_others_do_not_reach_the_terminal() -> None:
    assert printable("\x1b[31mred\x07\r") == "\\x1b[31mred\\x07\\x0d"
    assert printable("line\n\tgröße ✓") == "line\n\tgröße ✓"
    assert "\u202e" not in printable("\u202eevil")


def test_a_metric_that_is_not_there_is_a_dash() -> None:
    assert (number(None), number(0.12345), number(0)) == ("-", "0.1235", "0.0000")
    assert number(math.nan) == "nan"


def test_an_error_is_told_with_code_fact_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(Gone("no [bold]such\x1b thing", hint="look elsewhere"))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error[U399]: no [bold]such\\x1b thing\nhint: look elsewhere\n"


def test_our_errors_become_an_exit_status() -> None:
    with pytest.raises(typer.Exit) as left, readable_errors():
        raise Gone("gone")
    assert left.value.exit_code == 2


def test_an_error_of_another_process_keeps_its_words_and_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = json.loads(json.dumps(Gone("gone", hint="wait").as_problem()))
    with pytest.raises(typer.Exit) as left, readable_errors():
        raise Relayed(problem)
    assert left.value.exit_code == 2
    assert capsys.readouterr().err == "error[U399]: gone\nhint: wait\n"


def test_a_bug_stays_a_traceback() -> None:
    with pytest.raises(ZeroDivisionError), readable_errors():
        raise ZeroDivisionError


def test_an_interrupt_is_told_and_has_its_own_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, readable_errors():
        raise KeyboardInterrupt
    assert left.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_data_is_json_or_yaml_on_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"b": [1, None], "a": "größe"}
    show_data(data, Output.JSON)
    said = capsys.readouterr()
    assert json.loads(said.out) == data
    assert said.err == ""
    show_data(data, Output.YAML)
    assert capsys.readouterr().out == "b:\n- 1\n- null\na: größe\n"


def test_a_table_in_a_pipe_has_no_colour_and_loses_no_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "word " * 60
    output.table(["A", "B"], [["online", long], ["[red]x[/red]", ""]])
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert said.count("word") == 60
    assert "[red]x[/red]" in said


def test_whoever_stops_reading_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr("sys.stdout", out)
        with pytest.raises(typer.Exit) as left, readable_errors():
            raise BrokenPipeError
    assert left.value.exit_code == 0


def test_the_home_is_as_set_else_where_xdg_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("UMBEL_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert context.home() == Path("/home/ada/.local/share/umbel")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert context.home() == Path("/data/umbel")
    monkeypatch.setenv("UMBEL_HOME", "~/mine")
    assert context.home() == Path("/home/ada/mine")
    monkeypatch.setenv("UMBEL_HOME", "here")
    assert context.home() == Path.cwd() / "here"


class Some(Client):
    """Knows these federations."""

    def __init__(self, *names: str) -> None:
        super().__init__(Path("/nowhere"))
        self._names = names

    def federations(self) -> list[object]:
        return [{"metadata": {"name": name}} for name in self._names]


def test_the_only_federation_need_not_be_named() -> None:
    assert context.pick(Some("one"), "") == "one"
    assert context.pick(Some("one", "two"), "two") == "two"


def test_of_several_federations_one_must_be_named() -> None:
    with pytest.raises(context.FederationAmbiguous, match="one, two") as told:
        context.pick(Some("one", "two"), "")
    assert (told.value.code, told.value.exit_status) == ("U329", 2)


def test_without_a_federation_there_is_nothing_to_speak_of() -> None:
    with pytest.raises(NothingRuns):
        context.pick(Some(), "")


def test_a_home_where_nothing_ever_ran_has_no_daemon_to_start_again(tmp_path: Path) -> None:
    assert not Client(tmp_path / "none").left_behind()


def test_a_document_beside_you_is_taken_without_being_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert context.read_document(None).name == "local"
    (tmp_path / "federation.yaml").write_text(
        "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata: {name: mine}\n"
    )
    assert context.read_document(None).name == "mine"


def test_talk_goes_to_stderr_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = io.StringIO()
    monkeypatch.setattr("sys.stderr", heard)
    output.say("hello")
    assert heard.getvalue() == "hello\n"
