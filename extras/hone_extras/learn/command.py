"""`hone presets`: propose a change of a preset, see its proof, and accept it."""

import time
from difflib import unified_diff
from typing import Annotated
from urllib.parse import quote

import typer
import yaml
from rich.console import Console

from app.cli.client_commands import connected, given
from app.cli.display import say, say_table, usage_text
from app.cli.root import (
    NOT_PASSED,
    HoneGroup,
    JsonOption,
    NoWaitOption,
    ServerOption,
    console,
    errors,
    interruptible,
    print_text,
)
from hone_extras.learn.proposal import LearnedSetting, Proposal, ProposalList

LOOK_S = 0.5
COLOURS = {"+": "green", "-": "red"}
"""Of the lines of a change."""

presets = typer.Typer(
    cls=HoneGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Presets that learn, with proof (an extra of the server: learn).",
)

PresetArgument = Annotated[str, typer.Argument(metavar="PRESET", help="Name of the preset.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the proposal: prop_...")]


@presets.command(name="propose")
def propose_change(
    preset: PresetArgument,
    *,
    texts: Annotated[int | None, typer.Option(help="Texts played at most.  [default: 20]")] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="DOLLARS", help="What everything may cost.")
    ] = None,
    writer: Annotated[str | None, typer.Option(help="Model that writes the proposal.")] = None,
    judge: Annotated[str | None, typer.Option(help="Model that judges the drafts.")] = None,
    no_wait: NoWaitOption = False,
    json: JsonOption = False,
    server: ServerOption = None,
) -> None:
    """Propose a change of a preset by what people said of its refinements, and prove it.

    The preset stays as it is. Exit code: 0 if the gain is significant; 3 if none was shown.
    """
    fields = given(texts=texts, budget_usd=budget, writer=writer, judge=judge)
    with connected(server, errors()) as client:
        found = client.read(Proposal, _path(preset), method="POST", json=fields)
        if no_wait:
            print_text(f"{found.id}\n")
            return
        advice = f"The server goes on: hone presets proposals {preset} {found.id}"
        with interruptible(advice):
            before = ""
            while found.is_under_way:
                if found.status != before:
                    say(errors(), f"{found.id}: {found.status}")
                before = found.status
                time.sleep(LOOK_S)
                found = client.read(Proposal, _path(preset, found.id))
    _show(found, is_json=json)
    if found.error is not None:
        raise typer.Exit(1)
    raise typer.Exit(0 if found.proof and found.proof.significant else NOT_PASSED)


@presets.command()
def proposals(
    preset: PresetArgument,
    proposal_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Only this one, with its change.")
    ] = None,
    *,
    json: JsonOption = False,
    server: ServerOption = None,
) -> None:
    """List the proposals for a preset, or show one with its proof."""
    with connected(server) as client:
        if proposal_id is not None:
            _show(client.read(Proposal, _path(preset, proposal_id)), is_json=json)
            return
        found = client.read(ProposalList, _path(preset))
    if json:
        print_text(f"{found.model_dump_json(indent=2)}\n")
        return
    head = ("proposal", "status", "gain", "won-lost-tied", "made")
    say_table([head, *map(_row, found.data)], console())


@presets.command()
def accept(
    preset: PresetArgument,
    proposal_id: IdArgument,
    *,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Accept it without a significant gain.")
    ] = False,
    server: ServerOption = None,
) -> None:
    """Change a preset as proposed, if it has not changed since."""
    with connected(server) as client:
        path = f"{_path(preset, proposal_id)}/accept"
        client.read(Proposal, path, method="POST", json={"anyway": anyway})
    say(console(), f"{preset} is changed as {proposal_id} proposed.")


@presets.command(name="remove")
def remove_command(
    preset: PresetArgument, proposal_id: IdArgument, *, server: ServerOption = None
) -> None:
    """Delete a proposal with all that was made for it, in any status."""
    with connected(server) as client:
        client.request("DELETE", _path(preset, proposal_id))
    say(console(), f"removed: {proposal_id}")


def _path(preset: str, proposal_id: str = "") -> str:
    end = f"/{quote(proposal_id, safe='')}" if proposal_id else ""
    return f"/v1/presets/{quote(preset, safe='')}/proposals{end}"


def _row(found: Proposal) -> tuple[str, ...]:
    proof = found.proof
    if proof is None or proof.gain is None:
        return found.id, found.status, "", "", f"{found.created_at:%Y-%m-%d %H:%M}"
    shown = f"{proof.gain.mean:+.3f}{'' if proof.significant else ' (not significant)'}"
    tally = f"{proof.wins}-{proof.losses}-{proof.ties}"
    return found.id, found.status, shown, tally, f"{found.created_at:%Y-%m-%d %H:%M}"


def _show(found: Proposal, *, is_json: bool) -> None:
    if is_json:
        print_text(f"{found.model_dump_json(indent=2)}\n")
    else:
        show_proposal(found, console())


def show_proposal(found: Proposal, shown: Console) -> None:
    """Print a proposal: what it rests on, its change, its proof and what it cost."""
    held = len(found.held_out)
    say(shown, f"{found.id}, {found.status}: {len(found.evidence)} remarks, {held} texts held out")
    for reason in found.why:
        say(shown, f"- {reason.change} ({', '.join(map(str, reason.evidence))})")
    if found.after is not None:
        before, after = _lines(found.before), _lines(found.after)
        for line in [*unified_diff(before, after, lineterm="", n=0)][2:]:
            if line[0] in COLOURS:
                say(shown, line, COLOURS[line[0]])
    if found.error is not None:
        say(shown, f"It failed: {found.error}", "red")
    if (proof := found.proof) is not None:
        say(shown, f"\n{proof.said}", "bold")
        if not proof.significant:
            say(shown, "No significant gain was shown: the preset is best left as it is.")
        elif found.status == "decided":
            say(shown, f"To accept it: hone presets accept {found.preset} {found.id}")
    say(shown, f"\nSpent: {usage_text(found.spent)}")


def _lines(setting: LearnedSetting) -> list[str]:
    told = setting.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=1_000).splitlines()
