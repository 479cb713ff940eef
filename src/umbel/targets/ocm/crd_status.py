"""The status of a federation as a custom resource.

`sites` is one atomic list: as a list by key, the record of who owns which field would take half as
much room again. With the bounds below, 1,000 sites at their longest stay under 1 MiB.
"""

from __future__ import annotations

from typing import Any

from umbel.targets.ocm.structural import Schema

MOST_SITES = 2000
LONGEST_MESSAGE = 256  # of a site; longer ones are cut by whoever writes them
MOST_CERTIFICATES = 64


def status_schema() -> Schema:
    """Describe what the operator reports."""
    return _object(
        "What the operator sees; nobody else writes it.",
        phase=_text("Ready, Progressing, Degraded, Down, Deleting or Unknown.", 32),
        observedGeneration=_number("The generation that this status is about."),
        endpoint=_object(
            "Where the gate is reached, as host:port.",
            fleet=_text("Sites dial this one.", 300),
            control=_text("People dial this one.", 300),
        ),
        sitesOnline=_number("Sites whose SuperNode is online at the SuperLink."),
        sitesWanted=_number("Sites that placement chose."),
        sitesText=_text("The two as online/wanted.", 32),
        runsActive=_number("Runs that have not ended."),
        versions={
            "description": "The versions of the parts.",
            "type": "object",
            "additionalProperties": _text("", 64),
            "maxProperties": 32,
        },
        conditions=_conditions(),
        sites=_list("One line a site.", _site(), MOST_SITES),
        certificates=_list("Certificates and when they end.", _certificate(), MOST_CERTIFICATES),
        rollout=_rollout(),
    )


def _object(description: str, required: tuple[str, ...] = (), **fields: Schema) -> Schema:
    made: dict[str, Any] = {"description": description} if description else {}
    made |= {"type": "object", "properties": fields}
    return made | ({"required": list(required)} if required else {})


def _text(description: str, longest: int, **more: Any) -> Schema:
    told = {"description": description} if description else {}
    return {**told, "type": "string", "maxLength": longest, **more}


def _number(description: str, kind: str = "int64") -> Schema:
    return {"description": description, "type": "integer", "format": kind}


def _moment(description: str) -> Schema:
    return {"description": description, "type": "string", "format": "date-time"}


def _list(description: str, item: Schema, most: int) -> Schema:
    return {
        "description": description,
        "type": "array",
        "items": item,
        "maxItems": most,
        "x-kubernetes-list-type": "atomic",
    }


def _conditions() -> Schema:
    word = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    item = _object(
        "A judged fact.",
        ("type", "status", "lastTransitionTime", "reason", "message"),
        type=_text("What it is about, such as Ready.", 316),
        status={"type": "string", "enum": ["True", "False", "Unknown"]},
        reason=_text("Why, in one word.", 1024, minLength=1, pattern=word),
        message=_text("Why, in a sentence.", 32768),
        lastTransitionTime=_moment("When status last changed."),
        observedGeneration=_number("The generation that it is about."),
    )
    by_type = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return _list("What holds and what does not.", item, 32) | by_type


def _site() -> Schema:
    return _object(
        "One site and how it does.",
        ("name", "group", "state"),
        name=_text("The managed cluster's name, or the site's.", 63),
        group=_text("Its group.", 63),
        state=_text("online, offline, starting, failing, draining or unknown.", 16),
        partitionId=_number("Stays the same for as long as the site takes part."),
        nodeId=_text("Flower's node id; text, because it has 64 bits.", 20),
        fingerprint=_text("SHA-256 of the site's public key.", 71),
        message=_text("What is the matter, if something is.", LONGEST_MESSAGE),
        version=_text("What the site runs.", 64),
    )


def _certificate() -> Schema:
    return _object(
        "A certificate and when it ends.",
        ("name", "notAfter"),
        name=_text("Which one.", 63),
        subject=_text("Its subject.", 256),
        notAfter=_moment("When it ends."),
        daysLeft=_number("Whole days until then."),
    )


def _rollout() -> Schema:
    return _object(
        "The change that is on its way to the sites.",
        group=_text("Whose sites.", 63),
        version=_text("What they change to.", 128),
        updated=_number("Sites that have it and are online."),
        total=_number("Sites that shall have it."),
        failed=_number("Sites that did not come online with it in time."),
        state=_text("Progressing, Soaking, Done, Stopped or RolledBack.", 32),
    )
