"""Whether the environment that an executor itself runs in has what an app needs.

In a container that is the image: who builds an image with an app's dependencies sends them along,
and a site without a network needs nothing else.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

KEY = "provided"
_TIMEOUT_S = 60


def lacks(dependencies: Sequence[str]) -> str:
    """Say what the executor's own environment lacks; empty: nothing."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--no-index", "--no-config"),
        *("--python", sys.executable, "--no-build", "--", *dependencies),
    ]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.decode(errors="replace").strip() if done.returncode else ""
