"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Server = Annotated[
    str | None,
    typer.Option(
        envvar="HONE_SERVER", help="Address of the API.  [default: by HONE_HOST and HONE_PORT]"
    ),
]
RefinementId = Annotated[str, typer.Argument(metavar="ID", help="The refinement.")]

Threshold = Annotated[float | None, typer.Option(help="Score that is good enough.")]
MaxIterations = Annotated[int | None, typer.Option(help="Drafts written at most.")]
Model = Annotated[str | None, typer.Option(help="Plays every role: provider:name.")]
Strategy = Annotated[str | None, typer.Option(help="Shape of the loop.")]
ReviewWhen = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="Ask a person: each_iteration or before_completion."),
]
Json = Annotated[Path | None, typer.Option(help="The request, or what is different, as JSON.")]
Follow = Annotated[bool, typer.Option("--watch", help="Show it until it has ended.")]
