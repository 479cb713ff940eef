"""A federation that seems to run: certificates, doors, ports, units and data are really tried."""

from __future__ import annotations

import os
import shutil
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from umbel.diagnosis.checks import judge
from umbel.diagnosis.finding import Severity
from umbel.diagnosis.gather import doors
from umbel.files import write_private
from umbel.identity import leaves
from umbel.identity.authority import Authority
from umbel.model.unit import HUB, Kind, Unit
from umbel.ports import Kept
from umbel.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from tests.integration.diagnosis.conftest import Standing

# No daemon supervises these homes: that is found in every one of them.
ALONE = "DaemonGone"


@pytest.fixture
def well(standing: Standing) -> Standing:
    standing.declare()
    standing.certify()
    standing.open()
    return standing


def test_where_all_is_well_only_the_daemon_is_missed(well: Standing) -> None:
    assert list(well.found()) == [ALONE]


def test_an_expired_certificate_is_the_one_thing_told(standing: Standing) -> None:
    standing.declare()
    standing.certify(datetime.now(UTC) - timedelta(days=10), days=2)
    standing.open()
    found = standing.found()
    assert set(found) == {ALONE, "CertificateExpired"}
    assert "umbel up" in found["CertificateExpired"].hint


def test_a_certificate_that_ends_soon_is_a_warning(standing: Standing) -> None:
    standing.declare()
    standing.certify(days=3)
    standing.open()
    found = standing.found()
    assert found["CertificateEndsSoon"].severity is Severity.WARNING


def test_a_certificate_of_another_ca_is_told(well: Standing, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "o", "x", now=datetime.now(UTC), days=9, secret=None)
    hub = well.layout.place(HUB)
    (hub / "server.crt").unlink()
    names = ("localhost", "127.0.0.1")
    leaves.ensure(other, hub, "server", names, now=datetime.now(UTC), days=9)
    assert set(well.found()) == {ALONE, "CertificateWrongCa"}


def test_a_key_of_another_certificate_is_told(well: Standing, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "o", "x", now=datetime.now(UTC), days=9, secret=None)
    leaf = leaves.ensure(other, tmp_path, "x", ["localhost"], now=datetime.now(UTC), days=9)
    shutil.copy(leaf.key, well.layout.place(HUB) / "server.key")
    assert "CertificateKeyMismatch" in well.found()


def test_files_of_the_future_tell_of_a_clock_that_is_behind(well: Standing) -> None:
    write_private(well.layout.audit, '{"at":"2099-01-01T00:00:00.000Z","what":"x"}\n')
    found = well.found()
    assert set(found) == {ALONE, "ClockBehind"}
    assert "audit.jsonl" in found["ClockBehind"].fact


def test_a_certificate_of_the_future_is_explained_by_the_clock(standing: Standing) -> None:
    standing.declare()
    standing.certify(datetime.now(UTC) + timedelta(days=2))
    standing.open()
    assert set(standing.found()) == {ALONE, "ClockBehind"}


def test_a_door_that_lets_strangers_in_is_a_problem(standing: Standing) -> None:
    standing.declare()
    standing.certify()
    standing.open(status=200)
    assert standing.found()["StrangerLetIn"].severity is Severity.PROBLEM


def test_a_port_that_another_program_holds_is_told_with_its_name(well: Standing) -> None:
    me = Unit("local", HUB, Kind.GATE)
    store = SqliteStore(well.home)
    store.save_unit(Kept(me, 2**22 + 1, 1))  # a process that cannot be
    store.close()
    found = well.found()
    assert f"process {os.getpid()} " in found["PortTaken"].fact


def test_a_dead_unit_is_told_with_its_last_words(well: Standing) -> None:
    store = SqliteStore(well.home)
    store.save_unit(Kept(Unit("local", HUB, Kind.SUPERLINK), 2**22 + 1, 1))
    store.close()
    well.layout.log(HUB, "superlink").write_text("all fine\nout of memory\n")
    well.layout.exit_note(HUB, "superlink").write_text(f"{2**22 + 1} 137\n")
    (found,) = [f for f in judge(well.facts()) if f.name == "UnitDead"]
    assert found.about == "local/hub/superlink"
    assert "ended with 137" in found.fact
    assert found.fact.endswith("out of memory")


def test_a_data_folder_that_is_not_there_is_a_problem(standing: Standing, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "file").touch()
    groups = [
        {"name": name, "sites": 1, "data": {"hostPath": str(tmp_path / name)}}
        for name in ("here", "gone", "file")
    ]
    standing.declare(groups=groups)
    standing.certify()
    standing.open()
    facts = {f.about: f.fact for f in judge(standing.facts()) if f.name == "DataUnreadable"}
    assert set(facts) == {"local/gone", "local/file"}
    assert "is not there" in facts["local/gone"]
    assert "is not a folder" in facts["local/file"]


def test_nobody_at_the_door_is_told_as_it_is(standing: Standing) -> None:
    standing.declare()
    standing.certify()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    standing.tell(port)
    (door,) = doors.look(standing.layout.gate_config, standing.layout.bundle, "127.0.0.1")
    assert "refused" in door.closed


def test_a_name_that_is_an_address_needs_no_name_server() -> None:
    assert doors.why_unresolved("127.0.0.1") == ""
    assert doors.why_unresolved("[::1]") == ""
    assert doors.why_unresolved("no-such-name.invalid") != ""
