"""The command line: `hone`."""

from app.cli import client_commands, report_command, server_commands, steering_commands
from app.cli.root import app

__all__ = [
    "app",
    "client_commands",
    "main",
    "report_command",
    "server_commands",
    "steering_commands",
]


def main() -> None:
    """Run one command."""
    app()
