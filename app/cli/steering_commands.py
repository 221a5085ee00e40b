"""`hone finish | review | continue`: commands for a person who has seen a draft."""

import sys
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from app.cli.client import Client
from app.cli.client_commands import connected, watch_to_the_end
from app.cli.drafting import Wishes, read_request, read_text, wished
from app.cli.failures import CliError
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
from app.cli.root import app, console
from app.cli.words import say
from app.contract.reviews import ReviewAction

ACTIONS = get_args(get_args(ReviewAction)[0])


@app.command()
def finish(refinement_id: RefinementId, server: Server = None) -> None:
    """Let a refinement end with its best draft so far, and print its status."""
    with connected(server) as client:
        say(console(), client.finish(refinement_id).status)


@app.command()
def review(
    refinement_id: RefinementId,
    action: Annotated[
        str | None,
        typer.Argument(
            metavar="[" + "|".join(ACTIONS) + "]",
            help="What to do with the draft; without one it is shown.",
        ),
    ] = None,
    *,
    feedback: Annotated[str | None, typer.Option(help="What to change, or why.")] = None,
    draft: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The text that replaces it; - reads standard input."),
    ] = None,
    score: Annotated[float | None, typer.Option(help="Your score for it, 0 to 1.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Key of the review that is meant, to be sure.")
    ] = None,
    server: Server = None,
) -> None:
    """Answer a paused refinement, and print its status; without an ACTION show what is asked."""
    text = read_text(draft, sys.stdin.buffer) if draft else None
    said = {"action": action, "feedback": feedback, "draft": text, "score": score, "path": key}
    given = {name: value for name, value in said.items() if value is not None}
    if action is None and given:
        raise typer.BadParameter(f"say what to do: {', '.join(ACTIONS)}")
    with connected(server) as client:
        if action is None:
            _show_pending(client, refinement_id)
        else:
            say(console(), client.review(refinement_id, given).status)


@app.command(name="continue")
def continue_(
    refinement_id: RefinementId,
    *,
    threshold: Threshold = None,
    max_iterations: MaxIterations = None,
    model: Model = None,
    strategy: Strategy = None,
    review: ReviewWhen = None,
    json: Json = None,
    follow: Follow = False,
    server: Server = None,
) -> None:
    """Start a new refinement from the result of one that has ended, and print its id.

    Exit code: 0; with --watch 1 if it failed or was canceled.
    """
    different: dict[str, Any] = read_request(json, sys.stdin.buffer) if json else {}
    wishes = Wishes(None, (), threshold, max_iterations, model, strategy, review)
    different |= wished(wishes)
    with connected(server) as client:
        child = client.continue_(refinement_id, different)
        say(console(), child.id)
        if follow:
            watch_to_the_end(client, child.id)


def _show_pending(client: Client, refinement_id: str) -> None:
    asked = client.get(refinement_id).review
    if asked is None:
        raise CliError(f"{refinement_id} is not waiting for a review")
    shown = next(it for it in client.iterations(refinement_id) if it.path == asked.path)
    say(console(), asked.question, "bold")
    say(console(), f"Until {asked.deadline:%Y-%m-%d %H:%M} UTC, then: {asked.on_timeout}\n")
    say(console(), shown.draft)
