"""The daemon's process: one a UMBEL_HOME."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

from umbel.agent.nursery_process import start
from umbel.errors import UmbelError
from umbel.files import ensure_private_folder


def main() -> int:
    """Be the daemon of the home given as the only argument; a second one leaves at once."""
    home = Path(sys.argv[1])
    nursery: subprocess.Popen[bytes] | None = None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        ensure_private_folder(home / "run")
        lock = os.open(home / "run" / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        # Loading Flower takes longest: it begins before our own modules are loaded.
        nursery = start(home)
        from umbel.server.service import serve  # noqa: PLC0415

        asyncio.run(serve(home, nursery))
    except UmbelError as error:
        logging.getLogger("umbel.daemon").error("%s", error)  # noqa: TRY400  # the fact is enough
        if nursery is not None:
            nursery.terminate()
        # The last line, for who started us: the whole error, not only its words.
        sys.stderr.write(json.dumps(error.as_problem()) + "\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
