"""On managed clusters, what would have no effect is refused, and what nobody wrote is not."""

from __future__ import annotations

import json

import pytest

from umbel.documents import DocumentInvalid, Problem, load
from umbel.documents.clusters import READ_BY
from umbel.model.kubernetes import HubService

HEAD = "metadata: {name: lab}\nspec:\n  groups: [{name: a, on: ocm}]\n"
LINK = f"{HEAD}  superlink:\n    on: ocm\n"
GROUP = "metadata: {name: lab}\nspec:\n  superlink: {on: ocm}\n  groups:\n    - name: a\n"
SERVICE = f"{LINK}    kubernetes:\n      service: "


def problem_of(text: str) -> Problem:
    with pytest.raises(DocumentInvalid) as caught:
        load(text)
    assert caught.value.exit_status == 2
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "field", "line", "words"),
    [
        (f"{LINK}    listen: 0.0.0.0\n", "spec.superlink.listen", 6, "listens on every address"),
        (f"{LINK}    listen: 127.0.0.1\n", "spec.superlink.listen", 6, "listens on every address"),
        (f"{LINK}    ports: {{fleet: 9}}\n", "spec.superlink.ports", 6, "ports 9092 and 9093"),
        (
            f"{LINK}  security:\n    caKey: {{keyFile: /k}}\n",
            "spec.security.caKey",
            7,
            "a Secret of the hub",
        ),
        (
            f"{GROUP}      on: ocm\n      placement:\n        spreadPolicy: {{}}\n",
            "spec.groups[0].placement.spreadPolicy",
            8,
            "Open Cluster Management does nothing with it",
        ),
    ],
)
def test_a_key_that_nothing_reads_is_named(text: str, field: str, line: int, words: str) -> None:
    found = problem_of(text)
    assert (found.code, found.field, found.line) == ("U148", field, line)
    assert words in found.fact
    assert found.hint.startswith("remove it")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ("{superlink: {kubernetes: {service: {}}}}", "spec.superlink.kubernetes"),
        ("{superlink: {on: local, kubernetes: {}}}", "spec.superlink.kubernetes"),
        ("{runtime: {image: {name: a/b}}}", "spec.runtime.image"),
        ("{runtime: {environments: []}}", "spec.runtime.environments"),
    ],
)
def test_what_only_clusters_read_is_refused_on_one_machine(spec: str, field: str) -> None:
    found = problem_of(f"metadata: {{name: lab}}\nspec: {spec}\n")
    assert (found.code, found.field) == ("U148", field)
    assert "only managed clusters read it" in found.fact


@pytest.mark.parametrize("key", READ_BY)
def test_a_key_of_another_kind_of_service_is_named(key: str) -> None:
    port = key.endswith("ort")
    found = problem_of(f"{SERVICE}{{{key}: {31092 if port else 'name'}}}\n")
    assert (found.code, found.field) == ("U148", f"spec.superlink.kubernetes.service.{key}")
    assert found.fact == f'"{key}" has no effect with a service of type ClusterIP'
    assert found.hint.endswith(" or ".join(READ_BY[key]))


def test_every_kind_of_service_that_reads_keys_is_one() -> None:
    known = HubService.model_json_schema(by_alias=True)["properties"]
    assert set(READ_BY) == set(known) - {"type", "annotations"}
    assert {kind for kinds in READ_BY.values() for kind in kinds} < set(known["type"]["enum"])


@pytest.mark.parametrize(
    "service",
    [
        "{}",
        "{type: NodePort, fleetNodePort: 31092, controlNodePort: 31093, annotations: {a: b}}",
        "{type: LoadBalancer, port: 443}",
        "{type: Ingress, fleetHost: f.org, controlHost: c.org, className: nginx, port: 8443}",
        "{type: Gateway, fleetHost: f.org, controlHost: c.org, gateway: g, gatewayNamespace: n}",
        "{fleetHost: null}",
    ],
)
def test_what_a_service_reads_or_nobody_chose_is_taken(service: str) -> None:
    assert load(f"{SERVICE}{service}\n").spec.superlink.kubernetes is not None


def test_defaults_are_not_refused_however_often_a_document_is_written() -> None:
    first = load(f"{LINK}  security: {{caKey: null}}\n")
    spoken = first.model_dump(mode="json", exclude_unset=True)
    assert load(json.dumps(spoken)) == first


@pytest.mark.parametrize("on", ["join", "opennebula", "local"])
def test_a_group_that_is_not_on_clusters_is_refused(on: str) -> None:
    found = problem_of(
        "metadata: {name: lab}\nspec:\n  superlink: {on: ocm}\n"
        f"  groups: [{{name: a, on: ocm}}, {{name: b, on: {on}}}]\n"
    )
    assert (found.code, found.field) == ("U149", "spec.groups[1].on")
    assert found.fact == f'the group "b" is on {on}, and the hub is on ocm'


def test_a_group_that_says_nothing_is_local_and_refused() -> None:
    found = problem_of("metadata: {name: lab}\nspec: {superlink: {on: ocm}, groups: [{name: b}]}\n")
    assert (found.code, found.field) == ("U149", "spec.groups[0]")
    assert "write on: ocm" in found.hint


def test_no_groups_at_all_would_be_local_ones() -> None:
    found = problem_of("metadata: {name: lab}\nspec: {superlink: {on: ocm}}\n")
    assert (found.code, found.field) == ("U149", "spec.superlink")
    assert "three sites on this machine" in found.fact


def test_on_one_machine_all_of_it_has_an_effect() -> None:
    load(
        "metadata: {name: lab}\nspec:\n  superlink: {listen: 0.0.0.0, ports: {fleet: 9092}}\n"
        "  security: {caKey: {keyFile: /k}}\n"
        "  groups: [{name: a, placement: {spreadPolicy: {spreadConstraints: []}}}]\n"
    )
