"""The document as a custom resource on a real API server: what is taken, what is refused and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from testbed.api import Api, Refused, condition
from testbed.bed import Bed

from umbel.documents import DocumentInvalid, load
from umbel.documents.clusters import READ_BY
from umbel.model.federation import FederationSpec
from umbel.targets.ocm.crd import document, federation_crd

Object = dict[str, Any]
Namespace = Callable[[str], str]

VERSION = "umbel.dev/v1alpha1"
DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "federations.umbel.dev", "")
STRICT = "dryRun=All&fieldValidation=Strict"
FEDERATIONS = "/apis/umbel.dev/v1alpha1/namespaces/default/federations"
MIB = 1 << 20

pytestmark = pytest.mark.timeout(600)  # a bed comes up within the first test


@pytest.fixture(scope="module", autouse=True)
def defined(hub: Api) -> Object:
    """The definition on the hub, Established."""
    hub.apply(federation_crd())
    return hub.wait(DEFINITION, lambda seen: condition(seen, "Established") == "True")


def resource(spec: Object, name: str = "a", **metadata: Any) -> Object:
    return {
        "apiVersion": VERSION,
        "kind": "Federation",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": spec,
    }


def whole(**more: Any) -> Object:
    return {"superlink": {"on": "ocm"}, "groups": [{"name": "a", "on": "ocm"}], **more}


def hub_with(**kubernetes: Any) -> Object:
    return whole(superlink={"on": "ocm", "kubernetes": kubernetes})


def group_with(**more: Any) -> Object:
    return whole(groups=[{"name": "a", "on": "ocm", **more}])


def requiring(**requirement: Any) -> Object:
    selector = {"labelSelector": {"matchExpressions": [requirement]}}
    return group_with(placement={"predicates": [{"requiredClusterSelector": selector}]})


def offer(hub: Api, obj: Object) -> Object:
    """Ask the server whether it would take the object."""
    return hub.request("POST", f"{FEDERATIONS}?{STRICT}", obj, Content_Type="application/json")


def refusal(hub: Api, obj: Object) -> str:
    with pytest.raises(Refused) as caught:
        offer(hub, obj)
    assert caught.value.status in (400, 422)
    return str(caught.value)


def test_the_definition_is_structural(defined: Object) -> None:
    assert condition(defined, "Established") == "True"
    assert condition(defined, "NonStructuralSchema") == ""
    names = defined["status"]["acceptedNames"]
    assert (names["shortNames"], names["categories"]) == (["fed"], ["umbel"])


SERVICE = {"type": "Gateway", "fleetHost": "f.example.org", "controlHost": "c.example.org"}
TAKEN = {
    "the least": whole(),
    "bare on, as kubectl reads it": {
        "superlink": {"true": "ocm"},
        "groups": [{"name": "a", "true": "ocm"}],
    },
    "three groups": whole(
        groups=[
            {"name": "a", "on": "ocm", "kubernetes": {"drainSeconds": 0}},
            {"name": "b", "on": "ocm", "placement": {"clusterSets": ["eu"]}},
            {"name": "c", "on": "ocm"},
        ]
    ),
    "nothing where nothing may be": whole(
        groups=[
            {"name": "a", "on": "ocm", "kubernetes": None, "placement": {"numberOfClusters": None}}
        ],
        security={"caKey": None},
    ),
    "a gateway": hub_with(service={**SERVICE, "gateway": "g"}, storage={"size": "1Ti"}),
    "addresses": whole(
        superlink={"on": "ocm", "endpoint": "[fe80::1]", "alternativeNames": ["::1", "a_b.c"]}
    ),
    "numbers and percentages": group_with(
        kubernetes={"rollout": {"maxConcurrent": 5}},
        placement={"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "25%"}}},
    ),
    "any plain node config": group_with(
        data={"nodeConfig": {"a": 1, "b": 2.5, "c": "x", "d": True}}
    ),
}


@pytest.mark.parametrize("spec", TAKEN.values(), ids=TAKEN)
def test_a_good_document_is_taken(hub: Api, spec: Object) -> None:
    stored = offer(hub, resource(spec))
    assert load(json.dumps(document(stored))).name == "a"


REFUSED: dict[str, tuple[Object, str]] = {
    "no superlink": ({"groups": [{"name": "a", "on": "ocm"}]}, "spec.superlink: Required value"),
    "no groups": ({"superlink": {"on": "ocm"}}, "spec.groups: Required value"),
    "empty groups": (whole(groups=[]), "should have at least 1 items"),
    "a hub that joins": (whole(superlink={"on": "join"}), "it cannot join; for another target"),
    "a hub on no target": (whole(superlink={}), "write on: ocm"),
    "on twice": (
        whole(superlink={"on": "ocm", "true": "ocm"}),
        '"on" is given twice, once as it is and once as "true"',
    ),
    "a local group": (
        whole(groups=[{"name": "a", "on": "local"}]),
        "local sites are on one machine",
    ),
    "a group on no target": (whole(groups=[{"name": "a"}]), "is on managed clusters: write on"),
    "a group that joins": (
        whole(groups=[{"name": "a", "on": "ocm"}, {"name": "b", "on": "join"}]),
        "spec.groups[1]: Invalid value: a group of a Federation resource is on managed clusters",
    ),
    "an address to listen on": (
        whole(superlink={"on": "ocm", "listen": "0.0.0.0"}),  # noqa: S104
        "spec.superlink.listen: Forbidden: the gate listens on every address of its pod",
    ),
    "ports of the gate": (
        whole(superlink={"on": "ocm", "ports": {}}),
        "spec.superlink.ports: Forbidden: the gate has the ports 9092 and 9093",
    ),
    "a file for the CA's key": (
        whole(security={"caKey": {"keyFile": "/a"}}),
        "spec.security.caKey: Forbidden: the CA's key is a Secret of the hub",
    ),
    "an even spread": (
        group_with(placement={"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a"}]}}),
        "spec.groups[0].placement.spreadPolicy: Forbidden: Open Cluster Management does nothing",
    ),
    "a node's port without one": (
        hub_with(service={"type": "ClusterIP", "fleetNodePort": 31092}),
        "choose the type NodePort or LoadBalancer",
    ),
    "a gateway's port without one": (
        hub_with(service={"type": "NodePort", "port": 8443}),
        "choose the type Gateway or Ingress",
    ),
    "sites": (group_with(sites=3), 'unknown field "spec.groups[0].sites"'),
    "a slip of the finger": (whole(runtim={}), 'unknown field "spec.runtim"'),
    "two groups of one name": (
        whole(groups=[{"name": "a", "on": "ocm"}, {"name": "a", "on": "join"}]),
        'spec.groups[1]: Duplicate value: {"name":"a"}',
    ),
    "two users of one name": (
        whole(security={"users": [{"name": "ada"}, {"name": "ada", "role": "admin"}]}),
        'spec.security.users[1]: Duplicate value: {"name":"ada"}',
    ),
    "the owner as a user": (
        whole(security={"users": [{"name": "owner"}]}),
        'the name "owner" is reserved',
    ),
    "a bad name": (whole(groups=[{"name": "A b", "on": "ocm"}]), "spec.groups[0].name"),
    "kubernetes where no pods are": (
        whole(groups=[{"name": "a", "on": "join", "kubernetes": {}}]),
        '"kubernetes" is only for groups on ocm; remove it',
    ),
    "zones on ocm": (group_with(zones=["z"]), '"zones" is only for groups on opennebula'),
    "cardinality on ocm": (group_with(cardinality={}), '"cardinality" is only for groups on'),
    "fewest above most": (
        whole(groups=[{"name": "a", "on": "opennebula", "cardinality": {"min": 3, "max": 2}}]),
        "min is greater than max",
    ),
    "no key file": (whole(security={"caKey": {}}), "exactly one of passphraseFile and keyFile"),
    "two key files": (
        whole(security={"caKey": {"passphraseFile": "/a", "keyFile": "/b"}}),
        "exactly one of passphraseFile and keyFile",
    ),
    "a gateway without a name": (hub_with(service=SERVICE), "of type Gateway needs gateway"),
    "a gateway named nothing": (
        hub_with(service={**SERVICE, "gateway": None}),
        "of type Gateway needs gateway",
    ),
    "an ingress without hosts": (
        hub_with(service={"type": "Ingress"}),
        "of type Gateway or Ingress needs fleetHost",
    ),
    "one port twice": (
        whole(superlink={"on": "ocm", "ports": {"fleet": 9092, "control": 9092}}),
        "the ports fleet and control are the same",
    ),
    "a port too many": (
        whole(superlink={"on": "ocm", "ports": {"fleet": 65536}}),
        "should be less than or equal to 65535",
    ),
    "an address with a port": (
        whole(superlink={"on": "ocm", "endpoint": "fl.example.org:9092"}),
        "neither a host name nor an IP address",
    ),
    "half an address": (
        whole(superlink={"on": "ocm", "alternativeNames": ["10.0.0"]}),
        "spec.superlink.alternativeNames[0]: Invalid value",
    ),
    "a size that is none": (
        hub_with(storage={"size": "ten"}),
        "spec.superlink.kubernetes.storage.size",
    ),
    "Exists with values": (
        requiring(key="gpu", operator="Exists", values=["a"]),
        "In and NotIn need values, Exists and DoesNotExist have none",
    ),
    "In without values": (requiring(key="gpu", operator="In"), "In and NotIn need values"),
    "an operator that is none": (requiring(key="gpu", operator="Is"), 'Unsupported value: "Is"'),
    "a score of no kind": (
        group_with(
            placement={
                "prioritizerPolicy": {
                    "configurations": [{"scoreCoordinate": {"type": "AddOn", "builtIn": "Steady"}}]
                }
            }
        ),
        "type AddOn needs addOn alone",
    ),
    "a toleration of nothing": (
        group_with(placement={"tolerations": [{}]}),
        "a toleration without a key needs operator Exists",
    ),
    "more than all": (
        group_with(kubernetes={"rollout": {"maxConcurrent": "101%"}}),
        "spec.groups[0].kubernetes.rollout.maxConcurrent",
    ),
    "text for a number": (
        group_with(placement={"numberOfClusters": "3"}),
        "must be of type integer",
    ),
    "a runtime of another kind": (
        whole(runtime={"isolation": "subprocess"}),
        'Unsupported value: "subprocess": supported values: "process"',
    ),
}


@pytest.mark.parametrize(("spec", "words"), REFUSED.values(), ids=REFUSED)
def test_a_bad_document_is_refused_with_the_reason(hub: Api, spec: Object, words: str) -> None:
    assert words in refusal(hub, resource(spec))


@pytest.mark.parametrize(
    ("name", "words"),
    [("a" * 41, "metadata.name: Too long"), ("a.b", "a federation's name has no dots")],
)
def test_a_name_that_fits_nowhere_is_refused(hub: Api, name: str, words: str) -> None:
    assert words in refusal(hub, resource(whole(), name))


def test_a_volume_grows_and_does_not_shrink(hub: Api, namespace: Namespace) -> None:
    place = namespace("crd-volume")
    path = f"{FEDERATIONS.replace('default', place)}/a"
    hub.apply(resource(whole(), namespace=place))

    def change(**storage: str) -> Object:
        body = {"spec": {"superlink": {"kubernetes": {"storage": storage}}}}
        return hub.patch(path, body)

    with pytest.raises(Refused, match=r"a volume cannot shrink"):
        change(size="5Gi")  # less than the 10Gi that it has without a word
    assert change(size="1Ti")["spec"]["superlink"]["kubernetes"]["storage"]["size"] == "1Ti"
    with pytest.raises(Refused, match=r"may only grow"):
        change(size="1000Gi")
    with pytest.raises(Refused, match=r"a volume keeps its class"):
        change(className="fast")


def test_a_document_goes_through_kubectl_as_it_is_written(
    bed: Bed, hub: Api, tmp_path: Path
) -> None:
    text = (
        "apiVersion: umbel.dev/v1alpha1\nkind: Federation\nmetadata: {name: written}\n"
        "spec:\n  superlink: {on: ocm}\n  groups:\n    - name: a\n      on: ocm\n"
        "      placement: {clusterSets: [nowhere]}\n"
    )
    (tmp_path / "federation.yaml").write_text(text)
    bed.kubectl("hub", "apply", "-f", str(tmp_path / "federation.yaml"))
    stored = hub.get(VERSION, "Federation", "written", "default")
    assert stored
    assert stored["spec"]["superlink"]["true"] == "ocm"  # YAML 1.1
    assert load(json.dumps(document(stored))).spec == load(text).spec
    bed.kubectl("hub", "delete", "fed", "written")


def longest_site(number: int) -> Object:
    return {
        "name": f"{number:0>63}",
        "group": "g" * 63,
        "state": "s" * 16,
        "partitionId": 1_000_000 + number,
        "nodeId": "9" * 20,
        "fingerprint": "f" * 71,
        "message": "m" * 256,
        "version": "v" * 64,
    }


def status_of(sites: list[Object]) -> Object:
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "SitesMissing",
        "message": "one site is not online",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "observedGeneration": 1,
    }
    return {
        "phase": "Progressing",
        "observedGeneration": 1,
        "endpoint": {"fleet": "fl.example.org:443", "control": "c.example.org:443"},
        "sitesOnline": 1,
        "sitesWanted": 2,
        "sitesText": "1/2",
        "runsActive": 3,
        "versions": {"umbel": "0.1.0"},
        "conditions": [ready],
        "sites": sites,
        "certificates": [{"name": "ca", "notAfter": "2030-01-01T00:00:00Z", "daysLeft": 9}],
        "rollout": {"group": "a", "version": "1", "updated": 1, "total": 2, "state": "Soaking"},
    }


def test_a_thousand_sites_at_their_longest_fit(hub: Api, namespace: Namespace) -> None:
    place = namespace("crd-many")
    hub.apply(resource(whole(), namespace=place))
    wanted: Object = {
        "apiVersion": VERSION,
        "kind": "Federation",
        "metadata": {"name": "a", "namespace": place},
        "status": status_of([longest_site(n) for n in range(1000)]),
    }
    stored = hub.apply(wanted, status=True)
    assert stored["status"] == wanted["status"]  # nothing pruned
    assert len(json.dumps(stored, separators=(",", ":"))) < MIB
    wanted["status"]["sites"] = [longest_site(0)] * 2001
    with pytest.raises(Refused, match=r"status\.sites: Too many"):
        hub.apply(wanted, status=True)


def test_the_list_tells_how_federations_do(hub: Api, namespace: Namespace) -> None:
    place = namespace("crd-columns")
    hub.apply(resource(whole(), namespace=place))
    status = status_of([])
    hub.apply({**resource({}, namespace=place), "spec": whole(), "status": status}, status=True)
    path = f"{FEDERATIONS.replace('default', place)}"
    shown = hub.request("GET", path, Accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    first = {c["name"]: cell for c, cell in zip_cells(shown)}
    assert {name: first[name] for name in ("Phase", "Sites", "Runs", "Endpoint", "Reason")} == {
        "Phase": "Progressing",
        "Sites": "1/2",
        "Runs": 3,
        "Endpoint": "fl.example.org:443",
        "Reason": "SitesMissing",
    }
    hidden = {c["name"] for c in shown["columnDefinitions"] if c["priority"]}
    assert hidden == {"Reason", "Message"}


def zip_cells(shown: Object) -> list[tuple[Object, Any]]:
    return list(zip(shown["columnDefinitions"], shown["rows"][0]["cells"], strict=True))


# Whatever the model takes, the definition takes.

FORM = FederationSpec.model_json_schema(by_alias=True)
ASCII = st.characters(min_codepoint=32, max_codepoint=126)
PLAIN: dict[str, Callable[[Mapping[str, Any]], st.SearchStrategy[Any]]] = {
    "null": lambda _: st.none(),
    "boolean": lambda _: st.booleans(),
    "integer": lambda form: st.integers(form.get("minimum", -9), form.get("maximum", 10**6)),
    "number": lambda form: st.floats(form.get("minimum", -9), 1e6, allow_nan=False),
    "string": lambda form: texts(form.get("pattern"), form.get("minLength", 0)),
    "array": lambda form: st.lists(values(form["items"]), max_size=2),
    "object": lambda form: objects(form) if "properties" in form else mappings(form),
}


def texts(pattern: str | None, shortest: int = 0) -> st.SearchStrategy[str]:
    if pattern is None:
        return st.text(ASCII, min_size=shortest, max_size=8)
    return st.from_regex(pattern.replace("$", r"\Z"), alphabet=ASCII)


def objects(form: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    fields = {name: values(field) for name, field in form["properties"].items()}
    needed = {name: fields.pop(name) for name in form.get("required", ())}
    return st.fixed_dictionaries(needed, optional=fields)


def mappings(form: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    keyed = form.get("patternProperties") or {"^[a-z]{1,5}$": form["additionalProperties"]}
    [(key, value)] = keyed.items()
    return st.dictionaries(texts(key), values(value), max_size=2)


def values(form: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Give values that a part of the model's own schema describes."""
    if "$ref" in form:
        return part(form["$ref"].rpartition("/")[2])
    if "anyOf" in form:
        branches = form["anyOf"]
        if "$ref" in branches[0] and "enum" in FORM["$defs"][branches[0]["$ref"][8:]]:
            branches = branches[:1]  # an API server knows no choice that is nothing
        return st.one_of(*(values(branch) for branch in branches))
    if "enum" in form or "const" in form:
        return st.sampled_from(form.get("enum") or [form["const"]])
    return PLAIN[form["type"]](form)


@cache
def part(name: str) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: values(FORM["$defs"][name]))


UNFIT = ("sites", "zones", "cardinality")


@st.composite
def federations(draw: st.DrawFn) -> Object:
    """Draw what the schema of the model describes; whole, it may still break a rule."""
    group = {k: v for k, v in draw(part("Group")).items() if k not in UNFIT}
    group.get("placement", {}).pop("spreadPolicy", None)
    superlink = {k: v for k, v in draw(part("SuperLink")).items() if k == "kubernetes"}
    service = (superlink.get("kubernetes") or {}).get("service", {})
    for key, kinds in READ_BY.items():
        if service.get("type", "ClusterIP") not in kinds:
            service.pop(key, None)
    security = {k: v for k, v in draw(part("Security")).items() if k != "caKey"}
    runtime = draw(part("Runtime"))
    for number, environment in enumerate(runtime.get("environments", ())):
        environment["name"] = f"e-{number}"  # here the definition is stricter: names are unique,
        environment.pop("predicates", None)  # and predicates are checked
    return {
        "superlink": {**superlink, "on": "ocm", "endpoint": "fl.example.org"},
        "groups": [{**group, "on": "ocm"}],
        "runtime": runtime,
        "security": security,
    }


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(spec=federations())
def test_whatever_the_model_takes_the_definition_takes(hub: Api, spec: Object) -> None:
    text = json.dumps({"metadata": {"name": "a"}, "spec": spec})
    try:
        federation = load(text)
    except DocumentInvalid:
        assume(False)
    stored = offer(hub, resource(spec))
    assert load(json.dumps(document(stored))).spec == federation.spec
