"""`hone submit | watch | get | cancel`: commands that talk to a running server."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.client import Client
from app.cli.drafting import Wishes, read_request, read_text, request_of
from app.cli.options import (
    Follow,
    Json,
    MaxIterations,
    Model,
    RefinementId,
    ReviewWhen,
    Server,
    Strategy,
    Threshold,
)
from app.cli.processes import url_of
from app.cli.root import INTERRUPTED, app, console, read_settings
from app.cli.watching import watch
from app.cli.words import say
from app.contract.status import Status


@app.command()
def submit(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The draft; - reads standard input.")
    ] = None,
    *,
    task: Annotated[str | None, typer.Option(help="What the text must achieve.")] = None,
    criterion: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=DESCRIPTION]",
            help="What it is judged on; repeatable. auto: a critic lists it.",
        ),
    ] = None,
    threshold: Threshold = None,
    max_iterations: MaxIterations = None,
    model: Model = None,
    strategy: Strategy = None,
    review: ReviewWhen = None,
    json: Json = None,
    follow: Follow = False,
    server: Server = None,
) -> None:
    """Submit a text to be improved, and print the id of its refinement.

    Exit code: 0; with --watch 1 if it failed or was canceled.
    """
    started_from = read_request(json, sys.stdin.buffer) if json else {}
    draft = read_text(file, sys.stdin.buffer) if file else None
    wishes = Wishes(task, criterion or (), threshold, max_iterations, model, strategy, review)
    with connected(server) as client:
        submitted = client.submit(request_of(draft, wishes, started_from))
        say(console(), submitted.id)
        if follow:
            watch_to_the_end(client, submitted.id)


@app.command(name="watch")
def watch_command(refinement_id: RefinementId, server: Server = None) -> None:
    """Show a refinement until it has ended. Exit code: 0; 1 if it failed or was canceled."""
    with connected(server) as client:
        watch_to_the_end(client, refinement_id)


@app.command()
def get(
    refinement_id: RefinementId,
    draft: Annotated[bool, typer.Option("--draft", help="Only the text of the result.")] = False,
    server: Server = None,
) -> None:
    """Print a refinement as JSON."""
    with connected(server) as client:
        snapshot = client.get(refinement_id)
    if not draft:
        say(console(), snapshot.model_dump_json(indent=2))
    elif snapshot.result is None:
        say(console(), f"{refinement_id} has no result; it is {snapshot.status}")
        raise typer.Exit(1)
    else:
        sys.stdout.write(snapshot.result.draft)


@app.command()
def cancel(refinement_id: RefinementId, server: Server = None) -> None:
    """Cancel a refinement, and print its status."""
    with connected(server) as client:
        say(console(), client.cancel(refinement_id).status)


def connected(server: str | None) -> Client:
    """Return a client of the server that was named, or of the one the settings describe."""
    return Client(server or url_of(read_settings()))


def watch_to_the_end(client: Client, refinement_id: str) -> None:
    """Watch; who stops watching is told how to go on."""
    try:
        ended = watch(client, refinement_id, console())
    except KeyboardInterrupt:
        say(console(), f"\n{refinement_id} goes on without you.")
        say(console(), f"  hone watch {refinement_id}    shows it again")
        say(console(), f"  hone cancel {refinement_id}   ends it")
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(0 if ended.status is Status.SUCCEEDED else 1)
