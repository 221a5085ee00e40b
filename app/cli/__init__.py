"""The command line: `hone`."""

import sys

from app.contract.plugins import PluginFailed

try:
    from app.cli import access_commands, client_commands, doctor, server_commands
    from app.cli.root import app
except PluginFailed as failed:
    sys.exit(f"Error: {failed}")

__all__ = [
    "access_commands",
    "app",
    "client_commands",
    "doctor",
    "main",
    "server_commands",
]


def main() -> None:
    """Run one command."""
    app()
