"""A federation as manifests: in order, the same every time, and nothing that a hub cannot host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from umbel.cli.render import register
from umbel.documents import load
from umbel.model.federation import Federation
from umbel.targets.ocm.crd import document
from umbel.targets.ocm.install import OperatorSettings
from umbel.targets.ocm.rendering import NameTooLong, NotForAHub, as_yaml, rendered

Object = dict[str, Any]

TEXT = """\
apiVersion: umbel.dev/v1alpha1
kind: Federation
metadata: {name: hospitals, namespace: fl}
spec:
  superlink: {on: ocm, endpoint: fl.example.org}
  groups:
    - {name: gpu, on: ocm, placement: {clusterSets: [eu, us]}}
    - {name: all, on: ocm}
"""
WAVE = "argocd.argoproj.io/sync-wave"


def flat(text: str = TEXT, *, operator: bool = True) -> list[Object]:
    files = rendered(load(text), OperatorSettings(), operator=operator)
    return [obj for objects in files.values() for obj in objects]


def call(*words: str) -> Any:
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, list(words))


def wave(obj: Object) -> int:
    return int(obj["metadata"]["annotations"][WAVE])


def test_the_order_is_the_order_of_use() -> None:
    objects = flat()
    kinds = [obj["kind"] for obj in objects]
    assert kinds[0] == "CustomResourceDefinition"
    assert kinds[-1] == "Federation"
    assert kinds.index("ClusterRole") < kinds.index("Deployment")
    waves = {obj["kind"]: wave(obj) for obj in objects}
    assert waves["Namespace"] < waves["Deployment"] < waves["ManagedClusterSetBinding"]
    assert waves["ManagedClusterSetBinding"] < waves["Federation"] == 0


def test_what_takes_others_with_it_is_never_pruned() -> None:
    for obj in flat():
        notes = obj["metadata"]["annotations"]
        stays = obj["kind"] in ("Namespace", "CustomResourceDefinition")
        assert (notes.get("kustomize.toolkit.fluxcd.io/prune") == "disabled") is stays
        assert (notes.get("argocd.argoproj.io/sync-options") == "Prune=false") is stays


def test_cluster_sets_are_bound_once_each_and_everybody_has_the_global_one() -> None:
    bound = [obj for obj in flat() if obj["kind"] == "ManagedClusterSetBinding"]
    assert [obj["spec"]["clusterSet"] for obj in bound] == ["eu", "us", "global"]
    assert {obj["metadata"]["namespace"] for obj in bound} == {"fl"}


def test_the_federation_is_the_document() -> None:
    held = flat()[-1]
    assert load(json.dumps(document(held))).spec == load(TEXT).spec
    assert held["metadata"]["namespace"] == "fl"


def test_a_document_without_a_namespace_goes_to_default_and_makes_none() -> None:
    objects = flat(TEXT.replace(", namespace: fl", ""), operator=False)
    assert [obj["kind"] for obj in objects if obj["kind"] == "Namespace"] == []
    assert objects[-1]["metadata"]["namespace"] == "default"


def test_without_the_operator_only_the_federation_is_rendered() -> None:
    kinds = {obj["kind"] for obj in flat(operator=False)}
    assert kinds == {"Namespace", "ManagedClusterSetBinding", "Federation"}


def test_the_text_reads_the_same_in_every_version_of_yaml() -> None:
    text = as_yaml(flat())
    assert text == as_yaml(flat())
    assert "'on': ocm" in text
    assert "\n    on: ocm" not in text
    assert list(yaml.safe_load_all(text)) == flat()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "the SuperLink is on local"),
        ({"superlink": {"on": "ocm"}, "groups": [{"name": "b"}]}, "group 'b' is on local"),
        ({"superlink": {"on": "ocm"}, "groups": [{"name": "b", "on": "join"}]}, "'b' is on join"),
    ],
)
def test_what_is_not_on_a_hub_cannot_be_rendered(spec: Object, words: str) -> None:
    federation = Federation.model_validate({"metadata": {"name": "a"}, "spec": spec})
    with pytest.raises(NotForAHub, match=words) as caught:
        rendered(federation, OperatorSettings())
    assert caught.value.code == "U360"
    assert caught.value.exit_status == 2


def test_a_name_that_no_hub_takes_cannot_be_rendered() -> None:
    with pytest.raises(NameTooLong, match="more than 40 characters"):
        flat(TEXT.replace("hospitals", "h" * 41))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "federation.yaml"
    path.write_text(TEXT)
    return path


def test_the_command_writes_a_folder_for_kustomize(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = call("-f", str(file), "-o", str(out), "--image", "r.example.org/umbel:1")
    assert answer.exit_code == 0, answer.output
    listed = yaml.safe_load((out / "kustomization.yaml").read_text())["resources"]
    assert listed == ["crd.yaml", "operator.yaml", "federation-hospitals.yaml"]
    assert {path.name for path in out.iterdir()} == {*listed, "kustomization.yaml"}
    assert "r.example.org/umbel:1" in (out / "operator.yaml").read_text()


def test_another_federation_joins_the_folder(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("-f", str(file), "-o", str(out)).exit_code == 0
    file.write_text(TEXT.replace("name: hospitals", "name: banks"))
    assert call("-f", str(file), "--no-operator", "-o", str(out)).exit_code == 0
    listed = yaml.safe_load((out / "kustomization.yaml").read_text())["resources"]
    assert listed == [
        "crd.yaml",
        "operator.yaml",
        "federation-banks.yaml",
        "federation-hospitals.yaml",
    ]


def test_a_file_of_somebody_else_is_left_alone(file: Path, tmp_path: Path) -> None:
    mine = tmp_path / "kustomization.yaml"
    mine.write_text("resources: [mine.yaml]\n")
    answer = call("-f", str(file), "-o", str(tmp_path))
    assert answer.exit_code == 2
    assert "U362" in answer.output
    assert mine.read_text() == "resources: [mine.yaml]\n"
    assert not (tmp_path / "crd.yaml").exists()


def test_the_command_prints_what_kubectl_can_apply(file: Path) -> None:
    answer = call("-f", str(file), "--no-operator")
    assert answer.exit_code == 0
    kinds = [obj["kind"] for obj in yaml.safe_load_all(answer.stdout)]
    assert kinds[-1] == "Federation"


def test_a_folder_that_cannot_be_is_told(file: Path) -> None:
    answer = call("-f", str(file), "-o", str(file / "below"))
    assert answer.exit_code == 1
    assert "U201" in answer.output
