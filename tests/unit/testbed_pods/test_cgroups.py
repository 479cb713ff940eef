from __future__ import annotations

from pathlib import Path

import pytest
from testbed.pods import cgroups


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for hierarchy in cgroups.HIERARCHIES:
        (tmp_path / hierarchy).mkdir()
    (tmp_path / "cpuset/cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset/cpuset.mems").write_text("0\n")
    return tmp_path


def test_a_new_cpuset_is_filled_from_the_root(tree: Path) -> None:
    cgroups.make("umbel-tb-x", tree)
    assert (tree / "cpuset/umbel-tb-x/cpuset.cpus").read_text() == "0-1\n"
    assert (tree / "cpuset/umbel-tb-x/cpuset.mems").read_text() == "0\n"


def test_a_node_has_a_group_in_every_hierarchy(tree: Path) -> None:
    cgroups.make("umbel-tb-x", tree)
    assert len(cgroups.ours(tree)) == len(cgroups.HIERARCHIES)


def test_groups_of_others_are_never_ours(tree: Path) -> None:
    (tree / "memory/umbel-other").mkdir()
    assert cgroups.ours(tree) == []


def test_members_are_those_of_the_group_and_below(tree: Path) -> None:
    group = tree / "pids/umbel-tb-x"
    (group / "kubepods/pod1").mkdir(parents=True)
    (group / "cgroup.procs").write_text("1000001\n")
    (group / "kubepods/pod1/cgroup.procs").write_text("1000002\n1000003\n")
    assert cgroups.members(group) == {1000001, 1000002, 1000003}


def test_a_group_is_removed_with_all_below(tree: Path) -> None:
    for hierarchy in cgroups.HIERARCHIES:
        (tree / hierarchy / "umbel-tb-x/kubepods/pod1").mkdir(parents=True)
    cgroups.remove_all(tree)
    assert cgroups.ours(tree) == []


def test_a_host_without_the_groups_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(cgroups.NoControlGroups, match="no control group hierarchy"):
        cgroups.make("umbel-tb-x", tmp_path)
