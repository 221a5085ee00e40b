"""Watching one refinement to its end."""

from collections.abc import Callable

from rich.console import Console

from app.cli.client import Client
from app.cli.display import display_on
from app.cli.ending import show_ending
from app.cli.failures import NotHone
from app.cli.progress import Progress
from app.contract.snapshot import Snapshot


def watch(
    client: Client,
    refinement_id: str,
    console: Console,
    *,
    meanwhile: Callable[[], None] = lambda: None,
) -> Snapshot:
    """Show a refinement until it has ended and what came of it; return its final snapshot.

    `meanwhile` is called with every event, and now and then when there is none.
    """
    progress = Progress()
    with display_on(console, refinement_id) as display:
        for event in client.follow(refinement_id):
            meanwhile()
            if event:
                progress = progress.after(event)
                display.show(progress)
    if progress.final is None:
        raise NotHone("the server")
    show_ending(client, progress.final, console)
    return progress.final
