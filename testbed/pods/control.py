"""What changes in a cluster's control plane when it has real nodes. Pure: commands in and out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.commands import Command

# Set for clusters without pods: with nodes, Kubernetes' own defaults are wanted.
NOT_WITH_NODES = ("--disable-admission-plugins", "--endpoint-reconciler-type")
EVERY_CONTROLLER = "--controllers=*,-node-ipam-controller"  # ranges of pods are fixed by us


def with_flags(argv: Sequence[str], flags: Sequence[str], without: Sequence[str] = ()) -> list[str]:
    """Set flags, each once: repeated lists would be joined by Kubernetes, not replaced."""
    replaced = {flag.partition("=")[0] for flag in flags} | set(without)
    kept = [word for word in argv if word.partition("=")[0] not in replaced]
    return [*kept, *flags]


def apiserver(command: Command, flags: Sequence[str]) -> Command:
    """Give the API server the flags that `Pods.prepare` said it needs."""
    return Command(command.name, with_flags(command.argv, flags, NOT_WITH_NODES), command.env)


def controllers(command: Command) -> Command:
    """Let the controller manager run every controller: nodes, services and volumes need theirs."""
    return Command(command.name, with_flags(command.argv, [EVERY_CONTROLLER]), command.env)


def scheduler(cluster: str, program: Path, kubeconfig: Path, port: int) -> Command:
    """Give the command that places pods on nodes."""
    argv = [
        str(program),
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--leader-elect=false",
    ]
    return Command(f"{cluster}-scheduler", argv)
