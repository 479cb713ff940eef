from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from umbel.diagnosis import keepers, leftovers, parents
from umbel.diagnosis.checks import judge
from umbel.diagnosis.facts import (
    DoorSeen,
    Facts,
    FederationSeen,
    Keeper,
    KeeperState,
    LeftProcess,
    OldRuns,
    UnitSeen,
    UnsafeParent,
    Unseen,
)
from umbel.diagnosis.finding import Severity, causes
from umbel.diagnosis.gather import parents as gather_parents
from umbel.diagnosis.gather.processes import read_listeners

Builds = Callable[..., Facts]
TABLE = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 777 1\n"
    "   1: 0100007F:2385 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 778 1\n"
)


def test_a_killed_daemon_explains_what_it_no_longer_tells_and_restarts(
    healthy: Builds, a_federation: Callable[..., FederationSeen]
) -> None:
    dead = UnitSeen("hub/gate", False, "1", "boom", Path("/log"))
    federation = a_federation(
        units=(dead,),
        doors=(DoorSeen("control", "127.0.0.1:9093", closed="Connection refused"),),
        conditions=Unseen("Connection refused"),
    )
    facts = healthy(
        daemon=Keeper("daemon", KeeperState.STALE, "Connection refused"),
        nursery=Keeper("nursery", KeeperState.STALE, "Connection refused"),
        federations=(federation,),
    )
    bad = [f.name for f in causes(judge(facts)) if f.severity is not Severity.OK]
    assert bad == ["DaemonGone"]


def test_a_daemon_that_ended_with_federations_declared_is_a_problem(healthy: Builds) -> None:
    (found,) = keepers.daemon(healthy(daemon=Keeper("daemon", KeeperState.ABSENT)))
    assert found.severity is Severity.PROBLEM
    assert "local" in found.fact
    assert "umbel up" in found.hint


def test_a_daemon_that_only_listens_is_a_problem(healthy: Builds) -> None:
    (found,) = keepers.daemon(healthy(daemon=Keeper("daemon", KeeperState.SILENT, "no answer")))
    assert (found.name, found.severity) == ("DaemonSilent", Severity.PROBLEM)


def test_a_nursery_alone_that_is_gone_is_named(healthy: Builds) -> None:
    facts = healthy(nursery=Keeper("nursery", KeeperState.STALE, "refused", last_words="boom"))
    (found,) = [f for f in causes(judge(facts)) if f.severity is Severity.PROBLEM]
    assert found.name == "NurseryGone"
    assert "boom" in found.fact


def test_what_has_just_begun_is_given_time(healthy: Builds) -> None:
    facts = healthy(
        nursery=Keeper("nursery", KeeperState.ABSENT),
        daemon=Keeper("daemon", KeeperState.STALE),
        starting=True,
    )
    assert {f.severity for f in (*keepers.daemon(facts), *keepers.nursery(facts))} == {
        Severity.NOTE
    }


def test_sockets_that_were_left_where_nothing_is_declared_are_a_note(nothing_yet: Builds) -> None:
    facts = nothing_yet()
    assert list(leftovers.sockets(facts)) == []


def test_a_left_socket_is_no_problem_when_nothing_should_run(healthy: Builds) -> None:
    facts = healthy(
        daemon=Keeper("daemon", KeeperState.STALE),
        nursery=Keeper("nursery", KeeperState.STALE),
        federations=(),
    )
    bad = [f for f in causes(judge(facts)) if f.severity is not Severity.OK]
    assert [(f.name, f.severity) for f in bad] == [("SocketLeft", Severity.NOTE)] * 2


@pytest.mark.parametrize(
    "keeper",
    [
        Keeper("daemon", KeeperState.ALIVE, "", 40, "0.0.9", "/opt/umbel/bin/python"),
        Keeper("daemon", KeeperState.ALIVE, "", 40, "", "/other/bin/python"),
    ],
)
def test_a_keeper_of_another_version_or_environment_is_a_warning(
    healthy: Builds, keeper: Keeper
) -> None:
    (found,) = keepers.versions(healthy(daemon=keeper))
    assert (found.name, found.severity) == ("KeeperOutdated", Severity.WARNING)
    assert "40" in found.hint


def test_flower_that_may_call_home_is_a_problem(
    healthy: Builds, a_keeper: Callable[..., Keeper]
) -> None:
    loud = a_keeper("nursery", lets_flower_call=True)
    (found,) = keepers.silence(healthy(nursery=loud))
    assert (found.name, found.severity) == ("FlowerCallsHome", Severity.PROBLEM)


def test_each_left_process_is_named_with_how_to_end_it(healthy: Builds) -> None:
    (found,) = leftovers.processes(healthy(left=(LeftProcess(4711, "supernode:x"),)))
    assert found.severity is Severity.PROBLEM
    assert "supernode:x" in found.fact
    assert found.hint == "kill 4711"


def test_old_runs_are_a_note(healthy: Builds) -> None:
    old = OldRuns(Path("/h/runs"), 3, 5 << 20, 90)
    (found,) = leftovers.runs(healthy(old_runs=(old,)))
    assert found.severity is Severity.NOTE
    assert "3 runs" in found.fact
    assert "5 MiB" in found.fact


def test_only_listening_sockets_are_read_from_the_kernels_table() -> None:
    (found,) = read_listeners(TABLE)
    assert (found.port, found.inode, found.user) == (9092, "777", 1000)


def test_a_parent_that_cannot_fork_is_a_note(healthy: Builds, tmp_path: Path) -> None:
    assert list(parents.forking(healthy())) == []
    (tmp_path / "run" / "parents").mkdir(parents=True)
    (tmp_path / "run" / "parents" / "0abc-warm.unsafe").write_text("2 threads run\n")
    seen = gather_parents.unsafe(tmp_path)
    assert seen == (UnsafeParent("0abc", "2 threads run"),)
    (found,) = parents.forking(healthy(unsafe=seen))
    assert (found.name, found.severity) == ("ForkUnsafe", Severity.NOTE)
    assert "2 threads run" in found.fact
