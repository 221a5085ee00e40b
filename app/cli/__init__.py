"""The command line: `hone`."""

from app.cli import access_commands, client_commands, compare, doctor, server_commands
from app.cli.root import app

__all__ = [
    "access_commands",
    "app",
    "client_commands",
    "compare",
    "doctor",
    "main",
    "server_commands",
]


def main() -> None:
    """Run one command."""
    app()
