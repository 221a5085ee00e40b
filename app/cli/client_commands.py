"""The commands that talk to a server: submit, watch, get, review, report and the like."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, get_args

import typer
from rich.console import Console

from app.cli.client import Client, CliError
from app.cli.display import say, show_calibration, show_insights, usage_text, watch, watch_batch
from app.cli.processes import url_of
from app.cli.root import (
    INTERRUPTED,
    JsonOption,
    MaxIterationsOption,
    ModelOption,
    RefinementIdArgument,
    ReviewWhenOption,
    ServerOption,
    StrategyOption,
    TextsOption,
    ThresholdOption,
    WatchOption,
    app,
    console,
    read_settings,
)
from app.contract.criteria import AUTO
from app.contract.insights import Dimension
from app.contract.judgement import FindingsReply
from app.contract.reviews import OnPauseTimeout, PendingReview, ReviewAction
from app.contract.status import Status
from app.contract.steps import Step


@dataclass(frozen=True)
class SubmitOptions:
    """The options of a submission; None is not given."""

    task: str | None = None
    criteria: Sequence[str] = ()
    threshold: float | None = None
    max_iterations: int | None = None
    model: str | None = None
    strategy: str | None = None
    review: str | None = None


def request_of(
    draft: str | None, options: SubmitOptions, started_from: dict[str, Any]
) -> dict[str, Any]:
    """Return the body to submit: `started_from` with every given option replaced.

    The server validates it.
    """
    given = fields_of(options) | ({} if draft is None else {"draft": draft})
    if not (started_from | given).keys() & {"draft", "task"}:
        raise typer.BadParameter("FILE, --task, or --json with one of them is required")
    return started_from | given


def fields_of(options: SubmitOptions) -> dict[str, Any]:
    """Return the given options as the fields of a body."""
    model = options.model
    asked: dict[str, Any] = {
        "task": options.task,
        "threshold": options.threshold,
        "max_iterations": options.max_iterations,
        "criteria": _criteria(options.criteria) or None,
        "models": {"generator": model, "critic": model} if model else None,
        "strategy": {"kind": options.strategy} if options.strategy else None,
        "review": {"when": options.review} if options.review else None,
    }
    return {name: value for name, value in asked.items() if value is not None}


def read_text(path: Path, stdin: IO[bytes]) -> str:
    """Return the text of a file, or of `stdin` for `-`; raise BadParameter if it is unreadable."""
    try:
        return (stdin.read() if path == Path("-") else path.read_bytes()).decode()
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path} is not UTF-8 text") from None


def read_request(path: Path, stdin: IO[bytes]) -> dict[str, Any]:
    """Return the JSON object in a file; raise BadParameter if there is none."""
    try:
        request = json.loads(read_text(path, stdin))
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise typer.BadParameter(f"{path} must contain a JSON object")
    return request


def _criteria(texts: Sequence[str]) -> str | list[dict[str, str]]:
    return AUTO if list(texts) == [AUTO] else [_criterion(text) for text in texts]


def _criterion(text: str) -> dict[str, str]:
    name, separator, description = text.partition("=")
    return {"name": name, "description": description} if separator else {"name": name}


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
            help="Criterion to judge it on; repeatable. auto: a critic lists the criteria.",
        ),
    ] = None,
    threshold: ThresholdOption = None,
    max_iterations: MaxIterationsOption = None,
    model: ModelOption = None,
    strategy: StrategyOption = None,
    review: ReviewWhenOption = None,
    json: JsonOption = None,
    follow: WatchOption = False,
    texts: TextsOption = False,
    server: ServerOption = None,
) -> None:
    """Submit a text to improve, and print the id of its refinement.

    Exit code: 0; with --watch 1 if it failed or was canceled.
    """
    started_from = read_request(json, sys.stdin.buffer) if json else {}
    draft = read_text(file, sys.stdin.buffer) if file else None
    options = SubmitOptions(
        task, criterion or (), threshold, max_iterations, model, strategy, review
    )
    with connected(server) as client:
        submitted = client.submit(request_of(draft, options, started_from))
        say(console(), submitted.id)
        if follow:
            watch_to_the_end(client, submitted.id, with_texts=texts)


@app.command()
def batch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A request per line, as JSON.")],
    output: Annotated[
        Path | None, typer.Option(help="File for the results. Default: standard output.")
    ] = None,
    server: ServerOption = None,
) -> None:
    """Submit a file of requests, wait until all have ended, and write the results as JSON Lines.

    Started again with the same file within 24 hours, it goes on with the same batch. Exit code: 0;
    1 if a request did not succeed.
    """
    with connected(server) as client:
        try:
            with file.open("rb") as lines:
                submitted = client.submit_batch(lines)
        except OSError as error:
            raise typer.BadParameter(f"{file}: {error.strerror}") from None
        try:
            ended = watch_batch(client, submitted, Console(stderr=True))
        except KeyboardInterrupt:
            say(Console(stderr=True), f"\n{submitted.id} continues on the server.")
            raise typer.Exit(INTERRUPTED) from None
        with output.open("wb") if output else nullcontext(sys.stdout.buffer) as written:
            for piece in client.batch_results(ended):
                written.write(piece)
    raise typer.Exit(0 if ended.counts.succeeded == ended.counts.total else 1)


@app.command(name="watch")
def watch_command(
    refinement_id: RefinementIdArgument,
    texts: TextsOption = False,
    server: ServerOption = None,
) -> None:
    """Show a refinement until it has ended. Exit code: 0; 1 if it failed or was canceled."""
    with connected(server) as client:
        watch_to_the_end(client, refinement_id, with_texts=texts)


@app.command()
def get(
    refinement_id: RefinementIdArgument,
    draft: Annotated[bool, typer.Option("--draft", help="Print only the result's text.")] = False,
    server: ServerOption = None,
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
def cancel(refinement_id: RefinementIdArgument, server: ServerOption = None) -> None:
    """Cancel a refinement, and print its status."""
    with connected(server) as client:
        say(console(), client.cancel(refinement_id).status)


def connected(server: str | None) -> Client:
    """Return a client of the given server, or of the one in the settings."""
    settings = read_settings()
    return Client(server or url_of(settings), api_key=settings.api_key)


def watch_to_the_end(client: Client, refinement_id: str, *, with_texts: bool = False) -> None:
    """Watch a refinement and exit; after Ctrl-C print the commands to continue."""
    try:
        ended = watch(client, refinement_id, console(), with_texts=with_texts)
    except KeyboardInterrupt:
        say(console(), f"\n{refinement_id} continues on the server.")
        say(console(), f"  hone watch {refinement_id}    shows it again")
        say(console(), f"  hone cancel {refinement_id}   cancels it")
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(0 if ended.status is Status.SUCCEEDED else 1)


ACTIONS = get_args(get_args(ReviewAction)[0])


@app.command()
def finish(refinement_id: RefinementIdArgument, server: ServerOption = None) -> None:
    """End a refinement with its best draft so far, and print its status."""
    with connected(server) as client:
        say(console(), client.finish(refinement_id).status)


@app.command()
def pause(
    refinement_id: RefinementIdArgument,
    *,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="At most so long.  [default: a week]")
    ] = None,
    on_timeout: Annotated[
        OnPauseTimeout | None, typer.Option(help="What happens then.  [default: finish]")
    ] = None,
    server: ServerOption = None,
) -> None:
    """Pause a refinement after the steps in progress; `hone review ID resume` continues it."""
    fields = {"timeout_s": timeout, "on_timeout": on_timeout}
    given = {name: value for name, value in fields.items() if value is not None}
    with connected(server) as client:
        say(console(), client.pause(refinement_id, given).status)


QuoteOption = Annotated[
    list[str] | None,
    typer.Option(help="Words of the draft that alone may change; may be repeated."),
]


def marks_of(quotes: list[str] | None) -> list[dict[str, str]] | None:
    """Return the passages that have these words."""
    return [{"quote": it} for it in quotes] if quotes else None


@app.command()
def review(
    refinement_id: RefinementIdArgument,
    action: Annotated[
        str | None,
        typer.Argument(
            metavar="[" + "|".join(ACTIONS) + "]",
            help="Decision about the draft or the call; without one, show it.",
        ),
    ] = None,
    *,
    feedback: Annotated[str | None, typer.Option(help="What to change, or why.")] = None,
    quote: QuoteOption = None,
    draft: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The new draft; - reads standard input."),
    ] = None,
    arguments: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="New arguments of the call, as JSON; - reads standard input."
        ),
    ] = None,
    score: Annotated[float | None, typer.Option(help="Your score for it, 0 to 1.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Key of the review; rejected if another is pending.")
    ] = None,
    reviewer: Annotated[
        str | None, typer.Option(help="Who decides; with an API key it is that key.")
    ] = None,
    server: ServerOption = None,
) -> None:
    """Decide about the draft or call under review and print the status; without ACTION show it."""
    fields = {
        "action": action,
        "feedback": feedback,
        "draft": read_text(draft, sys.stdin.buffer) if draft else None,
        "arguments": read_request(arguments, sys.stdin.buffer) if arguments else None,
        "score": score,
        "path": key,
        "spans": marks_of(quote),
        "reviewer": reviewer,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    if action is None and given:
        raise typer.BadParameter(f"an action is required: {', '.join(ACTIONS)}")
    with connected(server) as client:
        if action is None:
            _show_pending(client, refinement_id)
        else:
            say(console(), client.review(refinement_id, given).status)


@app.command()
def rate(
    refinement_id: RefinementIdArgument,
    path: Annotated[str, typer.Argument(help="Path of a judged draft, such as iterations/2.")],
    *,
    score: Annotated[float | None, typer.Option(help="What it deserves, 0 to 1.")] = None,
    better_than: Annotated[
        str | None, typer.Option(metavar="PATH", help="Path of a draft that is worse.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who says so.")] = None,
    note: Annotated[str | None, typer.Option(help="Why.")] = None,
    server: ServerOption = None,
) -> None:
    """Rate a judged draft, in any status, and print the number of the event."""
    fields = {"path": path, "score": score, "better_than": better_than, "by": by, "note": note}
    given = {name: value for name, value in fields.items() if value is not None}
    with connected(server) as client:
        say(console(), f"rated: event {client.rate(refinement_id, given).event}")


@app.command()
def retry(
    refinement_id: RefinementIdArgument,
    *,
    threshold: ThresholdOption = None,
    max_iterations: MaxIterationsOption = None,
    max_seconds: Annotated[float | None, typer.Option(help="Seconds from now at most.")] = None,
    max_wait_seconds: Annotated[
        float | None, typer.Option(help="Seconds of waits for models from now at most.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of all calls at most.")] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(help="Dollars of all calls at most.")
    ] = None,
    follow: WatchOption = False,
    texts: TextsOption = False,
    server: ServerOption = None,
) -> None:
    """Let a failed refinement go on from its journal, and print its status.

    What was recorded is not paid again. Exit code: 0; with --watch 1 if it failed or was canceled.
    """
    fields = {
        "threshold": threshold,
        "max_iterations": max_iterations,
        "max_seconds": max_seconds,
        "max_wait_seconds": max_wait_seconds,
        "max_tokens": max_tokens,
        "max_cost_usd": max_cost_usd,
    }
    limits = {name: value for name, value in fields.items() if value is not None}
    with connected(server) as client:
        say(console(), client.retry(refinement_id, limits).status)
        if follow:
            watch_to_the_end(client, refinement_id, with_texts=texts)


@app.command(name="continue")
def continue_(
    refinement_id: RefinementIdArgument,
    *,
    path: Annotated[
        str | None,
        typer.Option("--from", help="Path of the draft to start from.  [default: the result's]"),
    ] = None,
    feedback: Annotated[str | None, typer.Option(help="What to change in it first.")] = None,
    quote: QuoteOption = None,
    threshold: ThresholdOption = None,
    max_iterations: MaxIterationsOption = None,
    model: ModelOption = None,
    strategy: StrategyOption = None,
    review: ReviewWhenOption = None,
    json: JsonOption = None,
    follow: WatchOption = False,
    texts: TextsOption = False,
    server: ServerOption = None,
) -> None:
    """Start a new refinement from a draft of one that has ended, and print its id.

    Exit code: 0; with --watch 1 if it failed or was canceled.
    """
    changes: dict[str, Any] = read_request(json, sys.stdin.buffer) if json else {}
    options = SubmitOptions(None, (), threshold, max_iterations, model, strategy, review)
    fields = {"path": path, "feedback": feedback, "spans": marks_of(quote)}
    changes |= fields_of(options) | {name: it for name, it in fields.items() if it is not None}
    with connected(server) as client:
        child = client.continue_(refinement_id, changes)
        say(console(), child.id)
        if follow:
            watch_to_the_end(client, child.id, with_texts=texts)


def _show_pending(client: Client, refinement_id: str) -> None:
    now = client.get(refinement_id)
    if now.review is None:
        raise CliError(f"{refinement_id} is not waiting for a review")
    for asked in now.reviews or (now.review,):
        if len(now.reviews) > 1:
            say(console(), f"--key {asked.key}", "bold")
        _show_review(client, refinement_id, asked)


def _show_review(client: Client, refinement_id: str, asked: PendingReview) -> None:
    say(console(), asked.question, "bold")
    say(console(), f"Until {asked.deadline:%Y-%m-%d %H:%M} UTC, then: {asked.on_timeout}\n")
    if asked.approvals:
        names = ", ".join(it.reviewer for it in asked.approvals)
        say(console(), f"Approved by {names}; it takes {asked.approvals_needed} approvals\n")
    if asked.call is not None:
        say(console(), f"{asked.call.why}\n")
        say(console(), json.dumps(asked.call.arguments, indent=2, ensure_ascii=False))
    elif asked.path is not None:
        drafts = client.iterations(refinement_id)
        say(console(), next(it.draft for it in drafts if it.path == asked.path))


@app.command()
def steps(
    refinement_id: RefinementIdArgument,
    path: Annotated[
        str | None,
        typer.Argument(metavar="[PATH]", help="Key of a step, or of those that begin with it."),
    ] = None,
    server: ServerOption = None,
) -> None:
    """List the steps; with PATH print what a model was asked and what it said."""
    with connected(server) as client:
        is_there = path is None
        for step in client.steps(refinement_id, path):
            is_there = True
            say(console(), _headline(step), "bold" if path else "")
            for line in _asked_and_said(step) if path else ():
                say(console(), line)
    if not is_there:
        raise typer.BadParameter(f"no step at {path} has ended; without PATH the steps are listed")


def _headline(step: Step) -> str:
    ended = f"failed: {step.code}" if step.code else step.model or "done"
    voided = ", voided by a retry" if step.is_voided else ""
    return f"{step.event:>4}  {step.key}  {ended}{voided}  ({usage_text(step.usage)})"


def _asked_and_said(step: Step) -> Iterator[str]:
    if prompt := step.prompt:
        yield f"\n--- prompt {prompt.name}, version {prompt.version}, SHA-256 {prompt.sha256}"
        yield "(not kept)" if prompt.system is None else f"{prompt.system}\n"
        yield prompt.user or ""
    yield "\n--- reply" if step.reply else f"\n--- {step.code}"
    if isinstance(step.reply, FindingsReply):
        yield "\n".join(f"- {it.source}: {it.message}" for it in step.reply.findings) or "nothing"
    else:
        yield step.reply.text if step.reply else step.detail or ""
    yield ""


@app.command()
def report(
    refinement_id: RefinementIdArgument,
    *,
    html: Annotated[
        bool, typer.Option("--html", help="Print a self-contained HTML page, not Markdown.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it to this file instead.")
    ] = None,
    server: ServerOption = None,
) -> None:
    """Print a report of the request, the steps and the result, as Markdown."""
    with connected(server) as client:
        text = client.report(refinement_id, "html" if html else "md")
    if output is None:
        say(console(), text.removesuffix("\n"))
        return
    try:
        output.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise CliError(f"cannot write {output}: {error.strerror}") from error


@app.command()
def calibration(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Kinds at most.")] = 100,
    server: ServerOption = None,
) -> None:
    """Show what ended refinements have taught about scores, by kind."""
    with connected(server) as client:
        show_calibration(client.calibration(limit), console())


@app.command()
def insights(
    by: Annotated[
        Dimension | None, typer.Option(help="Only by this. Without it, every grouping is shown.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="First day that counts, in UTC, such as 2026-01-31."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Rows of each grouping.")] = 20,
    server: ServerOption = None,
) -> None:
    """Show which strategies, models, critics, criteria and steps raised the score most."""
    with connected(server) as client:
        show_insights(client.insights(by, since, limit), console())


@app.command("mcp")
def mcp_command(
    server: ServerOption = None,
    http: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Serve HTTP on this port of 127.0.0.1, not stdio."),
    ] = None,
) -> None:
    """Let an assistant refine texts: a server of the Model Context Protocol."""
    try:
        # The package is an extra, because a service does not need it.
        from app.cli.mcp_server import mcp_server  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise CliError(f"{missing}; install it with: pip install 'hone[mcp]'") from None
    with connected(server) as hone:
        if http is None:
            mcp_server(hone).run("stdio")
        else:
            mcp_server(hone).run("streamable-http", host="127.0.0.1", port=http)
