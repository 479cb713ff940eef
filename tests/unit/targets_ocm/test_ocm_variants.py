from __future__ import annotations

from typing import Any

import pytest

from umbel.model.federation import Group
from umbel.model.kubernetes import Mirror, Proxy
from umbel.targets.ocm.pods import mirrored, proxied
from umbel.targets.ocm.variants import Variant, variants

GPU = {"nodeSelector": {"gpu": "yes"}}
MIRROR = {"mirrors": [{"source": "docker.io", "mirror": "mirror.example.org"}]}


def group(name: str = "eu", /, **kubernetes: Any) -> Group:
    return Group.model_validate({"name": name, "on": "ocm", "kubernetes": kubernetes})


def told(found: list[Variant]) -> dict[str, list[tuple[str, ...]]]:
    """Give who each variant is for, by its key."""
    return {one.key: [share.expressions for share in one.shares] for one in found}


def test_clusters_without_values_of_their_own_are_alike() -> None:
    assert told(variants([group()], {})) == {"": [()]}
    assert told(variants([group(), group("us")], {"berlin": "eu"})) == {"": [(), ()]}


def test_a_cluster_with_the_same_values_is_not_set_apart() -> None:
    own = {"berlin": {"resources": {"limits": {"cpu": "2"}}, "nodeConfig": {"site": 1}}}
    assert told(variants([group(clusters=own)], {})) == {"": [()]}


def test_clusters_with_values_of_their_own_are_named_on_both_sides() -> None:
    own = {"rome": GPU, "berlin": GPU, "oslo": MIRROR}
    assert told(variants([group(clusters=own)], {})) == {
        "": [('!(managedCluster.metadata.name in ["berlin", "oslo", "rome"])',)],
        "eu/berlin": [('managedCluster.metadata.name in ["berlin", "rome"]',)],
        "eu/oslo": [('managedCluster.metadata.name in ["oslo"]',)],
    }


def test_a_cluster_that_two_groups_choose_is_served_as_its_own_group_says() -> None:
    found = variants([group(), group("us", **GPU)], {"rome": "eu", "boston": "us"})
    assert told(found) == {
        "": [('!(managedCluster.metadata.name in ["boston"])',)],
        "us": [('!(managedCluster.metadata.name in ["rome"])',)],
    }


def test_a_cluster_of_a_group_that_does_not_have_the_environment_is_left_out() -> None:
    assert told(variants([group("us")], {"rome": "eu", "boston": "us"})) == {
        "": [('!(managedCluster.metadata.name in ["rome"])',)]
    }


def test_values_for_a_cluster_that_belongs_to_another_group_serve_nobody() -> None:
    first, second = group(), group("us", clusters={"rome": GPU})
    assert told(variants([first, second], {"rome": "eu"})) == {
        "": [(), ('!(managedCluster.metadata.name in ["rome"])',)]
    }


def test_a_groups_values_may_be_those_of_a_single_cluster() -> None:
    found = variants([group(clusters={"rome": GPU}), group("us", **GPU)], {})
    assert told(found) == {
        "": [('!(managedCluster.metadata.name in ["rome"])',)],
        "eu/rome": [('managedCluster.metadata.name in ["rome"]',), ()],
    }
    assert found[1].values.settings.node_selector == {"gpu": "yes"}


def test_a_folder_of_its_own_sets_a_cluster_apart() -> None:
    found = variants([group(clusters={"rome": {"hostPath": "/mnt"}})], {})
    assert [one.values.data for one in found] == ["", "/mnt"]


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        ("docker.io/a/b:1", "m.example.org/a/b:1"),
        ("quay.io/a/b:1", "quay.io/a/b:1"),
        ("docker.io/special/b:1", "s.example.org/b:1"),
    ],
)
def test_the_last_mirror_that_fits_counts_as_ocm_does_it(image: str, wanted: str) -> None:
    mirrors = [
        Mirror(source="docker.io", mirror="m.example.org/"),
        Mirror(source="docker.io/special/", mirror="s.example.org"),
    ]
    assert mirrored(image, mirrors) == wanted


def test_what_is_near_is_reached_by_no_proxy() -> None:
    assert proxied(Proxy(no_proxy="x"), "node.svc") == {}
    found = proxied(Proxy(https_proxy="http://p.example.org:3128", no_proxy="x"), "node.svc")
    assert found["HTTPS_PROXY"] == found["https_proxy"] == "http://p.example.org:3128"
    assert found["NO_PROXY"] == "x,localhost,127.0.0.1,node.svc"
    assert "HTTP_PROXY" not in found


def test_with_one_group_it_does_not_matter_who_is_there() -> None:
    only = [group(clusters={"rome": GPU})]
    assert variants(only, {"rome": "eu", "oslo": "eu"}) == variants(only, {})
