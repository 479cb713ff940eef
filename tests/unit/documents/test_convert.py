"""Values of upstream's chart become a document that does the same, secured; the rest is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from umbel.cli.convert import register
from umbel.documents import DocumentInvalid, dump, load
from umbel.documents.convert import Converted, ValuesUnusable, from_flower_addon
from umbel.targets.ocm.rendering import check

AS_SHIPPED = """\
# after the chart's own file
superlink:
  enabled: true
  namespace: flower-system
  image: {repository: flwr/superlink, tag: "1.26.1-py3.13-ubuntu24.04", pullPolicy: IfNotPresent}
  resources:
    requests: {cpu: 200m, memory: 512Mi}
    limits: {cpu: 2000m, memory: 2Gi}
  nodePort: {exec: 30091, fleet: 30092, control: 30093}
  args: ["--insecure", "--isolation=process"]
tls:
  enabled: false
  ca: {secretName: flower-tls-ca}
  serverCert: {secretName: flower-superlink-tls}
supernode:
  image: {repository: flwr/supernode, tag: "1.26.1-py3.13-ubuntu24.04", pullPolicy: IfNotPresent}
  resources: {requests: {cpu: 100m, memory: 256Mi}, limits: {cpu: 1000m, memory: 1Gi}}
  numPartitions: "2"
addon:
  name: flower-addon
  namespace: open-cluster-management
  displayName: Flower Federated Learning
  description: Distributed machine learning.
  installStrategy: Manual
deploymentConfig:
  enabled: true
  name: flower-addon-config
  superlinkAddress: "<HUB_NODE_IP>"
  superlinkPort: "30092"
placement:
  gpu:
    enabled: false
    name: flower-addon-gpu-placement
    clusterSet: default
    config: {name: flower-addon-gpu-config, nodeType: gpu}
  all:
    enabled: false
    name: flower-addon-all-placement
    clusterSet: global
    config: {name: flower-addon-all-config, nodeType: cpu}
"""
SECURED = """\
tls: {enabled: true, serverCert: {secretName: my-cert}}
deploymentConfig: {superlinkAddress: 10.0.0.7}
supernode: {numPartitions: 10, image: {pullPolicy: Always}}
"""
GPU = """\
addon: {installStrategy: Placements}
placement: {gpu: {enabled: true, clusterSet: hospitals}, all: {enabled: true}}
supernode:
  resources: {limits: {nvidia.com/gpu: 1, memory: 1Gi}}
"""
ALL = """\
addon: {name: Flower Prod, installStrategy: Placements}
superlink: {namespace: fl}
placement: {all: {enabled: true}}
deploymentConfig: {superlinkAddress: hub.example.org, superlinkPort: "9092"}
"""
CONFIGS = """\
apiVersion: v1
kind: List
items:
  - apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnDeploymentConfig
    metadata: {name: flower-addon-config, namespace: open-cluster-management}
    spec: {nodePlacement: {nodeSelector: {shared: "yes"}}}
  - apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: AddOnDeploymentConfig
    metadata: {name: flower-addon-cluster1, namespace: cluster1}
    spec:
      agentInstallNamespace: flower-addon
      customizedVariables: [{name: PARTITION_ID, value: "0"}, {name: MINE, value: x}]
      nodePlacement:
        nodeSelector: {gpu: a100}
        tolerations: [{key: gpu, operator: Exists, effect: NoSchedule, tolerationSeconds: 3}]
      registries: [{source: docker.io/flwr, mirror: registry.example.org/flwr}]
      proxyConfig: {httpsProxy: "http://proxy:3128", noProxy: .svc, caBundle: QQ==}
      resourceRequirements:
        - {containerID: "deployments:other:*", resources: {limits: {cpu: "1"}}}
        - {containerID: "deployments:flower-supernode:*", resources: {limits: {cpu: 4}}}
  - {kind: ConfigMap, metadata: {name: a, namespace: cluster2}}
"""


@pytest.fixture
def convert(tmp_path: Path) -> Any:
    def made(values: str, *configs: str) -> Converted:
        paths = []
        for number, text in enumerate((values, *configs)):
            paths.append(tmp_path / f"{number}.yaml")
            paths[-1].write_text(text)
        converted = from_flower_addon(paths[0], paths[1:])
        check(converted.federation)  # a hub takes it
        assert load(dump(converted.federation)) == converted.federation
        return converted

    return made


def told(converted: Converted, key: str) -> str:
    return "\n".join(note for note in converted.notes if note.startswith(key))


def test_as_shipped_clusters_are_chosen_by_a_label_instead_of_by_hand(convert: Any) -> None:
    converted = convert(AS_SHIPPED)
    federation = converted.federation
    assert (federation.name, federation.metadata.namespace) == ("flower-addon", "flower-system")
    assert dump(federation).endswith("umbel.dev/flower-addon: 'true'\n")
    assert federation.spec.superlink.kubernetes.service.type == "NodePort"
    assert "kubectl label managedcluster NAME umbel.dev/flower-addon=true" in told(
        converted, "addon.installStrategy"
    )
    assert "--insecure is gone" in told(converted, "superlink.args")
    assert "keeps it" in told(converted, "supernode.partitionId")
    assert "always 2" in told(converted, "supernode.numPartitions")
    assert "TLS is always on" in told(converted, "tls")
    assert "instead of 30092 and 30093" in told(converted, "superlink.nodePort")
    assert "nothing is published" in told(converted, "superlink.nodePort.exec")
    assert "spec.superlink.endpoint" in told(converted, "deploymentConfig.superlinkAddress")
    assert "flwr/superlink:1.26.1" in told(converted, "superlink.image")


@pytest.mark.parametrize("values", ["", "# nothing\n", "superlink:\n", "{}"])
def test_what_a_file_leaves_out_is_as_the_chart_has_it(convert: Any, values: str) -> None:
    assert dump(convert(values).federation) == dump(convert(AS_SHIPPED).federation)


def test_tls_and_an_address_are_carried_over(convert: Any) -> None:
    converted = convert(SECURED)
    spec = converted.federation.spec
    assert spec.superlink.endpoint == "10.0.0.7"
    assert spec.groups[0].data.partitions == 10
    assert spec.runtime.image.pull_policy == "Always"
    assert "flower-tls-ca and my-cert can go" in told(converted, "tls")
    assert "the sites' is kept" in told(converted, "supernode.image.pullPolicy")


def test_gpu_clusters_stay_those_with_the_label(convert: Any) -> None:
    converted = convert(GPU)
    [group] = converted.federation.spec.groups
    selector = group.placement.predicates[0].required_cluster_selector.label_selector
    assert selector.match_labels == {"gpu": "true"}
    assert group.placement.cluster_sets == ("hospitals",)
    assert group.kubernetes.resources.limits == {"nvidia.com/gpu": "1"}
    assert "placement.gpu alone" in told(converted, "placement.all")
    assert "bind hospitals" in told(converted, "placement.gpu.clusterSet")


def test_all_clusters_are_all_of_the_set(convert: Any) -> None:
    converted = convert(ALL)
    assert (converted.federation.name, converted.federation.metadata.namespace) == (
        "flower-prod",
        "fl",
    )
    placement = converted.federation.spec.groups[0].placement
    assert (placement.cluster_sets, placement.predicates) == (("global",), ())
    assert "9092 is not the chart's own port" in told(converted, "deploymentConfig.superlinkPort")


def test_a_placement_that_was_never_used_is_not_used(convert: Any) -> None:
    converted = convert("placement: {gpu: {enabled: true}}\n")
    assert "was not used" in told(converted, "placement.gpu")
    assert "umbel.dev/flower-addon" in dump(converted.federation)


def test_configs_of_single_clusters_are_what_is_different_there(convert: Any) -> None:
    converted = convert(AS_SHIPPED, CONFIGS)
    [group] = converted.federation.spec.groups
    assert list(group.kubernetes.clusters) == ["cluster1"]
    values = group.kubernetes.clusters["cluster1"]
    assert values.node_selector == {"gpu": "a100"}
    assert [t.key for t in values.tolerations] == ["gpu"]
    assert values.mirrors[0].mirror == "registry.example.org/flwr"
    assert (values.proxy.https_proxy, values.proxy.no_proxy) == ("http://proxy:3128", ".svc")
    assert values.resources.limits == {"cpu": "4"}
    notes = told(converted, "cluster1")
    assert "PARTITION_ID: every site gets an id of its own" in notes
    assert "MINE: no template of the chart reads it" in notes
    assert "proxyConfig.caBundle has no counterpart" in notes
    assert "deployments:other:* are left out" in notes
    assert "ConfigMap: no AddOnDeploymentConfig" in told(converted, "ConfigMap")


def test_a_second_config_of_a_cluster_is_told(convert: Any) -> None:
    one = "kind: AddOnDeploymentConfig\nmetadata: {namespace: c}\nspec: {}\n"
    converted = convert(AS_SHIPPED, one, one)
    assert "a second AddOnDeploymentConfig" in told(converted, "c:")


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ("superlink: {replicas: 2}\n", "superlink.replicas"),
        ("addon: {}\nextra: {a: 1}\n", "extra"),
        ("placement: {cpu: {enabled: true}}\n", "placement.cpu"),
    ],
)
def test_a_key_that_the_chart_does_not_have_is_told(convert: Any, values: str, key: str) -> None:
    assert "not a key of the chart; left out" in told(convert(values), f"{key}:")


def test_further_arguments_are_told(convert: Any) -> None:
    values = 'superlink: {args: ["--database=/x", "--wings"]}\n'
    notes = told(convert(values), "superlink.args")
    assert "--database=/x is not needed" in notes
    assert "--wings has no counterpart" in notes


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("- a\n", "the document is a list"),
        ("superlink: 3\n", "superlink: keys and values were expected here"),
        ("superlink: {args: --insecure}\n", "superlink.args: a list was expected here"),
        ("tls: {enabled: sure}\n", "tls.enabled: true or false was expected here"),
        ("addon: {name: [a]}\n", "addon.name: a single value was expected here"),
        ("supernode: {numPartitions: many}\n", "supernode.numPartitions: a number was expected"),
        ("apiVersion: v1\nkind: Pod\n", "none of its keys is one of the flower-addon chart"),
        ("tls: {enabled: true}\ntls: {}\n", "line 2: the key"),
    ],
)
def test_a_file_that_is_something_else_is_refused(convert: Any, values: str, words: str) -> None:
    with pytest.raises(ValuesUnusable) as caught:
        convert(values)
    assert words in caught.value.fact
    assert caught.value.exit_status == 2


def test_a_file_that_is_no_yaml_is_refused(convert: Any) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        convert("superlink: [\n")
    assert caught.value.code == "U110"


def test_a_value_that_no_document_can_have_is_refused(convert: Any) -> None:
    with pytest.raises(DocumentInvalid, match="converted document"):
        convert("deploymentConfig: {superlinkAddress: 'http://hub'}\n")


def call(*words: str) -> Any:
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, list(words))


def test_the_command_writes_the_document_and_tells_the_notes(tmp_path: Path) -> None:
    values, out = tmp_path / "values.yaml", tmp_path / "federation.yaml"
    values.write_text(AS_SHIPPED)
    shown = call("flower-addon", str(values))
    assert shown.exit_code == 0
    assert load(shown.stdout).name == "flower-addon"
    assert "note: tls: TLS is always on" in shown.stderr
    written = call("flower-addon", str(values), "-o", str(out))
    assert (written.exit_code, written.stdout) == (0, "")
    assert out.read_text() == shown.stdout
    again = call("flower-addon", str(values), "-o", str(out))
    assert again.exit_code == 2
    assert "U364" in again.stderr


@pytest.mark.parametrize(("values", "code"), [("- a\n", "U363"), ("a: [\n", "U110")])
def test_a_bad_file_ends_with_2(tmp_path: Path, values: str, code: str) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(values)
    answer = call("flower-addon", str(path))
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert code in answer.stderr


def test_a_file_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    answer = call("flower-addon", str(tmp_path / "values.yaml"))
    assert answer.exit_code == 2
    assert "U101" in answer.stderr
