"""Identity and TLS: sites prove who they are by a way that only their own cluster has."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from testbed.api import Api, Object, Refused
from testbed.bed import Bed
from testbed.waiting import eventually
from tests.clusters.ocm.conftest import Turning
from tests.clusters.ocm.stories import (
    ADDON,
    WORK,
    Federation,
    Person,
    condition,
    label,
    online,
)

from umbel.identity.node_keys import PRIVATE
from umbel.targets.ocm.sites import SITE

pytestmark = pytest.mark.timeout(600)
AUDIT = "/var/umbel/gate/umbel/audit.jsonl"
GIVEN = ("default", "kube-")  # what every namespace has of itself
AGENT = "open-cluster-management-agent"
SITE_PARTS = (
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("apps/v1", "Deployment"),
)


def test_an_app_trains_across_two_clusters_over_tls_with_node_authentication(
    hospitals: Federation, owner: Person
) -> None:
    ended = owner.runs()
    assert ended.status == "completed"
    assert ended.rounds == [[0, 1]] * 3
    assert ended.model == [4.5] * 3  # each round adds the mean of 1 and 2
    keys = {site["fingerprint"] for site in hospitals.seen()["status"]["sites"]}
    assert len(keys) == 2


def key_of(spoke: Api, federation: Federation) -> bytes:
    """Give the private key that a site made; its own cluster keeps it."""
    found = spoke.get("v1", "Secret", SITE, federation.names.addon)
    assert found is not None
    return base64.b64decode(found["data"][PRIVATE])


def whole(hub: Api) -> str:
    """Give everything of the hub that could hold a key, decoded."""
    kinds = (
        *(("v1", "Secret"), ("v1", "ConfigMap"), (WORK, "ManifestWork")),
        *((ADDON, "AddOnTemplate"), (ADDON, "AddOnDeploymentConfig")),
        *((ADDON, "ManagedClusterAddOn"), ("umbel.dev/v1alpha1", "Federation")),
    )
    found = [content for kind in kinds for content in hub.list(*kind)]
    secrets = [value for one in found for value in (one.get("data") or {}).values()]
    plain = [base64.b64decode(v) if _is_coded(v) else str(v).encode() for v in secrets]
    return json.dumps(found) + b"\n".join(plain).decode(errors="replace")


def _is_coded(value: str) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        return False
    return True


def test_no_private_key_of_a_site_is_ever_on_the_hub(
    hub: Api, hospitals: Federation, spokes: Mapping[str, Api]
) -> None:
    text = whole(hub)
    for spoke in spokes.values():
        key = key_of(spoke, hospitals)
        body = key.decode().splitlines()[1]
        assert len(body) > 40
        assert body not in text
        assert base64.b64encode(key).decode() not in text
    told = hospitals.secret(hospitals.names.user_secret("owner"))["ca.crt"].decode()
    assert told.splitlines()[1] in text  # what is there would have been found


def agent_of(spoke: Api, hub: Api, folder: Path) -> Api:
    """Speak to the hub as the agent of a cluster does, with its own credential."""
    found = spoke.get("v1", "Secret", "hub-kubeconfig-secret", AGENT)
    assert found is not None
    trust = spoke.server and hub.server
    user = {
        "client-certificate-data": found["data"]["tls.crt"],
        "client-key-data": found["data"]["tls.key"],
    }
    held = yaml.safe_load(base64.b64decode(found["data"]["kubeconfig"]))
    authority = held["clusters"][0]["cluster"]["certificate-authority-data"]
    cluster = {"server": trust, "certificate-authority-data": authority}
    config = {"clusters": [{"cluster": cluster}], "users": [{"user": user}]}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return Api(path)


def works(hub: Api, federation: Federation, cluster: str) -> Object:
    mark = f"open-cluster-management.io/addon-name={federation.names.addon}"
    return next(iter(hub.list(WORK, "ManifestWork", cluster, mark)))


def test_a_cluster_cannot_report_for_another(
    hub: Api, hospitals: Federation, spokes: Mapping[str, Api], tmp_path: Path
) -> None:
    own, other = (works(hub, hospitals, name) for name in ("berlin", "boston"))
    with agent_of(spokes["berlin"], hub, tmp_path) as berlin:

        def claim(work: Object) -> Object:
            meta = work["metadata"]
            path = berlin.path(WORK, "ManifestWork", meta["namespace"], meta["name"])
            return berlin.patch(f"{path}/status", {"status": {}})

        assert claim(own)["metadata"]["namespace"] == "berlin"
        with pytest.raises(Refused, match="is forbidden") as refused:
            claim(other)
    assert refused.value.status == 403


@pytest.fixture
def impostor(hospitals: Federation, spokes: Mapping[str, Api]) -> Iterator[str]:
    """Berlin's own administrator lets it show boston's public key as its own."""
    space = hospitals.names.addon
    shown = {}
    for name, spoke in spokes.items():
        found = spoke.get("v1", "ConfigMap", SITE, space)
        assert found is not None
        shown[name] = {key: found["data"][key] for key in ("publicKey", "fingerprint")}
    path = spokes["berlin"].path("v1", "ConfigMap", space, SITE)
    spokes["berlin"].patch(path, {"data": shown["boston"]})
    yield "berlin"
    spokes["berlin"].patch(path, {"data": shown["berlin"]})
    hospitals.until_ready("berlin", "boston")  # with its own key it is welcome again


def test_a_cluster_that_claims_to_be_another_is_refused(
    hospitals: Federation, impostor: str, owner: Person
) -> None:
    seen = hospitals.wait(lambda seen: condition(seen, "KeysAdmitted").get("status") == "False")
    said = condition(seen, "KeysAdmitted")
    assert said["reason"] == "KeyRefused"
    assert said["message"].startswith(f"{impostor}: ")
    assert "belongs to site 'boston'" in said["message"]
    assert condition(seen, "Ready")["status"] == "False"
    assert online(seen) == {"boston"}  # whose key it is
    assert all(1 in partitions for partitions in owner.runs(min_nodes=1).rounds)


def bare(content: Object) -> Object:
    """Give an object as somebody would write it down."""
    meta = {k: content["metadata"][k] for k in ("name", "namespace") if k in content["metadata"]}
    meta["labels"] = content["metadata"].get("labels", {})
    kept = ("spec", "data", "binaryData", "rules", "subjects", "roleRef")
    body = {key: content[key] for key in kept if key in content}
    return {"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": meta, **body}


def site_objects(spoke: Api, space: str) -> list[Object]:
    """List everything of a site, in the order of creation."""
    found = [
        {**content, "apiVersion": version, "kind": kind}
        for version, kind in SITE_PARTS
        for content in spoke.list(version, kind, "" if kind == "Namespace" else space)
    ]

    def is_own(one: Object) -> bool:
        name = one["metadata"]["name"]
        return name == space or (one["kind"] != "Namespace" and not name.startswith(GIVEN))

    return [bare(one) for one in found if is_own(one)]


def told(spoke: Api, space: str) -> str:
    """Give what a site's agent says of itself."""
    found = spoke.get("v1", "ConfigMap", SITE, space) or {}
    return str(found.get("data", {}).get("message", ""))


def refused(pods: Bed, federation: Federation) -> set[str]:
    """Say for which reasons the gate sent somebody away from the sites' door."""
    where = ("-n", federation.namespace, federation.hub_pod, "-c", "gate")
    lines = pods.kubectl("hub", "exec", *where, "--", "cat", AUDIT).splitlines()
    entries = [json.loads(line) for line in lines]
    return {one["why"] for one in entries if one.get("door") == "fleet" and "why" in one}


def test_a_cluster_that_left_is_not_let_in_again(
    pods: Bed, hub: Api, hospitals: Federation, spokes: Mapping[str, Api]
) -> None:
    boston, space = spokes["boston"], hospitals.names.addon
    kept, before = site_objects(boston, space), hospitals.site("boston")
    label(hub, "boston", hospital="closed")
    try:
        hospitals.until_ready("berlin")
        eventually("the end of the site", lambda: boston.get("v1", "Namespace", space) is None, 150)
        for content in kept:  # its own administrator starts it again, with the key that it had
            boston.apply(content)
        eventually("its agent's words", lambda: told(boston, space), 150)
        eventually("a refusal", lambda: "unknown site key" in refused(pods, hospitals), 150)
        assert hospitals.site("boston") == {}
        boston.delete("v1", "Namespace", space)
        eventually("the end of it", lambda: boston.get("v1", "Namespace", space) is None, 150)
    finally:
        label(hub, "boston", hospital=None)
    hospitals.until_ready("berlin", "boston")
    after = hospitals.site("boston")
    assert after["partitionId"] == before["partitionId"]
    assert after["fingerprint"] != before["fingerprint"]


def test_the_authority_changes_and_no_round_is_lost(turning: Turning) -> None:
    rotor = turning.federation

    def renewed() -> bool:
        bundle = rotor.secret(rotor.names.user_secret("owner"))["ca.crt"]
        return turning.authority not in bundle

    eventually("the end of the former authority", renewed, 300)
    again = turning.person.connect()
    assert again.returncode == 0, again.stderr
    ended = turning.person.ends(turning.run, 300)
    assert ended.status == "completed"
    assert ended.rounds == [[0]] * turning.rounds
    rotor.until_ready("berlin")
