"""What can go wrong with the test bed, told with a hint."""

from __future__ import annotations


class BedError(Exception):
    """A fact a person can do something about, and what that is."""

    def __init__(self, fact: str, *, hint: str = "") -> None:
        super().__init__(fact)
        self.fact = fact
        self.hint = hint


class CannotRun(BedError):
    """This machine lacks something that the test bed needs."""


class GoMissing(CannotRun):
    def __init__(self, seen: str, needed: str) -> None:
        super().__init__(
            f"Go {needed} or newer is needed to build Kubernetes; {seen}",
            hint="put a newer `go` on PATH, or name its program in TESTBED_GO",
        )


class BuildFailed(BedError):
    def __init__(self, program: str, words: str) -> None:
        super().__init__(
            f"cannot build {program}:\n{words.strip()}",
            hint="is the Go module proxy within reach? What was built is kept: repeat the command",
        )


class NotBuilt(BedError):
    def __init__(self, program: str) -> None:
        super().__init__(f"{program} is not built yet", hint="python -m testbed build")


class NotUp(BedError):
    def __init__(self, what: str) -> None:
        super().__init__(f"there is no {what} here", hint="python -m testbed up")


class EndedEarly(BedError):
    def __init__(self, name: str, log: str) -> None:
        super().__init__(
            f"{name} ended by itself; its last words:\n{log}",
            hint=f"python -m testbed logs {name}",
        )


class TooSlow(BedError):
    def __init__(self, what: str, seconds: float, seen: str = "") -> None:
        super().__init__(
            f"{what} did not happen within {seconds:.0f} s{f'; seen last: {seen}' if seen else ''}",
            hint="python -m testbed status, then logs NAME",
        )
