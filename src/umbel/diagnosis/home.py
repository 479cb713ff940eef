"""Judges UMBEL_HOME: whose it is, what fits in, who can look in, whether its state is whole."""

from __future__ import annotations

from collections.abc import Iterator

from umbel.diagnosis.facts import Facts, HomeKind, StateKind
from umbel.diagnosis.finding import DependsOn, Finding, Severity, ok

MIB = 1 << 20
LITTLE_SPACE = 100 * MIB
GOOD_SPACE = 1024 * MIB
FEW_INODES = 1000
SHOWN = 5
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs"})

FOREIGN = DependsOn("HomeForeign")
NO_FOLDER = DependsOn("HomeNotFolder")


def owner(facts: Facts) -> Iterator[Finding]:
    """The folder is ours."""
    home, user = facts.home, facts.machine
    if home.kind is HomeKind.OTHER:
        yield Finding(
            "HomeNotFolder",
            Severity.PROBLEM,
            f"{home.path} is not a folder",
            "set UMBEL_HOME to a folder of yours",
        )
    elif home.kind is HomeKind.FOLDER and home.owner != user.user:
        yield Finding(
            "HomeForeign",
            Severity.PROBLEM,
            f"{home.path} belongs to {home.owner_name}, and this is {user.user_name}: "
            "a home is used by its owner only",
            f"repeat the command as {home.owner_name}, or set UMBEL_HOME to a folder of yours",
        )
    elif home.kind is HomeKind.MISSING:
        yield ok("Home", f"{home.path} is not there yet: nothing was started with it")
    else:
        yield ok("Home", f"{home.path} belongs to {home.owner_name}")


def writable(facts: Facts) -> Iterator[Finding]:
    """Something can be written there."""
    home = facts.home
    if home.unwritable:
        yield Finding(
            "HomeNotWritable",
            Severity.PROBLEM,
            f"{home.path} cannot be written: {home.unwritable}",
            "mend the file system or its rights, or set UMBEL_HOME to a writable folder",
            depends_on=(FOREIGN, NO_FOLDER, DependsOn("DiskFull")),
        )
    if home.filesystem in NETWORK_FILE_SYSTEMS:
        yield Finding(
            "HomeOnNetwork",
            Severity.WARNING,
            f"{home.path} is on a network file system ({home.filesystem}), "
            "where locks and SQLite are not reliable",
            "set UMBEL_HOME to a folder on a local disk",
        )
    if home.open_parent is not None:
        yield Finding(
            "HomeParentOpen",
            Severity.WARNING,
            f"anybody may rename what is in {home.open_parent}, also this home",
            f"chmod o-w {home.open_parent}",
        )


def space(facts: Facts) -> Iterator[Finding]:
    """The disk has room."""
    free, files = facts.home.free_bytes, facts.home.free_files
    if free is not None and free < GOOD_SPACE:
        full = free < LITTLE_SPACE
        yield Finding(
            "DiskFull" if full else "DiskNearlyFull",
            Severity.PROBLEM if full else Severity.WARNING,
            f"{free // MIB} MiB are free on the disk of {facts.home.path}",
            "free some space; old results are in federations/*/hub/runs of UMBEL_HOME",
        )
    elif files is not None and files < FEW_INODES:
        yield Finding(
            "InodesUsedUp",
            Severity.PROBLEM,
            f"{files} more files fit on the disk of {facts.home.path}",
            "remove some: df -i shows the disk, du --inodes where they are",
        )
    elif free is not None:
        yield ok("Disk", f"{free / 2**30:.1f} GiB are free")


def modes(facts: Facts) -> Iterator[Finding]:
    """Nobody else can open private files."""
    loose = facts.home.loose
    if loose:
        names = ", ".join(f"{item.path} ({item.mode:04o})" for item in loose[:SHOWN])
        more = f" and {len(loose) - SHOWN} more" if len(loose) > SHOWN else ""
        commands = [f"chmod {item.wanted:o} {item.path}" for item in loose[:SHOWN]]
        yield Finding(
            "PrivateFilesOpen",
            Severity.PROBLEM,
            f"others can open {names}{more}",
            "; ".join(commands) + "; if others work on this machine, make new keys: "
            "umbel down, then umbel up",
        )
    elif facts.home.kind is HomeKind.FOLDER:
        yield ok("PrivateFiles", "keys, tokens and secrets are closed to others")


def state(facts: Facts) -> Iterator[Finding]:
    """What we remember can be read."""
    seen = facts.state
    match seen.kind:
        case StateKind.DAMAGED:
            yield Finding(
                "StateDamaged",
                Severity.PROBLEM,
                f"the state file {seen.path} cannot be used: {seen.why}",
                f"mv {seen.path} {seen.path}.damaged, then umbel up with your document: "
                "keys and certificates are kept in other files",
            )
        case StateKind.NEWER:
            yield Finding(
                "StateNewer",
                Severity.PROBLEM,
                f"the state file {seen.path} is of a newer Umbel: {seen.why}",
                "use the Umbel version that wrote it",
            )
        case StateKind.UNSEEN:
            yield Finding(
                "StateUnseen",
                Severity.WARNING,
                f"the state file {seen.path} could not be read: {seen.why}",
                "check who owns it; without it nobody can tell what should run",
                depends_on=(FOREIGN, NO_FOLDER, DependsOn("DiskFull")),
            )
        case StateKind.READ | StateKind.MISSING:
            names = ", ".join(f.name for f in facts.federations)
            yield ok("State", f"federations: {names}" if names else "no federation is declared")
    for name in facts.unreadable:
        yield Finding(
            "DocumentUnreadable",
            Severity.PROBLEM,
            f"what is remembered of federation {name} is not a document of this version",
            f"umbel up -f FILE with the document of {name} writes it again",
            about=name,
        )
