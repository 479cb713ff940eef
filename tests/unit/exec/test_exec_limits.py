from __future__ import annotations

import os
from pathlib import Path

import pytest

from umbel.exec import cgroups, limits
from umbel.exec.limits import Seats, Share


@pytest.mark.parametrize(
    ("per_task", "site", "most"),
    [
        (Share(), Share(), None),
        (Share(), Share(cpu=4), None),
        (Share(cpu=1), Share(), None),
        (Share(cpu=1), Share(cpu=4), 4),
        (Share(cpu=0.1), Share(cpu=0.3), 3),
        (Share(cpu=3), Share(cpu=4), 1),
        (Share(cpu=8), Share(cpu=4), 1),
        (Share(cpu=1, gpu=1), Share(cpu=4, gpu=2), 2),
        (Share(gpu=2), Share(cpu=4, gpu=2), 1),
    ],
)
def test_a_site_runs_as_many_tasks_as_it_has_room_for(
    per_task: Share, site: Share, most: int | None
) -> None:
    assert limits.at_once(per_task, site) == most


def test_the_places_of_a_machine_do_not_overlap() -> None:
    assert limits.core_ranges(1, 2) == [(0, 100), (100, 100)]
    assert limits.core_ranges(0.5, 1) == [(0, 50), (50, 50)]
    assert limits.core_ranges(1.5, 2) == [(0, 150)]
    assert limits.core_ranges(64, 2) == [(0, 200)]


def test_tasks_have_the_devices_that_the_user_shows() -> None:
    assert limits.visible_devices({}, ["10", "0", "2", "ctl"]) == ("0", "2", "10")
    assert limits.visible_devices({"CUDA_VISIBLE_DEVICES": "3, GPU-a"}, ["0"]) == ("3", "GPU-a")
    assert limits.visible_devices({"CUDA_VISIBLE_DEVICES": ""}, ["0"]) == ()


def test_two_executors_share_the_cores_of_a_machine(tmp_path: Path) -> None:
    cores = float(os.cpu_count() or 1)
    one, other = (Seats(tmp_path, Share(cpu=cores), Share(), ()) for _ in range(2))
    seat = one.take(0)
    assert seat is not None
    assert other.take(0) is None
    seat.close()
    again = other.take(0)
    assert again is not None
    again.close()


def test_each_task_has_devices_of_its_own(tmp_path: Path) -> None:
    one, other = (Seats(tmp_path, Share(gpu=2), Share(), ("0", "1", "2")) for _ in range(2))
    seat = one.take(0)
    assert seat is not None
    assert seat.devices == ("0", "1")
    assert other.take(0) is None
    seat.close()
    again = other.take(0)
    assert again is not None
    assert again.devices == ("0", "1")
    again.close()


def test_what_a_machine_does_not_have_is_told_instead_of_waited_for(tmp_path: Path) -> None:
    seats = Seats(tmp_path, Share(gpu=2), Share(), ("0",))
    assert seats.lacking == "asks for 2 GPUs, and this machine has 1"
    assert Seats(tmp_path, Share(), Share(), ()).lacking == ""


def test_a_declared_limit_counts_the_tasks_that_run(tmp_path: Path) -> None:
    seats = Seats(tmp_path, Share(cpu=2), Share(cpu=4), ())
    assert seats.take(1) is not None
    assert seats.take(2) is None


def test_without_limits_there_is_always_a_place(tmp_path: Path) -> None:
    seat = Seats(tmp_path / "never", Share(), Share(), ()).take(1000)
    assert seat is not None
    assert seat.devices is None
    assert not (tmp_path / "never").exists()


def test_a_death_near_the_limit_says_so() -> None:
    cause = "was killed by SIGABRT"
    assert limits.memory_cause(0, cause, 1 << 40, killed=False) == cause
    assert limits.memory_cause(1 << 30, cause, 1 << 20, killed=False) == cause
    told = f"reached its memory limit of 1024 MiB and {cause}"
    assert limits.memory_cause(1 << 30, cause, 1 << 30, killed=False) == told
    assert limits.memory_cause(1 << 30, cause, 0, killed=True) == told


def test_the_memory_that_a_process_may_write_to_is_read() -> None:
    assert limits.data_bytes("VmPeak:\t 9 kB\nVmData:\t    2048 kB\n") == 2 << 20
    assert limits.data_bytes("") == 0


def fake_group(folder: Path, controllers: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "cgroup.subtree_control").write_text(controllers)
    return folder


def test_a_task_gets_a_group_where_memory_is_counted(tmp_path: Path) -> None:
    own = fake_group(tmp_path / "slice", "cpu memory pids\n")
    group = cgroups.make("7", 1 << 20, own)
    assert group is not None
    assert (own / "umbel-7" / "memory.max").read_text() == str(1 << 20)
    group.enter(42)
    assert (own / "umbel-7" / "cgroup.procs").read_text() == "42"
    assert not group.was_full()
    (own / "umbel-7" / "memory.events").write_text("oom 1\noom_kill 1\n")
    assert group.was_full()


def test_beside_us_is_good_too_and_nowhere_is_told(tmp_path: Path) -> None:
    above = fake_group(tmp_path / "slice", "memory\n")
    own = fake_group(above / "unit", "")
    assert cgroups.make("7", 1, own) is not None
    assert (above / "umbel-7" / "memory.max").exists()
    assert cgroups.make("7", 1, fake_group(tmp_path / "none", "cpu\n")) is None
    assert cgroups.make("7", 1, None) is None


def test_our_own_group_is_that_of_version_two() -> None:
    text = "4:memory:/x\n0::/user.slice/me\n"
    assert cgroups.own_group(text, Path("/m")) == Path("/m/user.slice/me")
    assert cgroups.own_group("4:memory:/x\n") is None
