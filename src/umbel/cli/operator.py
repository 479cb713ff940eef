"""umbel operator"""  # noqa: D400

from __future__ import annotations

import typer

EXAMPLES = """Examples:

  umbel operator                             in a pod: what the chart starts
  UMBEL_KUBECONFIG=hub.yaml UMBEL_DIAL=endpoint umbel operator   from a laptop, to try something

Settings come from the environment: UMBEL_NAMESPACE, UMBEL_IMAGE, UMBEL_WATCH_NAMESPACES,
UMBEL_BIND_CLUSTER_SETS, UMBEL_SPREAD_SECONDS, UMBEL_LOG_LEVEL.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(operator)


def operator() -> None:
    """Keep every Federation of a hub as declared, until told to end."""
    from umbel.operator.process import main

    raise typer.Exit(main())
