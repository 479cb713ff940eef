"""The one place where programs of the machine are run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from testbed.errors import BedError

TIMEOUT_S = 300


class CommandFailed(BedError):
    """A program ended with an error: its last words are told."""

    def __init__(self, argv: Sequence[str], status: int, words: str) -> None:
        super().__init__(f"`{' '.join(argv)}` ended with {status}: {words.strip()[-2000:]}")
        self.status = status
        self.words = words


def run(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = TIMEOUT_S
) -> str:
    """Run to the end and give what it printed; an error is an exception with its words."""
    try:
        done = subprocess.run(
            argv, check=False, capture_output=True, text=True, env=env, timeout=timeout
        )
    except OSError as error:
        raise BedError(f"cannot run {argv[0]}: {error}", hint="is its package there?") from error
    except subprocess.TimeoutExpired as error:
        raise BedError(f"`{' '.join(argv)}` took longer than {timeout:.0f} s") from error
    if done.returncode:
        raise CommandFailed(argv, done.returncode, done.stderr or done.stdout)
    return done.stdout
