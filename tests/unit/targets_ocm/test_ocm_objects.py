"""What hub and sites are made of, as objects."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from umbel.model.federation import Federation
from umbel.model.kubernetes import ClusterValues
from umbel.targets.ocm import hub, sites
from umbel.targets.ocm.hub import Hub
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.pods import Object
from umbel.targets.ocm.sites import SettingsTooLong, SiteValues, Version

NAMES = Names("fl", "lab")
VARIABLES = {"CLUSTER_NAME", "DATA_PATH", *(f"NODE_{n}" for n in range(sites.PIECES))}


def document(superlink: Any = None, group: Any = None, **runtime: Any) -> Federation:
    return Federation.model_validate(
        {
            "metadata": {"name": "lab", "namespace": "fl"},
            "spec": {
                "superlink": {"on": "ocm", **(superlink or {})},
                "groups": [{"name": "all", "on": "ocm", **(group or {})}],
                "runtime": runtime,
            },
        }
    )


def hub_objects(federation: Federation) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for content in hub.objects(Hub(federation, NAMES, "umbel:1", "PEM", "a=b")):
        found.setdefault(content["kind"], []).append(content)
    return found


def version(federation: Federation, bundle: str = "PEM") -> Version:
    return Version(federation, NAMES, federation.spec.groups[0], "umbel:1", bundle)


def values(federation: Federation, node: Any = None, cluster: str = "a") -> SiteValues:
    settings = version(federation).settings
    own = settings.clusters.get(cluster, ClusterValues())
    told = node or {"fleet": "hub:1", "nodeConfig": {}}
    return SiteValues(NAMES, cluster, "all", told, settings, template="t", own=own)


def pods(federation: Federation) -> list[Object]:
    whole = hub_objects(federation)["StatefulSet"][0]["spec"]["template"]["spec"]
    made = {m["kind"]: m for m in sites.manifests(version(federation))}
    return [whole, made["Deployment"]["spec"]["template"]["spec"]]


def test_every_container_keeps_the_rules_of_restricted() -> None:
    for pod in pods(document()):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
            assert "env" not in container, "nothing is told by the environment"


def test_who_runs_peoples_code_has_no_key_no_token_and_no_state() -> None:
    for pod in pods(document(group={"data": {"hostPath": "/data/ct"}})):
        executor = next(c for c in pod["containers"] if c["name"] == "exec")
        mounted = {m["name"] for m in executor["volumeMounts"]}
        assert not mounted & {"gate", "owner", "keys", "account", "link", "desk"}
        folders = {m.get("subPath") for m in executor["volumeMounts"] if m["name"] == "state"}
        assert not folders & {"superlink", "gate", "desk"}


def test_only_the_gates_two_doors_are_open() -> None:
    made = hub_objects(document())
    (policy,) = made["NetworkPolicy"]
    assert [p["port"] for r in policy["spec"]["ingress"] for p in r["ports"]] == [9092, 9093]
    for service in made["Service"]:
        assert {p["port"] for p in service["spec"]["ports"]} == {9092, 9093}


def test_a_site_lets_nobody_in() -> None:
    made = {m["kind"]: m for m in sites.manifests(version(document()))}
    assert made["NetworkPolicy"]["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [],
    }


def test_the_sites_agent_may_touch_its_own_objects_and_nothing_else() -> None:
    made = {m["kind"]: m for m in sites.manifests(version(document()))}
    for rule in made["Role"]["rules"]:
        assert set(rule["resourceNames"]) <= {sites.SITE, "umbel-runtime"}
        assert set(rule["resources"]) <= {"secrets", "configmaps"}
        assert set(rule["verbs"]) <= {"get", "create", "patch"}


def test_a_template_uses_no_variable_that_is_not_always_given() -> None:
    federation = document(group={"data": {"hostPath": "/data/ct"}})
    text = json.dumps(sites.template(version(federation)))
    used = set(re.findall(r"\{\{([A-Z_0-9]+)\}\}", text))
    given = {v["name"] for v in sites.config(values(federation))["spec"]["customizedVariables"]}
    assert used == VARIABLES
    assert used <= given | {"CLUSTER_NAME"}


def test_a_version_is_named_by_its_content() -> None:
    one, same = sites.template(version(document())), sites.template(version(document()))
    other = sites.template(version(document(), bundle="ANOTHER"))
    assert one == same
    assert one["metadata"]["name"] != other["metadata"]["name"]


def test_a_change_of_trust_does_not_restart_pods() -> None:
    one, other = (
        {m["kind"]: m for m in sites.manifests(version(document(), bundle=bundle))}["Deployment"]
        for bundle in ("OLD", "OLD AND NEW")
    )
    assert one == other


def test_a_sites_settings_travel_as_they_are() -> None:
    node = {"fleet": "hub:1", "nodeConfig": {"name": 'a "quoted" \\ text', "n": 1}}
    spec = sites.config(values(document(), node))["spec"]
    pieces = [v["value"] for v in spec["customizedVariables"] if v["name"].startswith("NODE_")]
    told = json.loads(base64.b64decode("".join(pieces)))
    assert {k: told[k] for k in node} == node
    assert told["release"]
    assert spec["agentInstallNamespace"] == ""


def test_settings_that_do_not_fit_are_refused() -> None:
    node = {"fleet": "hub:1", "nodeConfig": {"long": "x" * 4000}}
    with pytest.raises(SettingsTooLong):
        sites.config(values(document(), node))


def test_what_is_different_on_one_cluster_is_in_its_own_config() -> None:
    own = {
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "nodeSelector": {"disk": "ssd"},
        "proxy": {"httpsProxy": "http://proxy:3128"},
        "mirrors": [{"source": "docker.example", "mirror": "mirror.example"}],
    }
    federation = document(group={"kubernetes": {"clusters": {"a": own}}})
    spec = sites.config(values(federation))["spec"]
    assert spec["nodePlacement"]["nodeSelector"] == {"disk": "ssd"}
    assert spec["proxyConfig"] == {
        "httpsProxy": "http://proxy:3128",
        "noProxy": "localhost,127.0.0.1",  # the pod's own containers are reached without it
    }
    assert spec["registries"] == [{"source": "docker.example", "mirror": "mirror.example"}]
    (one,) = spec["resourceRequirements"]
    assert one["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    other = sites.config(values(federation, cluster="b"))["spec"]
    assert not {"nodePlacement", "proxyConfig", "registries", "resourceRequirements"} & other.keys()


def test_a_folder_of_the_node_is_mounted_for_the_executor_alone_and_to_read() -> None:
    federation = document(group={"data": {"hostPath": "/data/ct"}})
    pod = pods(federation)[1]
    mounted = {
        c["name"]: [m for m in c["volumeMounts"] if m["name"] == "data"] for c in pod["containers"]
    }
    assert mounted == {
        "node": [],
        "exec": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }


@pytest.mark.parametrize(
    ("service", "kinds"),
    [
        ({"type": "ClusterIP"}, {"ClusterIP"}),
        ({"type": "NodePort", "fleetNodePort": 30092}, {"NodePort"}),
        ({"type": "LoadBalancer"}, {"LoadBalancer"}),
    ],
)
def test_the_service_is_of_the_declared_type(service: Any, kinds: set[str]) -> None:
    made = hub_objects(document({"kubernetes": {"service": service}}))["Service"]
    assert {s["spec"]["type"] for s in made if "type" in s["spec"]} == kinds


def test_tls_is_passed_through_by_name() -> None:
    names = {"fleetHost": "fleet.example.org", "controlHost": "control.example.org"}
    gateway = {"type": "Gateway", "gateway": "public", **names}
    routes = hub_objects(document({"kubernetes": {"service": gateway}}))["TLSRoute"]
    assert [r["spec"]["hostnames"] for r in routes] == [
        ["fleet.example.org"],
        ["control.example.org"],
    ]
    (ingress,) = hub_objects(document({"kubernetes": {"service": {"type": "Ingress", **names}}}))[
        "Ingress"
    ]
    assert [r["host"] for r in ingress["spec"]["rules"]] == list(names.values())


def test_the_hub_changes_when_we_say_so() -> None:
    (whole,) = hub_objects(document())["StatefulSet"]
    assert whole["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert whole["spec"]["replicas"] == 1
