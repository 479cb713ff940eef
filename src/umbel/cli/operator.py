"""umbel operator"""  # noqa: D400

from __future__ import annotations

import typer

from umbel.cli import hub

EXAMPLES = """Examples:

  umbel operator                             in a pod: what the chart starts
  UMBEL_DIAL=endpoint umbel operator --kubeconfig hub.yaml   from a laptop, to try something

Settings come from the environment: UMBEL_NAMESPACE, UMBEL_IMAGE, UMBEL_WATCH_NAMESPACES,
UMBEL_BIND_CLUSTER_SETS, UMBEL_SPREAD_SECONDS, UMBEL_LOG_LEVEL; UMBEL_KUBECONFIG is --kubeconfig.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(operator)


def operator(kubeconfig: hub.ByKubeconfig = None, in_context: hub.InContext = "") -> None:
    """Keep every Federation of a hub as declared, until told to end."""
    from umbel.operator.process import main

    raise typer.Exit(main(kubeconfig, in_context))
