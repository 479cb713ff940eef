"""Lets `python -m umbel` be the command."""

from umbel.cli.main import main

main()
