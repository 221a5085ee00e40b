"""What is shown when a refinement has ended: what changed, and the text that came of it."""

from rich.console import Console

from app.cli.client import Client
from app.cli.unified import coloured
from app.cli.words import say, score_text
from app.contract.snapshot import Result, Snapshot


def show_ending(client: Client, ended: Snapshot, console: Console) -> None:
    """Print the difference between the client's draft and the result, then the result."""
    if ended.error:
        say(console, f"\nIt failed: {ended.error.code}: {ended.error.detail}", "red")
    if ended.result is None:
        say(console, "\nNo draft was judged, so there is no result.")
        return
    _show_difference(client, ended.id, ended.result.iteration, console)
    say(console, f"\nResult: {_headline(ended, ended.result)}\n", "bold")
    say(console, ended.result.draft)
    show_follow_ups(ended.result, console)


def show_follow_ups(result: Result, console: Console) -> None:
    """Print what was made of the result, and how it compares with the draft before it."""
    for name, text in result.outputs.items():
        say(console, f"\n{name}:\n", "bold")
        say(console, text)
    for path in result.missing:
        say(console, f"\n{path} could not be made.", "yellow")
    if compared := result.comparison:
        verdict = f"\nCompared with {compared.against} in both orders: {compared.verdict}."
        say(console, verdict, "bold")


def _show_difference(client: Client, refinement_id: str, to: int, console: Console) -> None:
    if to == 0:
        say(console, "\nThe draft as it was submitted is the best one.")
        return
    difference = client.diff(refinement_id, 0, to)
    if difference is None:  # there was no draft to begin with
        return
    say(console, f"\nWhat changed from the draft to iteration {to}:\n", "bold")
    for line in coloured(difference.unified):
        console.print(line, soft_wrap=True, highlight=False)


def _headline(ended: Snapshot, result: Result) -> str:
    verdict = "passed" if ended.passed else "did not pass"
    reason = f" ({ended.stop_reason})" if ended.stop_reason else ""
    return (
        f"{ended.status}{reason}: iteration {result.iteration} with score"
        f" {score_text(result.score)}, threshold {score_text(ended.threshold)}, {verdict}"
    )
