"""The command line, and the agents of its demonstration."""

import sys


def main() -> None:
    """Run the program `outlast`, and exit with its code."""
    from outlast.cli.program import run  # noqa: PLC0415 - the demo's agents are imported without the whole program

    sys.exit(run())
