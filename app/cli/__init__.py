"""The command line: `hone`."""

from app.cli import client_commands, server_commands
from app.cli.root import app

__all__ = ["app", "client_commands", "main", "server_commands"]


def main() -> None:
    """Run one command."""
    app()
