"""What is written loads back, and the schema tells the whole form."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml

from umbel.documents import (
    DocumentInvalid,
    commented_template,
    default_federation,
    dump,
    load,
    schema,
    slug,
)

FULL = """\
apiVersion: umbel.dev/v1alpha1
kind: Federation
metadata: {name: hospitals, labels: {tier: "1"}, annotations: {"on": "off", note: "a: b # c\\n"}}
spec:
  superlink: {on: opennebula, endpoint: fl.example.org, alternativeNames: ["::1", "10.0.0.1"]}
  groups:
    - name: gpu-sites
      on: ocm
      placement:
        clusterSets: [hospitals]
        predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {gpu: "true"}}}}]
        numberOfClusters: 20
      data: {hostPath: /data/ct, nodeConfig: {a: 1, b: 1.0, c: "1", d: true, e: "on", f: "1e3"}}
    - {name: towers, on: opennebula, zones: [berlin, paris], cardinality: {min: 1, max: 50}}
    - {name: lab, on: join}
    - name: "42"
      sites: [{name: "0x1f", labels: {a: "null"}, taints: [{key: k}], scores: {r/s: -3}}]
  runtime: {isolation: process, exec: fresh}
  security: {users: [{name: ada, role: admin}], caKey: {keyFile: /k}}
"""


def test_a_document_survives_being_written() -> None:
    federation = load(FULL)
    assert load(dump(federation)) == federation
    config = load(dump(federation)).spec.groups[0].data.node_config
    assert [type(value) for value in config.values()] == [int, float, str, bool, str, str]


def test_defaults_are_not_written() -> None:
    assert dump(load("metadata: {name: a}\nspec: {runtime: {exec: warm}}\n")) == (
        "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata:\n  name: a\n"
    )


def test_keys_are_written_bare_and_doubtful_text_in_quotes() -> None:
    text = dump(load(FULL))
    assert "\n    on: ocm\n" in text
    assert "e: 'on'" in text
    assert "f: '1e3'" in text
    assert "name: '0x1f'" in text


def test_the_default_is_three_local_sites() -> None:
    federation = default_federation()
    assert federation.name == "local"
    assert [(group.on, group.sites) for group in federation.spec.groups] == [("local", 3)]
    assert default_federation("other", 5).spec.groups[0].sites == 5


@pytest.mark.parametrize(("name", "sites", "code"), [("No Name", 3, "U127"), ("a", 5000, "U125")])
def test_a_default_with_bad_values_is_refused(name: str, sites: int, code: str) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        default_federation(name, sites)
    assert caught.value.code == code


def test_the_template_loads_and_is_short() -> None:
    text = commented_template("hospitals")
    assert load(text) == load("metadata: {name: hospitals}\n")
    assert len(text.splitlines()) < 60
    assert "\n  name: hospitals\n" in text


@pytest.mark.parametrize("name", ["123", "null", "on", "1e3", "0x1f"])
def test_a_template_for_a_doubtful_name_loads(name: str) -> None:
    assert load(commented_template(name)).name == name


def test_a_template_for_a_bad_name_is_refused() -> None:
    with pytest.raises(DocumentInvalid) as caught:
        commented_template("a\nspec: {}")
    assert caught.value.code == "U127"


def uncommented(text: str) -> str:
    """Take the template's examples instead of what they replace."""
    text = re.sub(r"^      sites: 3 .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^( *)# (?=( *)(- )?(\{|[a-zA-Z]+:( |$)))", r"\1", text, flags=re.MULTILINE)


def test_every_example_in_the_template_is_right() -> None:
    body = uncommented(commented_template("lab")).partition("spec:")[2]
    lines = [line for line in body.splitlines() if not re.match(r" *(The|Who|How) ", line)]
    federation = load("metadata: {name: lab}\nspec:" + "\n".join(lines))
    (group,) = federation.spec.groups
    assert group.placement.number_of_clusters == 2
    assert group.data.host_path == "/data/ct"
    assert federation.spec.security.users[0].name == "ada"
    assert federation.spec.superlink.ports.fleet == 9092
    assert not isinstance(group.sites, int)
    assert len(group.sites) == 2


def test_the_schema_is_json_and_does_not_change() -> None:
    assert json.dumps(schema()) == json.dumps(schema())
    assert schema()["$schema"].endswith("2020-12/schema")
    assert "numberOfClusters" in schema()["$defs"]["Placement"]["properties"]


def test_every_key_of_the_document_is_described() -> None:
    documents = schema()["$defs"] | {"Federation": schema()}
    own = [
        *(
            "Federation",
            "Metadata",
            "FederationSpec",
            "SuperLink",
            "Ports",
            "Group",
            "DeclaredSite",
        ),
        *("Taint", "Resources", "Cardinality", "Data", "Runtime", "Security", "User", "CaKey"),
    ]
    silent = [
        f"{name}.{key}"
        for name in own
        for key, form in documents[name]["properties"].items()
        if not form.get("description") and "$ref" not in form  # a type that describes itself
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("text", "name"),
    [("My Lab_1", "my-lab-1"), ("--", ""), ("Ünï", "n"), ("a" * 99, "a" * 63), ("ok", "ok")],
)
def test_a_slug_is_a_name(text: str, name: str) -> None:
    assert slug(text) == name


def test_the_package_is_light() -> None:
    script = (
        "import sys, umbel.documents as d; d.load(d.commented_template('a')); "
        "print([m for m in ('rich', 'typer', 'flwr', 'cel', 'httpx', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_other_readers_of_yaml_see_the_same_text() -> None:
    told = yaml.safe_load(dump(load(FULL)))
    assert told["metadata"]["labels"] == {"tier": "1"}
    assert told["spec"]["groups"][3]["name"] == "42"
    assert told["spec"]["groups"][0]["data"]["nodeConfig"]["e"] == "on"
