"""A web server that says nothing: daemon and desk have logs of their own."""

from __future__ import annotations

import uvicorn
from starlette.applications import Starlette

IDLE_S = 75  # longer than the gate keeps an idle connection, so that it closes first


def quiet_server(app: Starlette) -> uvicorn.Server:
    """Serve without a word in the log, and leave signals to the caller."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=IDLE_S,
        loop="asyncio",
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    return server
