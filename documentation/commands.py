"""The reference of the command line in docs/cli.md: every command with its options.

`python -m documentation.commands` writes it into the page.
"""

import re
from pathlib import Path

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

from app.cli import app

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
BEGIN = "<!-- `make openapi` writes what follows from the code. -->\n"
LIST_OF_COMMANDS = re.compile(r"\*\*Commands\*\*:\n\n(\* .*\n)+\n")
HELP = re.compile(r"^\* `--help`: .*\n", re.MULTILINE)


def commands() -> str:
    """Return the reference: a section for each command."""
    whole = get_command(app)
    context = typer.Context(whole, info_name="hone")
    text = get_docs_for_click(obj=whole, ctx=context, indent=1, name="hone", title="Reference")
    text = HELP.sub("", LIST_OF_COMMANDS.sub("", text)).replace("**Options**:\n\n\n", "")
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def with_commands(page: str) -> str:
    """Return the page with the reference as it is now."""
    head, found, _ = page.partition(BEGIN)
    return f"{head}{found}\n{commands()}"


if __name__ == "__main__":
    PAGE.write_text(with_commands(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
