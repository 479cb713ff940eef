from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from testbed.pods import settings
from testbed.pods.images import PAUSE
from testbed.pods.plan import GATEWAY, NodePlan
from testbed.pods.settings import NodeFiles

NODE, OTHER = NodePlan("hub", 0, 1), NodePlan("hub", 0, 2)
FILES, OTHERS = NodeFiles(Path("/state/hub-1")), NodeFiles(Path("/state/hub-2"))
PAIR = (Path("/pki/n.crt"), Path("/pki/n.key"))
CA = Path("/pki/ca.crt")


def test_containerd_keeps_everything_in_the_nodes_folder() -> None:
    said = tomllib.loads(settings.containerd_config(FILES))
    cri = said["plugins"]["io.containerd.cri.v1.runtime"]
    places = [said["root"], said["state"], said["grpc"]["address"], cri["cni"]["conf_dir"]]
    assert all(place.startswith("/state/hub-1/") for place in places)
    assert cri["netns_mounts_under_state_dir"] is True


def test_containerd_asks_nothing_that_this_host_refuses() -> None:
    said = tomllib.loads(settings.containerd_config(FILES))
    cri = said["plugins"]["io.containerd.cri.v1.runtime"]
    assert (said["oom_score"], cri["restrict_oom_score_adj"], cri["disable_apparmor"]) == (
        0,
        True,
        True,
    )
    assert said["plugins"]["io.containerd.cri.v1.images"]["pinned_images"] == {"sandbox": PAUSE}
    assert cri["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is False


def test_pods_get_addresses_of_their_node_from_a_folder_of_its_own() -> None:
    bridge = settings.cni_config(NODE, FILES)["plugins"][0]
    assert bridge["ipam"]["ranges"] == [[{"subnet": NODE.pods}]]
    assert bridge["ipam"]["dataDir"].startswith("/state/hub-1/")


def test_a_kubelet_takes_nobody_without_a_certificate_or_a_right() -> None:
    said = settings.kubelet_config(NODE, FILES, CA, PAIR)
    assert said["authentication"]["anonymous"] == {"enabled": False}
    assert said["authentication"]["x509"] == {"clientCAFile": str(CA)}
    assert said["authorization"] == {"mode": "Webhook"}


def test_a_kubelet_accepts_this_host_and_has_a_tree_of_its_own() -> None:
    said = settings.kubelet_config(NODE, FILES, CA, PAIR)
    assert (said["failCgroupV1"], said["cgroupDriver"], said["oomScoreAdj"]) == (
        False,
        "cgroupfs",
        0,
    )
    assert said["cgroupRoot"] == f"/{NODE.namespace}"
    assert said["imageGCHighThresholdPercent"] == 100  # nothing could be pulled again


@pytest.mark.parametrize("flags", [settings.kubelet_flags, settings.proxy_flags])
def test_two_nodes_share_no_value_but_the_clusters(flags: object) -> None:
    assert callable(flags)
    common = set(flags(NODE, FILES)) & set(flags(OTHER, OTHERS))
    assert not any("hub-" in flag or "10.81." in flag for flag in common)


def test_fixed_places_are_the_nodes_own_before_it_is_called_mounted() -> None:
    lines = settings.mount_script(FILES).splitlines()
    for fixed, mine in FILES.own().items():
        assert lines.index(f"mount --bind '{mine}' '{fixed}'") < lines.index(
            f"touch '{FILES.ready}'"
        )
    assert lines[-1].startswith("exec ")


def test_the_api_server_reaches_nodes_only_through_the_relay() -> None:
    said = settings.egress_config(Path("/state/hub.sock"))
    (chosen,) = said["egressSelections"]
    assert chosen["name"] == "cluster"
    assert chosen["connection"]["transport"] == {"uds": {"udsName": "/state/hub.sock"}}


def test_the_api_server_proves_itself_to_kubelets_and_checks_them() -> None:
    flags = settings.apiserver_flags(Path("/e"), PAIR, CA)
    assert f"--kubelet-certificate-authority={CA}" in flags
    assert f"--advertise-address={GATEWAY}" in flags
    assert "--authorization-mode=Node,RBAC" in flags
