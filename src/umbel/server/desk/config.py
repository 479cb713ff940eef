"""What a desk is told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from umbel.errors import WorldError
from umbel.model.document import Name


class DeskConfigInvalid(WorldError):
    """The desk's configuration cannot be used."""

    code = "U246"
    exit_status = 2

    def __init__(self, path: Path, fact: str) -> None:
        super().__init__(
            f"the desk's configuration {path} {fact}",
            hint="Umbel writes this file with the hub: apply the federation again, or mend the "
            "named key",
        )


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("must be an absolute path")
    return path


FullPath = Annotated[Path, AfterValidator(_absolute)]


class DeskConfig(BaseModel):
    """All that a desk is told. An unknown key is a mistake."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    federation: Name
    socket: FullPath  # where the desk listens
    control: str = Field(pattern=r"^[A-Za-z0-9.\-\[\]:_]+:[0-9]{1,5}$")  # the gate's control door
    ca: FullPath  # whom the desk trusts there
    token_file: FullPath  # of an admin
    roster: FullPath  # the gate's list of sites
    runs: FullPath  # one folder a run, as the hub's executor writes them
    status: FullPath  # where the last report is kept

    def to_json(self) -> str:
        """Write the configuration as `read` reads it."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def read(path: Path) -> DeskConfig:
    """Read the file that `python -m umbel.server.desk` is given."""
    try:
        return DeskConfig.model_validate_json(path.read_bytes(), by_alias=True, by_name=False)
    except OSError as error:
        raise DeskConfigInvalid(path, f"cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        fact = f"has a mistake at {where}: {first['msg']}" if where else f"is wrong: {first['msg']}"
        raise DeskConfigInvalid(path, fact) from error
