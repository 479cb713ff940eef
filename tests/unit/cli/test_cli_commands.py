from __future__ import annotations

from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from umbel import __version__
from umbel.cli import main


@pytest.fixture(scope="module")
def commands() -> list[str]:
    main._register(tuple(c for c in main.COMMANDS if c not in _registered()))
    return sorted(_registered())


def _registered() -> set[str]:
    return {c.callback.__name__ for c in main.app.registered_commands if c.callback}


def told(*words: str, **env: str) -> str:
    answer = CliRunner().invoke(main.app, list(words), env=env, prog_name="umbel")
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_every_command_is_in_the_help(commands: list[str]) -> None:
    assert commands == sorted(main.COMMANDS)
    said = told("--help")
    assert all(f"  {name} " in said for name in commands)


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_help_of_each_command_has_a_promise_and_examples(
    name: str, commands: list[str]
) -> None:
    assert name in commands
    said = told(name, "--help")
    assert "Examples:" in said
    examples = said.partition("Examples:")[2]
    assert f"umbel {name}" in examples
    assert told(name, "-h") == said


@pytest.mark.parametrize("name", main.COMMANDS)
def test_examples_keep_their_lines(name: str, commands: list[str]) -> None:
    assert commands
    written = getattr(import_module(f"umbel.cli.{name}"), "EXAMPLES", "").splitlines()
    shown = [line.strip() for line in told(name, "--help").splitlines()]
    assert [line.strip() for line in written if line.strip() not in shown] == []


@pytest.mark.parametrize("name", main.COMMANDS)
def test_help_is_plain_text(name: str, commands: list[str]) -> None:
    assert commands
    said = told(name, "--help")
    assert "\x1b" not in said
    assert "\\[" not in said


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_argument_and_option_is_explained(name: str, commands: list[str]) -> None:
    assert commands
    command = typer.main.get_command(main.app).commands[name]  # type: ignore[attr-defined]
    said = " ".join(told(name, "--help").split())
    silent = [p.name for p in command.params if not p.help or " ".join(p.help.split()) not in said]
    assert silent == []


def test_the_version_is_told() -> None:
    assert told("--version") == f"umbel {__version__}\n"


@pytest.mark.parametrize(
    "words", [["nonsense"], ["up", "--nonsense"], ["scale", "local", "many"], ["logs"]]
)
def test_what_is_no_command_or_option_ends_with_2(words: list[str], commands: list[str]) -> None:
    assert commands
    answer = CliRunner().invoke(main.app, words)
    assert answer.exit_code == 2
    assert answer.stdout == ""
