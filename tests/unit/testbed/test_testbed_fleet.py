"""A fleet file says what clusters there are, or what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed.fleet import Cluster, Fleet, FleetWrong, load, of_size


def fleet_file(folder: Path, text: str) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(text)
    return path


def test_a_fleet_has_names_labels_claims_and_capacity(tmp_path: Path) -> None:
    text = """
clusters:
- name: berlin
  labels: {gpu: "true"}
  claims: {region: eu}
  capacity: {nvidia.com/gpu: "2"}
- name: paris
"""
    berlin, paris = load(fleet_file(tmp_path, text)).clusters
    assert (berlin.name, berlin.labels, berlin.claims) == (
        "berlin",
        {"gpu": "true"},
        {"region": "eu"},
    )
    assert berlin.capacity == {"nvidia.com/gpu": "2"}
    assert paris.labels == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clusters: []", "at least 1"),
        ("clusters: [{name: Berlin}]", "cannot name"),
        ("clusters: [{name: hub}]", "cannot name"),
        ("clusters: [{name: a}, {name: a}]", "same name"),
        ("clusters: [{name: a, lables: {}}]", "lables"),
        ("clusters: [", "fleet.yaml"),
    ],
)
def test_a_wrong_fleet_is_told_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FleetWrong, match=words):
        load(fleet_file(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FleetWrong, match=r"missing\.yaml"):
        load(tmp_path / "missing.yaml")


def test_a_number_gives_so_many_clusters() -> None:
    assert [cluster.name for cluster in of_size(3).clusters] == ["cluster1", "cluster2", "cluster3"]


def test_a_cluster_has_one_real_node_unless_it_says_more() -> None:
    fleet = Fleet(clusters=(Cluster(name="berlin", nodes=2), Cluster(name="boston")))
    assert fleet.nodes == {"hub": 1, "berlin": 2, "boston": 1}
    with pytest.raises(ValueError, match="nodes"):
        Cluster(name="empty", nodes=0)
