"""What commands say of federations that are not on this machine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from click.testing import Result
from tests.unit.cli.daemon import Here
from typer.testing import CliRunner

from umbel.cli import connect, context, down, hub, plan, scale, up
from umbel.cli.connections import Connection, Connections
from umbel.client import NothingRuns
from umbel.documents import load
from umbel.engine.engine import FederationUnknown, PlanOutdated
from umbel.identity import alone
from umbel.remote import Remote

ON_CLUSTERS = (
    "metadata: {name: hospitals}\nspec: {superlink: {on: ocm}, groups: [{name: a, on: ocm}]}\n"
)
KUBECONFIG = "contexts: [{name: lab, context: {}}, {name: prod, context: {}}]\n"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("UMBEL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("UMBEL_FEDERATION", raising=False)
    monkeypatch.setattr(context, "Client", Here)
    monkeypatch.setattr(Here, "names", ())
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def known(home: Path, tmp_path: Path) -> Connections:
    """A home that knows one federation elsewhere, in namespace fl of its hub."""
    made = alone.ensure(tmp_path / "made", "hub", ["127.0.0.1"], now=datetime.now(UTC))
    token = tmp_path / "token"
    token.write_text("umbel_omar\n")
    found = Connections(home)
    found.store("hospitals", Connection(Remote("127.0.0.1:9", made.ca, token), "clinics", "fl"))
    return found


def call(command: object, *words: str) -> Result:
    app = typer.Typer()
    command.register(app)  # type: ignore[attr-defined]
    return CliRunner().invoke(app, words)


@pytest.mark.parametrize("named", [(), ("-n", "hospitals")])
def test_scaling_one_elsewhere_says_what_to_write_there(
    known: Connections, named: tuple[str, ...]
) -> None:
    assert known.names() == ["hospitals"]
    said = call(scale, "gpu", "5", *named)
    assert said.exit_code == 2
    assert "error[U392]" in said.output
    told = " ".join(said.output.split())
    assert "at 127.0.0.1:9" in told
    assert "placement.numberOfClusters of its group gpu to 5" in told
    assert "kubectl -n fl edit federation clinics" in told


@pytest.mark.parametrize("named", [(), ("-n", "hospitals")])
def test_ending_one_elsewhere_says_how(known: Connections, named: tuple[str, ...]) -> None:
    said = call(down, *named)
    assert said.exit_code == 2
    assert "error[U392]" in said.output
    assert "kubectl -n fl delete federation clinics" in " ".join(said.output.split())
    assert known.names() == ["hospitals"]


def test_one_here_comes_before_one_elsewhere(
    known: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert known.names()
    monkeypatch.setattr(Here, "names", ("local",))
    assert context.here("", lambda _: "")[1] == "local"
    with pytest.raises(FederationUnknown, match="there are: local, hospitals"):
        context.here("typo", lambda _: "")
    monkeypatch.setattr(Here, "names", ("local", "hospitals"))
    assert context.here("hospitals", lambda _: "")[1] == "hospitals"


def test_several_elsewhere_must_be_told_apart(known: Connections) -> None:
    known.store("labs", known.load("hospitals"))
    with pytest.raises(context.FederationAmbiguous, match="hospitals, labs"):
        context.here("", lambda _: "")


def test_a_namespace_that_nobody_knows_is_left_to_the_reader(known: Connections) -> None:
    found = known.load("hospitals")
    assert found.in_namespace == "-n fl "
    known.store("hospitals", Connection(found.remote, "clinics"))
    assert known.load("hospitals").in_namespace == "-n NAMESPACE "


def test_a_connection_is_forgotten_when_asked(known: Connections) -> None:
    said = call(connect, "hospitals", "--forget")
    assert said.exit_code == 0, said.output
    assert known.names() == []
    again = call(connect, "hospitals", "--forget")
    assert (again.exit_code, "error[U321]" in again.output) == (2, True)
    assert not known.forget("../..")


def test_somebody_elses_token_is_not_made_up(known: Connections, tmp_path: Path) -> None:
    assert known.names()
    said = call(connect, str(tmp_path / "flwr"), "--user", "nora")
    assert said.exit_code == 2
    assert "error[U394]" in said.output
    assert not (tmp_path / "flwr").exists()
    assert call(connect, str(tmp_path / "flwr")).exit_code == 0


@pytest.mark.parametrize("command", [up, plan, down])
@pytest.mark.parametrize("words", [("--kubeconfig", "hub.yaml"), ("--context", "lab")])
def test_a_kubeconfig_for_one_machine_is_refused(
    command: object, words: tuple[str, ...], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not home.exists()
    monkeypatch.setattr(Here, "names", ("local",))
    said = call(command, *words)
    assert said.exit_code == 2
    assert "error[U391]" in said.output


@pytest.mark.parametrize("command", [up, plan, down])
def test_a_context_that_is_not_there_is_told_with_those_that_are(
    command: object, home: Path, tmp_path: Path
) -> None:
    assert not home.exists()
    file, hub = tmp_path / "federation.yaml", tmp_path / "hub.yaml"
    file.write_text(ON_CLUSTERS)
    hub.write_text(KUBECONFIG)
    said = call(command, "-f", str(file), "--kubeconfig", str(hub), "--context", "hub")
    assert said.exit_code == 2
    told = " ".join(said.output.split())
    assert "error[U370]" in told
    assert "no context 'hub'" in told
    assert "contexts: lab, prod" in told
    missing = call(command, "-f", str(file), "--kubeconfig", str(tmp_path / "none"))
    assert (missing.exit_code, "No such file" in missing.output) == (2, True)


def test_the_name_of_a_federation_here_does_not_go_to_a_hub(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not home.exists()
    monkeypatch.setattr(Here, "names", ("hospitals",))
    file = tmp_path / "federation.yaml"
    file.write_text(ON_CLUSTERS)
    said = call(up, "-f", str(file))
    assert said.exit_code == 2
    assert "error[U393]" in said.output


@pytest.mark.parametrize(("basis", "goes_on"), [("then", False), ("now", True), ("", True)])
def test_a_basis_counts_on_a_hub_too(
    basis: str, goes_on: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not home.exists()
    done: list[str] = []

    def speak(_: object, __: hub.Way, doing: str, ___: object) -> dict[str, str]:
        done.append(doing)
        if doing == "looking":
            return {"basis": "now"}
        raise NothingRuns  # far enough

    monkeypatch.setattr(hub, "_with", speak)
    federation = load(ON_CLUSTERS)
    with pytest.raises(NothingRuns if goes_on else PlanOutdated):
        hub.up(federation, hub.Way(), basis=basis, rotate_ca=False)
    assert ("coming up" in done) is goes_on
