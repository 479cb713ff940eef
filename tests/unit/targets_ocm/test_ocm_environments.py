from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from umbel.model.federation import Federation
from umbel.targets.ocm import environments, sites
from umbel.targets.ocm.environments import ADDON_LABEL, Sent
from umbel.targets.ocm.names import Names

NAMES = Names("fl", "lab")
ADDON = {"key": f"{ADDON_LABEL}{NAMES.addon}", "operator": "Exists"}
VISION = {"name": "vision", "app": "clinic/vision", "image": {"name": "vision:1"}}


def federation(*declared: Any, groups: Any = None) -> Federation:
    spec = {
        "superlink": {"on": "ocm", "endpoint": "fl.example.org"},
        "groups": groups or [{"name": "eu", "on": "ocm"}],
        "runtime": {"environments": list(declared)},
    }
    return Federation.model_validate({"metadata": {"name": "lab"}, "spec": spec})


def sent(groups: Any = None, /, **more: Any) -> Sent:
    made = federation({**VISION, **more}, groups=groups)
    return environments.sent_by(made, NAMES, "umbel:1", {})[0]


def labelled(**labels: str) -> dict[str, Any]:
    return {"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}


def selected(one: Sent) -> list[Any]:
    """Give what each alternative asks of a cluster's labels, besides the add-on's."""
    predicates = environments.placement(one)["spec"]["predicates"]
    found = [p["requiredClusterSelector"]["labelSelector"]["matchExpressions"] for p in predicates]
    assert all(each[0] == ADDON for each in found)
    return [{e["key"]: e.get("values") for e in each[1:]} for each in found]


def deployment(one: Sent) -> Any:
    return environments.manifests(one)[1]


def pod(one: Sent) -> Any:
    return deployment(one)["spec"]["template"]["spec"]


def test_an_environment_goes_to_clusters_that_have_the_addon_in_whatever_state() -> None:
    assert selected(sent()) == [{}]


def test_a_cluster_satisfies_its_group_and_the_environment() -> None:
    groups = [
        {
            "name": "eu",
            "on": "ocm",
            "placement": {"predicates": [labelled(zone="a"), labelled(zone="b")]},
        }
    ]
    found = selected(sent(groups, predicates=[labelled(gpu="yes"), labelled(gpu="old", zone="a")]))
    assert found == [
        {"zone": ["a"], "gpu": ["yes"]},
        {"zone": ["a"], "gpu": ["old"]},
        {"zone": ["b"], "gpu": ["yes"]},
        {"zone": ["a"], "gpu": ["old"]},
    ]


def test_what_contradicts_itself_matches_nothing_rather_than_one_of_both() -> None:
    groups = [{"name": "eu", "on": "ocm", "placement": {"predicates": [labelled(zone="b")]}}]
    predicates = environments.placement(sent(groups, predicates=[labelled(zone="a")]))["spec"][
        "predicates"
    ]
    wanted = predicates[0]["requiredClusterSelector"]["labelSelector"]["matchExpressions"]
    assert [e["values"] for e in wanted if e["key"] == "zone"] == [["b"], ["a"]]


def test_claims_and_expressions_are_kept() -> None:
    claim = {"key": "region", "operator": "In", "values": ["eu"]}
    selector = {
        "claimSelector": {"matchExpressions": [claim]},
        "celSelector": {"celExpressions": ["true"]},
    }
    made = environments.placement(sent(predicates=[{"requiredClusterSelector": selector}]))
    found = made["spec"]["predicates"][0]["requiredClusterSelector"]
    assert found["claimSelector"]["matchExpressions"] == [claim]
    assert found["celSelector"]["celExpressions"] == ["true"]


def test_only_the_named_groups_count() -> None:
    groups = [
        {"name": "eu", "on": "ocm", "placement": {"clusterSets": ["europe"]}},
        {"name": "us", "on": "ocm", "placement": {"clusterSets": ["america"]}},
    ]
    both = environments.placement(sent(groups))["spec"]
    assert both["clusterSets"] == ["europe", "america"]
    one = environments.placement(sent(groups, groups=["us"]))["spec"]
    assert one["clusterSets"] == ["america"]
    assert len(one["tolerations"]) == 2  # a silent agent loses nobody its executor


def test_its_name_is_its_own_among_everybodys_works_and_fits_into_labels() -> None:
    one = sent(name="a-very-long-name-of-an-environment-indeed")
    other = replace(one, names=Names("fl2", "lab"))
    assert one.name != other.name
    assert len(f"{'n' * 30}.{one.name}") <= 63
    made = environments.work_set(one)
    assert made["spec"]["placementRefs"][0]["name"] == one.name
    assert environments.placement(one)["metadata"]["name"] == one.name


def test_it_is_rolled_out_batch_by_batch_as_its_group_says() -> None:
    rollout = {"maxConcurrent": 2, "maxFailures": 1, "deadlineSeconds": 90, "soakSeconds": 5}
    groups = [{"name": "eu", "on": "ocm", "kubernetes": {"rollout": rollout}}]
    ref = environments.work_set(sent(groups))["spec"]["placementRefs"][0]
    assert ref["rolloutStrategy"] == {
        "type": "Progressive",
        "progressive": {
            "maxConcurrency": 2,
            "maxFailures": 1,
            "progressDeadline": "90s",
            "minSuccessTime": "5s",
        },
    }


def test_a_batch_waits_for_the_executor_not_only_for_the_object() -> None:
    template = environments.work_set(sent())["spec"]["manifestWorkTemplate"]
    (config,) = template["manifestConfigs"]
    assert config["resourceIdentifier"]["name"] == "umbel-exec-vision"
    assert [rule["condition"] for rule in config["conditionRules"]] == ["Progressing", "Degraded"]


def test_the_namespace_stays_the_addons() -> None:
    made = environments.manifests(sent())
    assert [one["kind"] for one in made] == ["ConfigMap", "Deployment"]
    assert {one["metadata"]["namespace"] for one in made} == {NAMES.addon}


def test_its_pod_has_the_environments_image_and_only_its_own_secret() -> None:
    made = pod(sent())
    (container,) = made["containers"]
    assert container["image"] == "vision:1"
    assert container["command"][-1] == "app"
    runtime = next(v for v in made["volumes"] if v["name"] == "runtime")["secret"]
    assert runtime["secretName"] == "umbel-runtime"
    assert [i["key"] for i in runtime["items"]] == ["ca.crt", "vision.secret"]
    assert "optional" not in runtime
    assert made["automountServiceAccountToken"] is False
    assert made["securityContext"]["runAsNonRoot"] is True


def test_its_pod_is_told_where_the_supernode_is() -> None:
    told = json.loads(environments.manifests(sent())[0]["data"]["app.json"])
    assert told["environment"] == "vision"
    assert told["address"] == f"umbel-node.{NAMES.addon}.svc:9094"


def test_a_change_of_what_it_is_told_restarts_it() -> None:
    slow = federation(VISION)
    quick = Federation.model_validate(
        {
            **slow.model_dump(by_alias=True),
            "spec": {
                **slow.spec.model_dump(by_alias=True),
                "runtime": {"environments": [VISION], "taskTimeoutSeconds": 5},
            },
        }
    )
    marks = {
        json.dumps(
            deployment(environments.sent_by(one, NAMES, "u", {})[0])["spec"]["template"]["metadata"]
        )
        for one in (slow, quick)
    }
    assert len(marks) == 2


@pytest.mark.parametrize(("limits", "surge"), [({}, 1), ({"nvidia.com/gpu": "1"}, 0)])
def test_where_a_device_is_needed_the_old_pod_goes_first(limits: Any, surge: int) -> None:
    strategy = deployment(sent(resources={"limits": limits}))["spec"]["strategy"]
    assert strategy["rollingUpdate"]["maxSurge"] == surge


def test_the_sites_data_is_there_too_and_cannot_be_written() -> None:
    groups = [{"name": "eu", "on": "ocm", "data": {"hostPath": "/data/ct"}}]
    made = pod(sent(groups))
    assert {"name": "data", "mountPath": "/data", "readOnly": True} in made["containers"][0][
        "volumeMounts"
    ]
    assert {"name": "data", "hostPath": {"path": "/data/ct", "type": "Directory"}} in made[
        "volumes"
    ]
    assert not any(v["name"] == "data" for v in pod(sent())["volumes"])


KEY = "A" * 43 + "="


def test_signed_wheels_are_mounted_and_its_keys_told() -> None:
    one = sent(bundle={"image": "wheels:1", "keys": [KEY]})
    told = json.loads(environments.manifests(one)[0]["data"]["app.json"])
    assert (told["wheels"], told["keys"]) == ("/opt/umbel-bundle", [KEY])
    made = pod(one)
    source = {"reference": "wheels:1", "pullPolicy": "IfNotPresent"}
    assert {"name": "bundle", "image": source} in made["volumes"]
    assert made["containers"][0]["image"] == "vision:1"
    mounts = {m["name"]: m for m in made["containers"][0]["volumeMounts"]}
    assert mounts["bundle"] == {"name": "bundle", "mountPath": told["wheels"], "readOnly": True}
    assert not any("image" in volume for volume in pod(sent())["volumes"])


def test_a_bundle_without_a_key_is_no_bundle() -> None:
    with pytest.raises(ValueError, match="keys"):
        sent(bundle={"image": "wheels:1", "keys": []})


def version(made: Federation) -> sites.Version:
    return sites.Version(made, NAMES, made.spec.groups[0], "umbel:1", "PEM")


def by_kind(made: Federation, kind: str) -> list[Any]:
    return [m for m in sites.manifests(version(made)) if m["kind"] == kind]


def test_a_site_without_environments_is_closed_wholly() -> None:
    made = federation()
    assert by_kind(made, "Service") == []
    assert [p["spec"]["ingress"] for p in by_kind(made, "NetworkPolicy")] == [[]]
    (role,) = by_kind(made, "Role")
    assert {n for rule in role["rules"] for n in rule["resourceNames"]} == {"umbel-site"}


def test_a_site_with_environments_opens_one_door_for_their_executors() -> None:
    made = federation(VISION)
    closed, opened = by_kind(made, "NetworkPolicy")
    assert closed["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []}
    (rule,) = opened["spec"]["ingress"]
    assert rule["ports"] == [{"port": 9094, "protocol": "TCP"}]
    labels = deployment(sent())["spec"]["template"]["metadata"]["labels"]
    callers = rule["from"][0]["podSelector"]["matchLabels"]
    assert callers.items() <= labels.items()
    own = by_kind(made, "Deployment")[0]["spec"]["template"]["metadata"]["labels"]
    assert opened["spec"]["podSelector"]["matchLabels"].items() <= own.items()
    assert not callers.items() <= own.items()
    (role,) = by_kind(made, "Role")
    assert {n for r in role["rules"] for n in r["resourceNames"]} == {"umbel-site", "umbel-runtime"}


def test_supernodes_are_told_whose_tasks_are_not_for_everybody() -> None:
    config = next(m for m in by_kind(federation(VISION), "ConfigMap") if "exec.json" in m["data"])
    assert json.loads(config["data"]["environments.json"]) == {"vision": "clinic/vision"}
