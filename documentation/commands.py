"""The reference of the command line: every command with its options."""

import re

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

from app.cli import app

LIST_OF_COMMANDS = re.compile(r"\*\*Commands\*\*:\n\n(\* .*\n)+\n")
HELP = re.compile(r"^\* `--help`: .*\n", re.MULTILINE)


def commands() -> str:
    """Return the page of all commands: a section for each."""
    whole = get_command(app)
    context = typer.Context(whole, info_name="hone")
    text = get_docs_for_click(obj=whole, ctx=context, indent=0, name="hone", title="Commands")
    text = HELP.sub("", LIST_OF_COMMANDS.sub("", text)).replace("**Options**:\n\n\n", "")
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"
