"""`hone report`: the whole story of a refinement."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.client_commands import connected
from app.cli.failures import CliError
from app.cli.options import RefinementId, Server
from app.cli.root import app, console
from app.cli.words import say


@app.command()
def report(
    refinement_id: RefinementId,
    *,
    html: Annotated[
        bool, typer.Option("--html", help="As a page that stands alone, not as Markdown.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it, not to the terminal.")
    ] = None,
    server: Server = None,
) -> None:
    """Tell what was asked, what happened and what came of it, as Markdown."""
    with connected(server) as client:
        text = client.report(refinement_id, "html" if html else "md")
    if output is None:
        say(console(), text.removesuffix("\n"))
        return
    try:
        output.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise CliError(f"cannot write {output}: {error.strerror}") from error
