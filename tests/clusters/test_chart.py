"""What installs the operator, judged by Helm, kubeconform and a real API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from testbed.api import Api, condition
from testbed.bed import Bed
from testbed.programs import KUBERNETES, program

from umbel.documents import load
from umbel.targets.ocm.crd import document, federation_crd
from umbel.targets.ocm.install import OperatorSettings, operator_objects
from umbel.targets.ocm.rendering import as_yaml, rendered

Object = dict[str, Any]
Key = tuple[str, str, str]
Namespace = Callable[[str], str]

CHART = Path(__file__).parents[2] / "deploy" / "charts" / "umbel"
VERSION = KUBERNETES.version().removeprefix("v")
NAMESPACE = "umbel-chart"
NARROW = "umbel-narrow"
BINDING = "ManagedClusterSetBinding"
DOCUMENT = """\
metadata: {name: hospitals, namespace: umbel-chart-hospitals}
spec:
  superlink: {on: ocm, endpoint: fl.example.org}
  groups:
    - {name: gpu, on: ocm, placement: {clusterSets: [global]}}
"""

pytestmark = pytest.mark.timeout(600)  # a bed comes up within the first test


def helm(programs: None, *words: str) -> str:
    assert programs is None
    done = subprocess.run(
        [program("helm"), *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def templated(programs: None, tmp_path: Path, values: Mapping[str, Any]) -> list[Object]:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    words = ("umbel", str(CHART), "-n", NAMESPACE, "--kube-version", VERSION, "-f", str(file))
    return [obj for obj in yaml.safe_load_all(helm(programs, "template", *words)) if obj]


def keyed(objects: Iterable[Object]) -> dict[Key, Object]:
    found: dict[Key, Object] = {}
    for obj in objects:
        meta = obj["metadata"]
        key = (obj["kind"], meta.get("namespace", ""), meta["name"])
        assert key not in found
        found[key] = obj
    return found


CASES: dict[str, tuple[Object, Object]] = {
    "as it comes": ({}, {}),
    "one namespace": ({"watchNamespaces": ["a", "b"]}, {"watch_namespaces": ("a", "b")}),
    "three of them": ({"replicas": 3}, {"replicas": 3}),
    "binding sets": ({"bindClusterSets": ["eu"]}, {"bind_cluster_sets": ("eu",)}),
    "no roles for people": ({"people": {"roles": False}}, {"people": False}),
    "another image": (
        {
            "image": {
                "name": "r.example.org/u@sha256:0",
                "pullPolicy": "Always",
                "pullSecrets": ["p"],
            }
        },
        {"image": "r.example.org/u@sha256:0", "pull_policy": "Always", "pull_secrets": ("p",)},
    ),
    "elsewhere, louder": (
        {
            "logLevel": "debug",
            "nodeSelector": {"a": "b"},
            "tolerations": [{"operator": "Exists"}],
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
        },
        {
            "log_level": "debug",
            "node_selector": {"a": "b"},
            "tolerations": ({"operator": "Exists"},),
            "resources": {"requests": {"cpu": "1", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        },
    ),
}


@pytest.mark.parametrize(("values", "settings"), CASES.values(), ids=CASES)
def test_the_chart_installs_what_the_code_says(
    programs: None, tmp_path: Path, values: Object, settings: Object
) -> None:
    shown = keyed(templated(programs, tmp_path, values))
    definition = shown.pop(("CustomResourceDefinition", "", "federations.umbel.dev"))
    kept = {"helm.sh/resource-policy": "keep"}
    wanted = federation_crd()
    wanted["metadata"]["annotations"] = kept
    assert definition == wanted
    said = OperatorSettings(create_namespace=False, namespace=NAMESPACE, **settings)
    assert shown == keyed(operator_objects(said))


def test_the_definition_may_be_left_to_others(programs: None, tmp_path: Path) -> None:
    shown = templated(programs, tmp_path, {"crds": {"install": False}})
    assert "CustomResourceDefinition" not in {obj["kind"] for obj in shown}


def test_the_chart_has_nothing_to_complain_about(programs: None) -> None:
    helm(programs, "lint", "--strict", "--kube-version", VERSION, str(CHART))


@pytest.mark.parametrize(
    "values", [{"replica": 2}, {"replicas": 0}, {"logLevel": "loud"}, {"watchNamespaces": ["A b"]}]
)
def test_a_value_that_means_nothing_is_refused(
    programs: None, tmp_path: Path, values: Object
) -> None:
    with pytest.raises(AssertionError, match="values don't meet the specifications of the schema"):
        templated(programs, tmp_path, values)


@pytest.fixture(scope="module")
def schemas(hub: Api, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JSON schemas of every kind that is installed, as the API server itself describes them."""
    hub.apply(federation_crd())
    hub.wait(
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "federations.umbel.dev", ""),
        lambda seen: condition(seen, "Established") == "True",
    )
    folder = tmp_path_factory.mktemp("schemas")
    for path in hub.request("GET", "/openapi/v3")["paths"]:
        if path.startswith("api"):
            _write_schemas(hub.request("GET", f"/openapi/v3/{path}"), folder)
    return folder


def _write_schemas(spec: Object, folder: Path) -> None:
    definitions = spec.get("components", {}).get("schemas", {})
    text = json.dumps(definitions).replace("#/components/schemas/", "#/definitions/")
    closed = {name: _closed(form) for name, form in json.loads(text).items()}
    for name, form in definitions.items():
        for named in form.get("x-kubernetes-group-version-kind", ()):
            group = named["group"] or named["version"]  # as kubeconform names the core group
            file = folder / f"{group}-{named['version']}-{named['kind']}.json".lower()
            file.write_text(json.dumps({"$ref": f"#/definitions/{name}", "definitions": closed}))


def _closed(form: Object) -> Object:
    """Let no key pass that the API server would drop."""
    if "properties" in form and "x-kubernetes-preserve-unknown-fields" not in form:
        return {**form, "additionalProperties": False}
    return form


def conform(schemas: Path, tmp_path: Path, objects: Iterable[Object]) -> Object:
    """Ask kubeconform; every kind must be known to it."""
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    place = f"{schemas}/{{{{ .Group }}}}-{{{{ .ResourceAPIVersion }}}}-{{{{ .ResourceKind }}}}.json"
    words = ["-strict", "-output", "json", "-summary", "-schema-location", place, str(file)]
    done = subprocess.run(
        [program("kubeconform"), *words], capture_output=True, text=True, check=False, timeout=120
    )
    said: Object = json.loads(done.stdout)
    return said


def everything(programs: None, tmp_path: Path) -> dict[str, list[Object]]:
    files = rendered(load(DOCUMENT), OperatorSettings(namespace=NAMESPACE))
    return {
        "chart": templated(programs, tmp_path, {"replicas": 2}),
        "umbel render": [obj for objects in files.values() for obj in objects],
    }


@pytest.mark.parametrize("maker", ["chart", "umbel render"])
def test_manifests_conform(programs: None, schemas: Path, tmp_path: Path, maker: str) -> None:
    objects = everything(programs, tmp_path)[maker]
    said = conform(schemas, tmp_path, objects)
    assert said.get("resources", []) == []
    assert said["summary"] == {"valid": len(objects), "invalid": 0, "errors": 0, "skipped": 0}


def test_a_manifest_that_does_not_conform_is_noticed(schemas: Path, tmp_path: Path) -> None:
    wrong = operator_objects(OperatorSettings())
    wrong[-1]["spec"]["replicaz"] = 1
    said = conform(schemas, tmp_path, wrong)
    assert said["summary"]["invalid"] == 1
    assert "replicaz" in said["resources"][0]["msg"]


@pytest.mark.usefixtures("schemas")
def test_a_hub_takes_the_manifests(
    hub: Api, programs: None, namespace: Namespace, tmp_path: Path
) -> None:
    namespace(NAMESPACE)
    namespace(f"{NAMESPACE}-hospitals")
    for obj in [obj for objects in everything(programs, tmp_path).values() for obj in objects]:
        meta = obj["metadata"]
        path = hub.path(obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"])
        hub.request(
            "PATCH",
            f"{path}?fieldManager=x&force=true&dryRun=All&fieldValidation=Strict",
            obj,
            Content_Type="application/apply-patch+yaml",
        )


@pytest.mark.usefixtures("schemas")
def test_what_is_rendered_is_the_same_federation_on_the_hub(
    bed: Bed, hub: Api, namespace: Namespace, tmp_path: Path
) -> None:
    place = namespace("umbel-rendered")
    federation = load(DOCUMENT.replace(f"{NAMESPACE}-hospitals", place))
    file = tmp_path / "federation.yaml"
    file.write_text(as_yaml(rendered(federation, OperatorSettings(), operator=False).popitem()[1]))
    bed.kubectl("hub", "apply", "--server-side", "-f", str(file))
    stored = hub.get("umbel.dev/v1alpha1", "Federation", "hospitals", place)
    assert stored
    again = load(json.dumps(document(stored)))
    assert again.spec == federation.spec
    assert hub.get("cluster.open-cluster-management.io/v1beta2", BINDING, "global", place)


def can(hub: Api, verb: str, resource: str, namespace: str = "", group: str = "") -> bool:
    """Ask the API server whether the operator may."""
    asked = {"verb": verb, "resource": resource, "namespace": namespace, "group": group}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": f"system:serviceaccount:{NARROW}:{NARROW}", "resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = hub.request("POST", path, review, Content_Type="application/json")
    return bool(answer["status"]["allowed"])


@pytest.fixture
def narrow(hub: Api, namespace: Namespace) -> Iterator[str]:
    """An operator's rights for one namespace, under names that no other installation has."""
    watched = namespace("umbel-watched")
    settings = OperatorSettings(namespace=NARROW, watch_namespaces=(watched,), people=False)
    text = json.dumps(operator_objects(settings)).replace("umbel-operator", NARROW)
    made = [obj for obj in json.loads(text) if obj["kind"] != "Deployment"]
    for obj in made:
        hub.apply(obj)
    yield watched
    for obj in reversed(made):
        meta = obj["metadata"]
        hub.delete(obj["apiVersion"], obj["kind"], meta["name"], meta.get("namespace", ""))


def test_the_operator_reads_secrets_only_where_it_watches(hub: Api, narrow: str) -> None:
    ocm = "cluster.open-cluster-management.io"
    assert can(hub, "create", "secrets", narrow)
    assert can(hub, "create", "secrets", NARROW)
    assert not can(hub, "get", "secrets", "default")
    assert not can(hub, "list", "secrets")
    assert not can(hub, "patch", "deployments", narrow, "apps")
    assert not can(hub, "create", "managedclustersetbindings", narrow, ocm)
    assert can(hub, "list", "managedclusters", group=ocm)
    assert not can(hub, "patch", "managedclusters", group=ocm)
    assert not can(hub, "create", "manifestworks", "berlin", "work.open-cluster-management.io")
