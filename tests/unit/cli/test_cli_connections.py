from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from click.testing import Result
from tests.unit.cli.daemon import Here
from typer.testing import CliRunner

from umbel.cli import connect, context
from umbel.cli.connections import Connection, Connections
from umbel.client import NothingRuns
from umbel.engine.engine import FederationUnknown
from umbel.identity import alone
from umbel.remote import ConnectionDamaged, Remote, RemoteClient


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("UMBEL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(context, "Client", Here)
    monkeypatch.setattr(Here, "names", ())
    return tmp_path / "home"


@pytest.fixture
def given(tmp_path: Path) -> Remote:
    """What somebody was handed: an address, a CA certificate, a token."""
    made = alone.ensure(tmp_path / "made", "hub", ["127.0.0.1"], now=datetime.now(UTC))
    token = tmp_path / "omar.token"
    token.write_text("umbel_omar\n")
    return Remote("127.0.0.1:9", made.ca, token)


def store(home: Path, name: str, given: Remote) -> Path:
    return Connections(home).store(name, Connection(given, f"{name}-there"))


def test_what_is_stored_is_read_again_and_is_private(home: Path, given: Remote) -> None:
    folder = store(home, "hospitals", given)
    found = Connections(home).load("hospitals")
    assert found.federation == "hospitals-there"
    assert found.remote.address == given.address
    assert found.remote.ca.read_bytes() == given.ca.read_bytes()
    assert found.remote.token() == "umbel_omar"
    assert folder == home / "connections" / "hospitals"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {p.name: p.stat().st_mode & 0o777 for p in folder.iterdir()} == dict.fromkeys(
        ("connection.json", "ca.crt", "token"), 0o600
    )


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"address": "x:1"}'])
def test_a_damaged_connection_is_told(content: str, home: Path, given: Remote) -> None:
    (store(home, "hospitals", given) / "connection.json").write_text(content)
    with pytest.raises(ConnectionDamaged, match=r"connection\.json"):
        context.choose("hospitals")


def test_the_only_one_elsewhere_need_not_be_named(home: Path, given: Remote) -> None:
    store(home, "hospitals", given)
    for named in ("", "hospitals"):
        client, name = context.choose(named)
        assert isinstance(client, RemoteClient)
        assert name == "hospitals-there"


def test_with_one_here_and_one_elsewhere_somebody_must_say(
    home: Path, given: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Here, "names", ("local",))
    assert context.choose("")[1] == "local"
    store(home, "hospitals", given)
    with pytest.raises(context.FederationAmbiguous, match="local, hospitals"):
        context.choose("")
    assert isinstance(context.choose("local")[0], Here)
    assert isinstance(context.choose("hospitals")[0], RemoteClient)
    with pytest.raises(FederationUnknown, match="local, hospitals"):
        context.choose("typo")


def test_a_federation_here_comes_before_one_elsewhere(
    home: Path, given: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(home, "same", given)
    monkeypatch.setattr(Here, "names", ("same",))
    client, name = context.choose("same")
    assert (type(client), name) == (Here, "same")


def test_without_any_there_is_nothing_to_speak_of(home: Path) -> None:
    assert not home.exists()
    with pytest.raises(NothingRuns):
        context.choose("")


def said_by_connect(*words: str) -> Result:
    """Run the command by itself: an app with one command is that command."""
    app = typer.Typer()
    connect.register(app)
    return CliRunner().invoke(app, words)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("lab", "--address", "h:1"), "U359"),
        (("lab", "--address", "h:1", "--ca", "CA"), "U359"),
        (("lab", "--token-file", "TOKEN"), "U359"),
        (("Lab/..", "--address", "h:1", "--ca", "CA", "--token-file", "TOKEN"), "U359"),
        (("lab", "--address", "nowhere", "--ca", "CA", "--token-file", "TOKEN"), "U353"),
        (("lab", "--address", "h:1", "--ca", "none", "--token-file", "TOKEN"), "U354"),
        (("lab", "--address", "h:1", "--ca", "TOKEN", "--token-file", "TOKEN"), "U354"),
        (("lab", "--address", "h:1", "--ca", "CA", "--token-file", "none"), "U354"),
    ],
)
def test_bad_input_is_told_and_nothing_is_stored(
    words: tuple[str, ...], code: str, home: Path, given: Remote
) -> None:
    files = {"CA": str(given.ca), "TOKEN": str(given.token_file)}
    said = said_by_connect(*(files.get(word, word) for word in words))
    assert said.exit_code == 2, said.output
    assert f"error[{code}]" in said.output
    assert not (home / "connections").exists()


def test_a_name_that_a_federation_here_has_is_not_taken(home: Path, given: Remote) -> None:
    (home / "federations" / "lab").mkdir(parents=True)
    words = ["--address", "h:1", "--ca", str(given.ca), "--token-file", str(given.token_file)]
    assert "error[U359]" in said_by_connect("lab", *words).output


def test_a_connection_says_no_secret(home: Path, given: Remote) -> None:
    folder = store(home, "hospitals", given)
    assert "umbel_omar" not in json.dumps(json.loads((folder / "connection.json").read_text()))
