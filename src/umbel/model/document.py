"""What every typed document has in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

_LABEL_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"

NAME_PATTERN = rf"^{_DNS_LABEL}$"
LABEL_KEY_PATTERN = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?{_LABEL_PART}$"
LABEL_VALUE_PATTERN = rf"^({_LABEL_PART})?$"

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=63)]
LabelKey = Annotated[str, Field(pattern=LABEL_KEY_PATTERN, max_length=317)]
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE_PATTERN, max_length=63)]


def mistake(kind: str, fact: str, hint: str) -> PydanticCustomError:
    """Refuse a value with a fact and a hint; `kind` is one that the reader of documents knows."""
    return PydanticCustomError(kind, "{fact}", {"fact": fact, "hint": hint})


class Spec(BaseModel):
    """A typed document: an unknown key is a mistake, and nothing changes later."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )
