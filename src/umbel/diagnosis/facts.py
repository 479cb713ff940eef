"""What the checks look at. Gathered once; nothing here looks or decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from umbel.identity.certificates import Trouble
from umbel.model.federation import Federation
from umbel.model.status import Condition


@dataclass(frozen=True, slots=True)
class Unseen:
    """Nobody could look: that is not the same as all is well."""

    why: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A time that must have passed already, and how we know of it."""

    what: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, and the process that looks at it."""

    platform: str
    python: tuple[int, int, int]
    executable: str
    umbel: str
    now: datetime
    keeps_time: bool | None  # None: the kernel does not say
    open_files: int  # how many this process may have open; 0: as many as it likes
    memory_free: int | None  # bytes
    user: int
    user_name: str


class HomeKind(StrEnum):
    """What is at UMBEL_HOME."""

    MISSING = "missing"
    FOLDER = "folder"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Loose:
    """A private file or folder that others can open."""

    path: Path
    mode: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Home:
    """The folder in which everything is."""

    path: Path
    kind: HomeKind
    owner: int = 0  # of the folder, or of the nearest one above that exists
    owner_name: str = ""
    unwritable: str = ""  # why, if it cannot be written
    free_bytes: int | None = None
    free_files: int | None = None
    filesystem: str = ""
    open_parent: Path | None = None  # a folder above that anybody may rename things in
    loose: tuple[Loose, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowerSeen:
    """The installed Flower, and what of our table it does not keep."""

    version: str  # empty: not installed
    mismatches: tuple[str, ...] | Unseen


class StateKind(StrEnum):
    """What the state file is like."""

    MISSING = "missing"
    READ = "read"
    DAMAGED = "damaged"
    NEWER = "newer"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class StateSeen:
    """The state file."""

    kind: StateKind
    path: Path
    why: str = ""


class KeeperState(StrEnum):
    """How one of our two background processes does."""

    ABSENT = "absent"  # no socket
    STALE = "stale"  # a socket, and nobody who listens
    SILENT = "silent"  # somebody listens and does not answer
    ALIVE = "alive"


@dataclass(frozen=True, slots=True)
class Keeper:
    """The daemon or the nursery."""

    name: str
    state: KeeperState
    why: str = ""
    pid: int = 0
    version: str = ""  # empty: it does not say
    executable: str = ""
    last_words: str = ""
    lets_flower_call: bool = False  # telemetry or update check are not switched off


@dataclass(frozen=True, slots=True)
class Holder:
    """Who listens on a port; pid 0: the kernel does not tell us."""

    pid: int
    command: str
    user: str
    ours: bool  # a unit of this home


@dataclass(frozen=True, slots=True)
class PortSeen:
    """A port that a federation has, or the first one would like to have."""

    purpose: str
    number: int
    holder: Holder | None = None
    declared: bool = False


@dataclass(frozen=True, slots=True)
class CertificateTrouble:
    """One thing that is wrong with one certificate."""

    who: str  # hub, or a site
    trouble: Trouble
    fact: str
    hint: str


@dataclass(frozen=True, slots=True)
class CertificateDue:
    """A certificate that is good, but ends."""

    who: str
    days_left: int


@dataclass(frozen=True, slots=True)
class DoorSeen:
    """What a client meets at one of the gate's doors."""

    api: str
    address: str
    closed: str = ""  # why nobody could connect
    untrusted: str = ""  # why the handshake failed
    stranger: int = 0  # the status that a stranger gets; 0: no answer


@dataclass(frozen=True, slots=True)
class UnitSeen:
    """A unit as the state has it, and whether its process is there."""

    name: str
    alive: bool
    exit_code: str
    last_words: str
    log: Path


@dataclass(frozen=True, slots=True)
class DataSeen:
    """A folder with private data, as a group declares it."""

    group: str
    path: str
    why: str = ""  # why it cannot be read


@dataclass(frozen=True, slots=True)
class FederationSeen:
    """One declared federation."""

    document: Federation
    ports: tuple[PortSeen, ...] = ()
    troubles: tuple[CertificateTrouble, ...] = ()
    due: tuple[CertificateDue, ...] = ()
    checked: int = 0  # certificates
    doors: tuple[DoorSeen, ...] = ()
    units: tuple[UnitSeen, ...] = ()
    data: tuple[DataSeen, ...] = ()
    conditions: tuple[Condition, ...] | Unseen = ()
    unresolved: str = ""  # why the endpoint's name is not known here

    @property
    def name(self) -> str:
        """The federation's name."""
        return self.document.name


@dataclass(frozen=True, slots=True)
class LeftProcess:
    """A process of this home that belongs to no federation."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class OldRuns:
    """Folders of runs that nobody has touched for long."""

    folder: Path
    count: int
    size: int  # bytes; of a very large folder, what was counted in the time
    days: int  # age of the oldest


@dataclass(frozen=True, slots=True)
class UnsafeParent:
    """A parent of tasks that cannot fork: each task gets a fresh process instead."""

    environment: str
    why: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything at once."""

    machine: Machine
    home: Home
    flower: FlowerSeen
    state: StateSeen
    daemon: Keeper
    nursery: Keeper
    moments: tuple[Moment, ...] = ()
    default_ports: tuple[PortSeen, ...] = ()
    federations: tuple[FederationSeen, ...] = ()
    unreadable: tuple[str, ...] = ()  # federations whose document this version cannot read
    left: tuple[LeftProcess, ...] = ()
    starting: bool = False  # a process of this home has just begun, and does not answer yet
    old_runs: tuple[OldRuns, ...] = ()
    unsafe: tuple[UnsafeParent, ...] = ()
