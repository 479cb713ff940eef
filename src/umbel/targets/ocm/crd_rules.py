"""What the definition of a federation checks across fields, in CEL, and the bounds that make it cheap.

Keys are the names of the model's classes: a rule holds wherever the class is used.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from umbel.documents.clusters import READ_BY
from umbel.documents.words import either
from umbel.model.kubernetes import USUAL_PORT

Rule: TypeAlias = dict[str, Any]

LONGEST_NAME = 40  # of a federation: names of add-ons and objects are made of it
MOST_GROUPS = 128
MOST_USERS = 1000
MOST_CLUSTERS = 2000

_ON = "(has(self.on) ? self.on : has(self.__true__) ? self.__true__ : 'local')"
_LABEL = "[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?"
_HOST = (
    f"(self.matches(r'^({_LABEL}\\.)*{_LABEL}$') && !self.matches(r'(^|\\.)[0-9]+$'))"
    " || isIP(self.startsWith('[') && self.endsWith(']') ? self.substring(1, self.size() - 1) : self)"
)
_STORED = "has({0}.kubernetes) && has({0}.kubernetes.storage)"
_SIZE = f"({_STORED} ? {{0}}.kubernetes.storage.size : '10Gi')"
_CLASS = (
    f"({_STORED} && has({{0}}.kubernetes.storage.className)"
    " ? {0}.kubernetes.storage.className : '')"
)
_VALUES = "(has(self.values) ? self.values.size() : 0)"


def _rule(rule: str, message: str, reason: str = "FieldValueInvalid", path: str = "") -> Rule:
    made = {"rule": rule, "message": message, "reason": reason}
    return made | ({"fieldPath": path} if path else {})


def _forbidden(rule: str, message: str, path: str = "") -> Rule:
    return _rule(rule, message, "FieldValueForbidden", path)


def _unsaid(key: str) -> str:
    """Write that a key of a service is left out; the API server fills in the port by itself."""
    return f"self.port == {USUAL_PORT}" if key == "port" else f"!has(self.{key})"


def _required(rule: str, message: str, path: str = "") -> Rule:
    return _rule(rule, message, "FieldValueRequired", path)


_ONE_ON = _forbidden(
    "!(has(self.on) && has(self.__true__))",
    '"on" is given twice, once as it is and once as "true" (which kubectl makes of a bare on):'
    " keep one of them",
)

RULES: dict[str, list[Rule]] = {
    "Federation": [
        _rule(
            "!self.metadata.name.contains('.')",
            "a federation's name has no dots: lower-case letters, digits and '-'",
            path=".metadata.name",
        ),
    ],
    "SuperLink": [
        _ONE_ON,
        _rule(
            f"{_ON} == 'ocm'",
            "the SuperLink of a Federation resource runs on this hub: write on: ocm"
            " (it cannot join; for another target use umbel up)",
        ),
        _forbidden(
            f"!quantity{_SIZE.format('self')}.isLessThan(quantity{_SIZE.format('oldSelf')})",
            "a volume cannot shrink: kubernetes.storage.size may only grow",
        ),
        _forbidden(
            f"{_CLASS.format('self')} == {_CLASS.format('oldSelf')}",
            "a volume keeps its class: kubernetes.storage.className cannot be changed",
        ),
        _forbidden(
            "!has(self.listen)",
            "the gate listens on every address of its pod: remove listen;"
            " kubernetes.service says how the hub is reached",
            ".listen",
        ),
        _forbidden(
            "!has(self.ports)",
            "the gate has the ports 9092 and 9093 of its pod: remove ports;"
            " kubernetes.service has fleetNodePort and controlNodePort",
            ".ports",
        ),
    ],
    "Security": [
        _forbidden(
            "!has(self.caKey)",
            "the CA's key is a Secret of the hub: remove caKey;"
            " the API server can encrypt Secrets at rest",
            ".caKey",
        ),
    ],
    "Placement": [
        _forbidden(
            "!has(self.spreadPolicy)",
            "Open Cluster Management does nothing with it: remove spreadPolicy;"
            " write a group for each region",
            ".spreadPolicy",
        ),
    ],
    "Ports": [
        _rule(
            f"!has(self.{one}) || !has(self.{other}) || self.{one} != self.{other}",
            f"the ports {one} and {other} are the same",
        )
        for one, other in (("fleet", "control"), ("fleet", "runtime"), ("control", "runtime"))
    ],
    "HubService": [
        _required(
            f"!(self.type in {types}) || has(self.{key})", f"a service of type {words} needs {key}"
        )
        for types, words, key in (
            ("['Gateway', 'Ingress']", "Gateway or Ingress", "fleetHost"),
            ("['Gateway', 'Ingress']", "Gateway or Ingress", "controlHost"),
            ("['Gateway']", "Gateway", "gateway"),
        )
    ]
    + [
        _forbidden(
            f"{_unsaid(key)} || self.type in {list(kinds)}",
            f"{key} has no effect with this type: remove it, or choose the type {either(kinds)}",
            f".{key}",
        )
        for key, kinds in READ_BY.items()
    ],
    "Group": [
        _ONE_ON,
        _rule(
            f"{_ON} == 'ocm'",
            "a group of a Federation resource is on managed clusters: write on: ocm"
            " (local sites are on one machine: use umbel up there)",
        ),
        *(
            _forbidden(
                f"!has(self.{key}) || {_ON} == '{target}'",
                f'"{key}" is only for groups on {target}; remove it',
            )
            for key, target in (
                ("kubernetes", "ocm"),
                ("zones", "opennebula"),
                ("cardinality", "opennebula"),
            )
        ),
    ],
    "Cardinality": [_rule("self.min <= self.max", "min is greater than max")],
    "CaKey": [
        _rule(
            "has(self.passphraseFile) != has(self.keyFile)",
            "exactly one of passphraseFile and keyFile is needed",
        )
    ],
    "User": [
        _rule(
            "self.name != 'owner'",
            'the name "owner" is reserved for whoever declares the federation',
            path=".name",
        )
    ],
    "Requirement": [
        _rule(
            f"self.operator in ['In', 'NotIn'] ? {_VALUES} > 0 : {_VALUES} == 0",
            "In and NotIn need values, Exists and DoesNotExist have none",
        )
    ],
    "ScoreCoordinate": [
        _rule(
            "self.type == 'BuiltIn' ? has(self.builtIn) && !has(self.addOn)"
            " : has(self.addOn) && !has(self.builtIn)",
            "type BuiltIn needs builtIn alone, type AddOn needs addOn alone",
        )
    ],
    "Toleration": [
        _rule(
            "(has(self.key) && self.key != '') || self.operator == 'Exists'",
            "a toleration without a key needs operator Exists",
        )
    ],
}

_IS_HOST = {
    "x-kubernetes-validations": [
        _rule(
            _HOST,
            "neither a host name nor an IP address; ports belong in spec.superlink.ports",
        )
    ]
}
_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}

# On a hub the two addresses have no default: a pod's 127.0.0.1 would mean nothing to anybody.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("FederationSpec", "groups"): {
        **_BY_NAME,
        "maxItems": MOST_GROUPS,
        "description": "The sites, declared in groups.",
    },
    ("FederationSpec", "superlink"): {"default": None},
    ("SuperLink", "endpoint"): {**_IS_HOST, "default": None},
    ("SuperLink", "listen"): {
        **_IS_HOST,
        "default": None,
        "description": "Not on a hub: the gate listens on every address of its pod.",
    },
    ("SuperLink", "ports"): {"description": "Not on a hub: the gate has 9092 and 9093 of its pod."},
    ("Security", "caKey"): {"description": "Not on a hub: the CA's key is a Secret there."},
    ("Placement", "spreadPolicy"): {
        "description": "Not on a hub: Open Cluster Management does nothing with it."
    },
    ("Group", "zones"): {"description": "Not on a hub: for groups on OpenNebula."},
    ("Group", "cardinality"): {"description": "Not on a hub: for groups on OpenNebula."},
    ("Storage", "size"): {"description": "How much the hub's volume holds; it may only grow."},
    ("SuperLink", "alternativeNames"): {"items": _IS_HOST},
    ("Security", "users"): {**_BY_NAME, "maxItems": MOST_USERS},
    ("Runtime", "environments"): _BY_NAME,
    ("SitesOnKubernetes", "clusters"): {"maxProperties": MOST_CLUSTERS},
    ("Placement", "predicates"): {"maxItems": 32},
    ("Environment", "predicates"): {"maxItems": 32},
    ("GroupStrategy", "decisionGroups"): {"maxItems": 32},
    ("LabelSelector", "matchExpressions"): {"maxItems": 32},
    ("ClaimSelector", "matchExpressions"): {"maxItems": 32},
}
