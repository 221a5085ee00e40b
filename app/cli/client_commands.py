"""The commands that talk to a server: submit, watch, get, review, report and the like."""

import hashlib
import json
import os
import secrets
import sys
import webbrowser
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn, get_args
from urllib.parse import urlencode

import httpx
import typer
from rich.console import Console

from app.cli.contract_client import (
    LIST_PAGE,
    CliError,
    ContractClient,
    WrongAddress,
    path_of,
    perhaps_submitted,
)
from app.cli.display import (
    coloured,
    plain_text,
    say,
    show_calibration,
    show_ending,
    show_insights,
    show_list,
    show_words,
    usage_text,
    watch,
    watch_batch,
)
from app.cli.processes import url_of
from app.cli.root import (
    NOT_PASSED,
    IdempotencyKeyOption,
    JsonOption,
    MaxIterationsOption,
    ModelOption,
    NoTextsOption,
    NoWaitOption,
    OutputOption,
    QuietOption,
    RefinementIdArgument,
    RequestOption,
    ReviewWhenOption,
    ServerOption,
    StrategyOption,
    ThresholdOption,
    app,
    check_writable,
    complete_strategy,
    console,
    day,
    errors,
    instant,
    interruptible,
    parse_json,
    parse_refinement_id,
    print_text,
    read_settings,
    write_file,
)
from app.cli.silence import Silence
from app.contract.batches import Batch
from app.contract.drafts import LONGEST_TEXT
from app.contract.events import Step, StepPage
from app.contract.json_lines import json_lines
from app.contract.judgement import AUTO, FindingsReply
from app.contract.object_drafts import flaws_of_draft
from app.contract.pairs import PairForm
from app.contract.reviews import OnPauseTimeout, PendingReview, ReviewAction
from app.contract.snapshot import Diff, IterationList, Result, Snapshot
from app.contract.statistics import CalibrationList, Dimension, InsightList, search_of
from app.contract.status import RefinementOutcome, Status
from app.legible import on_one_line
from hone import ApiError, HoneError, ServerUnreachable


def given(**fields: Any) -> dict[str, Any]:
    """Return the options that were given, as fields of a request; the server validates them."""
    return {name: value for name, value in fields.items() if value is not None}


def fields_of(
    *,
    criteria: Sequence[str] = (),
    model: str | None,
    strategy: str | None,
    review: str | None,
    **others: Any,
) -> dict[str, Any]:
    """Return the given options of a submission as the fields of its body."""
    return given(
        criteria=_criteria(criteria) or None,
        models={"generator": model, "critic": model} if model else None,
        strategy={"kind": strategy} if strategy else None,
        review={"when": review} if review else None,
        **others,
    )


def read_draft(path: Path, stdin: IO[bytes]) -> str:
    """Return the draft in a file, or of `stdin` for `-`; raise BadParameter for one of no use."""
    text = read_text(path, stdin, at_most=4 * LONGEST_TEXT)
    name = _name_of(path)
    if not text.strip():
        raise typer.BadParameter(f"{name} {'has only white space' if text else 'is empty'}")
    if len(text) > LONGEST_TEXT:
        raise typer.BadParameter(
            f"{name} is too long for a draft, which has at most {LONGEST_TEXT:,} characters"
        )
    return text


def read_text(path: Path, stdin: IO[bytes], at_most: int = -1) -> str:
    """Return the text of a file, or of `stdin` for `-`; raise BadParameter if it is unreadable.

    It begins after a byte order mark, and ends after a little more than `at_most` bytes.
    """
    if path == Path("-") and stdin.isatty():
        say(errors(), "Reading from the terminal; Ctrl-D ends the text.")
    size = at_most + 4 if at_most >= 0 else -1
    with _reading(path), nullcontext(stdin) if path == Path("-") else path.open("rb") as file:
        raw = file.read(size)
        # A character that the limit cuts off is not an error in the file.
        return getincrementaldecoder("utf-8-sig")().decode(raw, final=len(raw) != size)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise BadParameter if a file cannot be read, or not as a text."""
    try:
        yield
    except OSError as error:
        raise typer.BadParameter(f"{_name_of(path)}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{_name_of(path)} is not UTF-8 text") from None


def _name_of(path: Path) -> str:
    return "standard input" if path == Path("-") else str(path)


def read_request(path: Path, stdin: IO[bytes]) -> dict[str, Any]:
    """Return the JSON object in a file; raise BadParameter if there is none."""
    text = read_text(path, stdin)
    try:
        request = parse_json(text)
    except ValueError as error:
        raise typer.BadParameter(f"{_name_of(path)} is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise typer.BadParameter(f"{_name_of(path)} must contain a JSON object")
    if isinstance(request.get("draft"), dict):
        for pointer, why in flaws_of_draft(text):
            raise typer.BadParameter(f"{_name_of(path)}: at {pointer}: {why}")
    return request


def _criteria(texts: Sequence[str]) -> str | list[dict[str, str]]:
    return AUTO if list(texts) == [AUTO] else [_criterion(text) for text in texts]


def _criterion(text: str) -> dict[str, str]:
    name, separator, description = text.partition("=")
    return {"name": name, "description": description} if separator else {"name": name}


def submitted_draft(client: ContractClient, refinement_id: str) -> str | None:
    """Return the draft that was submitted; None if there was none or it is not known."""
    try:
        request = client.request("GET", path_of(refinement_id, "/request"))
    except HoneError:
        return None
    draft = request.get("draft") if isinstance(request, dict) else None
    return draft if isinstance(draft, str) else None


def file_of(result: Result, draft: str | None) -> str:
    """Return a result as a file: it ends with a line end if it is an object, or if the submitted
    draft does."""
    if result.object is not None:
        return f"{result.draft}\n"
    line_end = next((end for end in ("\r\n", "\n") if draft and draft.endswith(end)), "")
    return result.draft if result.draft.endswith("\n") else result.draft + line_end


@dataclass(frozen=True)
class Following:
    """Output of a command that starts or watches a refinement."""

    waits: bool = True
    as_json: bool = False
    quiet: bool = False
    output: Path | None = None
    with_texts: bool = True

    def __post_init__(self) -> None:
        if self.output and not self.waits:
            raise typer.BadParameter("--output has the result, and --no-wait does not wait for it")
        check_writable(self.output)

    @cached_property
    def shown(self) -> Console:
        """The console of the progress."""
        return errors(quiet=self.quiet)

    def follow(self, client: ContractClient, started: Snapshot, draft: str | None = None) -> None:
        """Print the id, or wait for the end and exit; `draft` is the submitted one, if known."""
        if self.waits:
            self.to_the_end(client, started.id, draft)
        print_text(f"{started.model_dump_json(indent=2) if self.as_json else started.id}\n")

    def to_the_end(
        self, client: ContractClient, refinement_id: str, draft: str | None = None
    ) -> NoReturn:
        """Show the progress, print the result, and exit: with 0 if it passed.

        After Ctrl-C the refinement continues on the server; the output says how to watch or end it.
        """
        shown = self.shown
        commands = (f"  hone {name} {refinement_id}" for name in ("watch", "finish", "cancel"))
        advice = (f"{refinement_id} continues on the server. Watch or end it:", *commands)
        try:
            with interruptible(*advice):
                ended = watch(client, refinement_id, shown, with_texts=self.with_texts)
        except ServerUnreachable as error:
            raise CliError(
                f"{error}\nWhat was submitted is kept: hone watch {refinement_id}"
            ) from error
        changes = console() if sys.stdout.isatty() and not self.quiet else None
        show_ending(client, ended, shown, changes)
        if self.quiet and ended.error:
            say(errors(), f"Error: {ended.error.code}: {ended.error.detail}", "red")
        self._deliver(client, ended, draft)
        raise typer.Exit(0 if ended.outcome is RefinementOutcome.PASSED else NOT_PASSED)

    def _deliver(self, client: ContractClient, ended: Snapshot, draft: str | None) -> None:
        if self.as_json:
            printed = f"{ended.model_dump_json(indent=2)}\n"
        elif ended.result:
            given = draft if draft is not None else submitted_draft(client, ended.id)
            printed = file_of(ended.result, given)
        else:
            return
        try:
            if self.output:
                write_file(self.output, [printed.encode()])
            else:
                print_text(printed)
        except BrokenPipeError:
            raise
        except (CliError, OSError) as error:
            why = error if self.output else f"cannot write standard output: {error}"
            again = f"hone get {ended.id}" + ("" if self.as_json else " --draft")
            raise CliError(f"{why}\nThe result is kept: {again}") from error


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
    request: RequestOption = None,
    idempotency_key: IdempotencyKeyOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    no_wait: NoWaitOption = False,
    no_texts: NoTextsOption = False,
    server: ServerOption = None,
) -> None:
    """Submit a text, wait for the end, and print the best draft.

    The draft alone goes to standard output, the progress to standard error. Exit code: 0 if it
    passed, 3 if it ended without passing; then the best draft is printed too, if one was judged.
    """
    following = Following(not no_wait, as_json, quiet, output, not no_texts)
    if file == request == Path("-"):
        raise typer.BadParameter("FILE and --request cannot both read standard input")
    body = read_request(request, sys.stdin.buffer) if request else {}
    body |= fields_of(
        draft=read_draft(file, sys.stdin.buffer) if file else None,
        task=task,
        criteria=criterion or (),
        threshold=threshold,
        max_iterations=max_iterations,
        model=model,
        strategy=strategy,
        review=review,
    )
    if not body.keys() & {"draft", "task"}:
        raise typer.BadParameter("FILE, --task, or --request with one of them is required")
    with connected(server, following.shown) as client:
        submitted = _sent(client, "/v1/refinements", body, idempotency_key)
        draft = body.get("draft", "")
        following.follow(client, submitted, draft if isinstance(draft, str) else None)


def _sent(client: ContractClient, path: str, body: dict[str, Any], key: str | None) -> Snapshot:
    """Submit a body with the given key or a new one; Ctrl-C says how to go on with it."""
    key = key or f"hone-{secrets.token_hex(8)}"
    with interruptible(perhaps_submitted(key)):
        return client.send_surely(path, body, key)


@app.command()
def batch(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="JSON Lines of custom_id and request; - reads standard input."
        ),
    ],
    output: OutputOption = None,
    quiet: QuietOption = False,
    no_wait: NoWaitOption = False,
    server: ServerOption = None,
) -> None:
    """Submit a file of requests, wait, and print the results.

    The results are JSON Lines. Started again with the same file within 24 hours, after Ctrl-C or a
    crash, it goes on with the same batch: nothing is submitted twice. Exit code: 0 if all passed, 3
    if not.
    """
    shown = Following(not no_wait, quiet=quiet, output=output).shown
    lines = _read_lines(file)
    with connected(server, shown) as client:
        try:
            submitted = _submitted(client, lines)
            if no_wait:
                say(console(), submitted.id)
                return
            with interruptible(f"{submitted.id} continues on the server.", SAME_BATCH):
                ended = watch_batch(client, submitted, shown)
            write_results(client.download(ended.links.results), output)
        except BrokenPipeError:
            raise
        except (CliError, OSError, ServerUnreachable) as error:
            raise CliError(f"{error}\n{SAME_BATCH}") from error
    raise typer.Exit(0 if ended.counts.passed == ended.counts.total else NOT_PASSED)


SAME_BATCH = "The same command goes on with it: nothing is submitted twice."


def _read_lines(file: Path) -> bytes:
    """Return what a file has, or standard input for `-`; raise BadParameter if it has no text.

    It begins after a byte order mark.
    """
    with _reading(file):
        lines = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
        lines = lines.decode("utf-8-sig").encode()
    if not lines:
        raise typer.BadParameter(f"{_name_of(file)} is empty")
    return lines


def _submitted(client: ContractClient, lines: bytes) -> Batch:
    """Create a batch of the lines, or return the one that the same lines created."""
    key = f"hone-batch-{hashlib.sha256(lines).hexdigest()}"
    headers = {"Content-Type": "application/jsonl", "Idempotency-Key": key}
    timeout = httpx.Timeout(600.0, connect=10.0)
    options = {"content": lines, "headers": headers, "timeout": timeout}
    return client.read(Batch, "/v1/batches", method="POST", **options)


def write_results(pieces: Iterator[bytes], output: Path | None) -> None:
    """Write pieces to a file, or to standard output; raise CliError or OSError."""
    if output:
        write_file(output, pieces)
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.flush()


@app.command(name="watch")
def watch_command(
    refinement_id: RefinementIdArgument,
    output: OutputOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    no_texts: NoTextsOption = False,
    server: ServerOption = None,
) -> None:
    """Watch a refinement to its end, and print the best draft.

    It prints as `submit` does. Exit code: 0 if it passed, 3 if it ended without passing.
    """
    following = Following(True, as_json, quiet, output, not no_texts)
    with connected(server, following.shown) as client:
        following.to_the_end(client, refinement_id)


@app.command()
def get(
    refinement_id: RefinementIdArgument,
    draft: Annotated[bool, typer.Option("--draft", help="Print only the result's text.")] = False,
    server: ServerOption = None,
) -> None:
    """Print a refinement as JSON, or its text.

    With --draft, standard error says the outcome of one that has not passed. Exit code: 0, whatever
    the outcome.
    """
    with connected(server) as client:
        snapshot = client.snapshot(refinement_id)
        result = snapshot.result if draft else None
        text = file_of(result, submitted_draft(client, refinement_id)) if result else ""
    if not draft:
        print_text(f"{snapshot.model_dump_json(indent=2)}\n")
    elif result is None:
        raise CliError(f"{refinement_id} has no result; it is {snapshot.status}")
    else:
        if snapshot.outcome is not RefinementOutcome.PASSED:
            say(errors(), f"{snapshot.outcome}: {snapshot.reason}", "yellow")
        print_text(text)


OutcomeOption = Annotated[
    list[RefinementOutcome] | None,
    typer.Option(help="Only those that ended with this outcome; repeatable."),
]
SinceOption = Annotated[
    datetime | None,
    typer.Option(parser=instant, metavar="TIME", help="Submitted then (UTC) or later."),
]
UntilOption = Annotated[
    datetime | None,
    typer.Option(parser=instant, metavar="TIME", help="Submitted then (UTC) or before."),
]


@app.command(name="list")
def list_(
    *,
    status: Annotated[
        list[Status] | None, typer.Option(help="Only those in this status; repeatable.")
    ] = None,
    outcome: OutcomeOption = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help="Only those of this strategy; repeatable.", autocompletion=complete_strategy
        ),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only those with this pair; repeatable."),
    ] = None,
    search: Annotated[str | None, typer.Option(help="Only those with all these words.")] = None,
    batch: Annotated[str | None, typer.Option(help="Only those of the batch with this id.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Best score so far, at least.")] = None,
    max_score: Annotated[float | None, typer.Option(help="Best score so far, at most.")] = None,
    min_cost_usd: Annotated[float | None, typer.Option(help="Dollars so far, at least.")] = None,
    max_cost_usd: Annotated[float | None, typer.Option(help="Dollars so far, at most.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Refinements at most.")] = 20,
    as_json: JsonOption = False,
    server: ServerOption = None,
) -> None:
    """List refinements, the newest first.

    On a terminal as many columns as fit; else id, status, score, outcome, cost, creation (UTC)
    and number of iterations, with tabs between them. With --json one snapshot a line.
    """
    filters = given(
        status=status or None,
        outcome=outcome or None,
        strategy=strategy or None,
        q=search,
        batch=batch,
        min_score=min_score,
        max_score=max_score,
        min_cost_usd=min_cost_usd,
        max_cost_usd=max_cost_usd,
        **_submitted_between(since, until),
        **_pairs(metadata or ()),
    )
    with connected(server) as client:
        if as_json:
            for snapshot in islice(client.snapshots(filters, min(limit, LIST_PAGE)), limit):
                print_text(json_lines(f"{snapshot.model_dump_json()}\n".encode()).decode())
            return
        found = client.snapshots(filters | {"result": False}, min(limit, LIST_PAGE))
        show_list(islice(found, limit), console())


def _submitted_between(since: datetime | None, until: datetime | None) -> dict[str, Any]:
    bounds = {"submitted_from": since, "submitted_to": until}
    return {name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in bounds.items() if at is not None}


def _pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the filters for pairs of metadata."""
    for pair in pairs:
        if "=" not in pair:
            raise typer.BadParameter(f"--metadata {pair}: KEY=VALUE is expected")
    return {f"metadata.{key}": value for key, _, value in (pair.partition("=") for pair in pairs)}


@app.command(name="pairs")
def pairs_command(
    *,
    preset: Annotated[
        str | None, typer.Option(help="Only refinements that were made with this preset.")
    ] = None,
    form: Annotated[PairForm, typer.Option(help="Texts, or lists of messages.")] = "plain",
    source: Annotated[
        list[str] | None,
        typer.Option(help="Only from rating, review or comparison; repeatable."),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Print pairs of drafts, preferred and not, as JSON Lines.

    People, or the blind comparison, preferred one. TRL's DPO trainer reads them.
    Exit code: 0, also if there are none.
    """
    check_writable(output)
    query = given(preset=preset, form=form, source=source or None)
    query |= _submitted_between(since, until)
    with connected(server) as client:
        write_results(client.download(f"/v1/pairs?{urlencode(query, doseq=True)}"), output)


@app.command()
def diff(
    refinement_id: RefinementIdArgument,
    before: Annotated[
        int | None,
        typer.Argument(metavar="FROM", min=0, help="Number of an iteration; default: the first."),
    ] = None,
    after: Annotated[
        int | None, typer.Argument(metavar="TO", min=0, help="Default: the result's.")
    ] = None,
    *,
    unified: Annotated[
        bool, typer.Option("--unified", "-u", help="Print it by lines, as a patch.")
    ] = False,
    as_json: JsonOption = False,
    server: ServerOption = None,
) -> None:
    """Show what changed between two drafts, word by word.

    Removed words are red, new ones green; without colours they stand in [-brackets-] and
    {+braces+}.
    """
    with connected(server) as client:
        (of_first, first), (of_last, last) = (
            end if given is None else ("", given)
            for end, given in zip(_ends(client, refinement_id), (before, after), strict=True)
        )
        searches = {"from_path": of_first, "path": of_last} if of_first or of_last else {}
        query = {"from": first, "to": last} | searches
        found = client.read(Diff, path_of(refinement_id, "/diff"), params=query)
    if as_json:
        print_text(f"{found.model_dump_json(indent=2)}\n")
    elif not unified:
        show_words(found, console())
    elif sys.stdout.isatty():
        for line in coloured(found.unified):
            console().print(line, soft_wrap=True, highlight=False)
    else:
        print_text(found.unified)


def _ends(client: ContractClient, refinement_id: str) -> list[tuple[str, int]]:
    """Return search and number of the first judged iteration, if possible outside of inner
    searches, and of the best one."""
    snapshot = client.snapshot(refinement_id)
    best = snapshot.result or snapshot.best
    if best is None or not snapshot.scores:
        raise CliError(f"{refinement_id} has no judged draft; it is {snapshot.status}")
    outermost = [score for score in snapshot.scores if not search_of(score.path)]
    first = (outermost or snapshot.scores)[0]
    return [(search_of(end.path), end.iteration) for end in (first, best)]


@app.command(name="open")
def open_(
    refinement_id: Annotated[
        str | None,
        typer.Argument(
            parser=parse_refinement_id,
            metavar="ID",
            help="Id of the refinement. Default: the list of all.",
        ),
    ] = None,
    *,
    url: Annotated[bool, typer.Option("--url", help="Only print the address.")] = False,
    server: ServerOption = None,
) -> None:
    """Open a refinement in the console.

    The console is a web page of the server. Where no browser is, its address is printed.
    """
    with connected(server) as client:
        address = _console_url(client, refinement_id)
        _require_unless_hidden(client, refinement_id)
    browser = None if url else _browser()
    if browser is None or not browser.open(address):
        say(console(), address)


def _console_url(client: ContractClient, refinement_id: str | None) -> str:
    """Return the page of the console about a refinement, or about all; raise CliError."""
    path = f"/console/refinements/{refinement_id}" if refinement_id else "/console"
    try:
        client.request("GET", path)
    except ApiError as refused:
        if refused.status == 404:
            missing = f"{client.url}{path} is not there: has this server a console?"
            raise CliError(missing) from refused
    return f"{client.url}{path}"


def _require_unless_hidden(client: ContractClient, refinement_id: str | None) -> None:
    """Raise ApiError for a refinement that does not exist; the console may have a key."""
    try:
        if refinement_id is not None:
            client.snapshot(refinement_id)
    except ApiError as refused:
        if refused.status not in {401, 403}:
            raise


def _browser() -> webbrowser.BaseBrowser | None:
    """Return the browser in $BROWSER, or one with windows: others would take the terminal."""
    has_windows = sys.platform != "linux" or "DISPLAY" in os.environ
    if not (has_windows or "WAYLAND_DISPLAY" in os.environ or "BROWSER" in os.environ):
        return None
    try:
        return webbrowser.get()
    except webbrowser.Error:
        return None


@app.command()
def delete(
    refinement_ids: Annotated[
        list[str],
        typer.Argument(parser=parse_refinement_id, metavar="ID", help="Ids to erase."),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    server: ServerOption = None,
) -> None:
    """Erase refinements and all that is derived from them.

    Their status does not matter: work on them stops.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("--yes is required where nobody can be asked")
        what = refinement_ids[0] if len(refinement_ids) == 1 else f"{len(refinement_ids)} of them"
        typer.confirm(f"Erase {what} for good?", abort=True, err=True)
    with connected(server) as client:
        for refinement_id in refinement_ids:
            client.erase(refinement_id)
            say(errors(), f"{refinement_id} is erased")


@app.command()
def cancel(refinement_id: RefinementIdArgument, server: ServerOption = None) -> None:
    """Cancel a refinement, and print its status."""
    with connected(server) as client:
        say(console(), client.cancel(refinement_id).status)


def connected(server: str | None, shown: Console | None = None) -> ContractClient:
    """Return a client of the given server, or of the one in the settings.

    On `shown` it says that the server does not answer.
    """
    if server == "":
        raise typer.BadParameter("--server is empty; it is the URL of a server")
    settings = read_settings()
    try:
        url = server or url_of(settings)
        silence = (
            Silence(url, lambda text: say(shown, text, "yellow", wraps=True)) if shown else None
        )
        return ContractClient(url, api_key=settings.api_key, silence=silence)
    except WrongAddress as error:
        raise typer.BadParameter(str(error)) from None


ACTIONS = get_args(get_args(ReviewAction)[0])


def _complete_action(incomplete: str) -> list[str]:
    return [action for action in ACTIONS if action.startswith(incomplete)]


@app.command()
def finish(refinement_id: RefinementIdArgument, server: ServerOption = None) -> None:
    """End a refinement with its best draft; print its status."""
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
    """Pause a refinement after the steps in progress.

    `hone review ID resume` continues it.
    """
    fields = given(timeout_s=timeout, on_timeout=on_timeout)
    with connected(server) as client:
        say(console(), client.pause(refinement_id, **fields).status)


QuoteOption = Annotated[
    list[str] | None,
    typer.Option(help="Words of the draft that alone may change; may be repeated."),
]


def marks_of(quotes: list[str] | None) -> list[dict[str, str]] | None:
    """Return the passages that have these words."""
    return [{"quote": quote} for quote in quotes] if quotes else None


@app.command()
def review(
    refinement_id: RefinementIdArgument,
    action: Annotated[
        str | None,
        typer.Argument(
            metavar="[" + "|".join(ACTIONS) + "]",
            autocompletion=_complete_action,
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
    """Decide about a draft or a call under review.

    Prints the status. Without ACTION it shows what is to be decided.
    """
    fields = given(
        action=action,
        feedback=feedback,
        draft=read_draft(draft, sys.stdin.buffer) if draft else None,
        arguments=read_request(arguments, sys.stdin.buffer) if arguments else None,
        score=score,
        path=key,
        spans=marks_of(quote),
        reviewer=reviewer,
    )
    if action is None and fields:
        raise typer.BadParameter(f"an action is required: {', '.join(ACTIONS)}")
    with connected(server) as client:
        if action is None:
            _show_pending(client, refinement_id)
        else:
            say(console(), client.review(refinement_id, **fields).status)


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
    """Rate a judged draft, in any status."""
    fields = given(path=path, score=score, better_than=better_than, by=by, note=note)
    with connected(server) as client:
        say(console(), f"rated: event {client.rate(refinement_id, **fields).event}")


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
    output: OutputOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    no_wait: NoWaitOption = False,
    no_texts: NoTextsOption = False,
    server: ServerOption = None,
) -> None:
    """Let a failed refinement go on, and print the best draft.

    It goes on from its journal. What was recorded is not paid again. Exit code: 0 if it passed, 3
    if it ended without passing.
    """
    following = Following(not no_wait, as_json, quiet, output, not no_texts)
    limits = given(
        threshold=threshold,
        max_iterations=max_iterations,
        max_seconds=max_seconds,
        max_wait_seconds=max_wait_seconds,
        max_tokens=max_tokens,
        max_cost_usd=max_cost_usd,
    )
    with connected(server, following.shown) as client:
        path = path_of(refinement_id, "/retry")
        following.follow(client, client.read(Snapshot, path, method="POST", json=limits))


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
    request: RequestOption = None,
    idempotency_key: IdempotencyKeyOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    no_wait: NoWaitOption = False,
    no_texts: NoTextsOption = False,
    server: ServerOption = None,
) -> None:
    """Refine a draft of an ended refinement further.

    That is a new refinement; it waits for its end, and prints as `submit` does. Exit code: 0 if it
    passed, 3 if it ended without passing.
    """
    following = Following(not no_wait, as_json, quiet, output, not no_texts)
    changes = read_request(request, sys.stdin.buffer) if request else {}
    changes |= fields_of(
        feedback=feedback,
        spans=marks_of(quote),
        threshold=threshold,
        max_iterations=max_iterations,
        model=model,
        strategy=strategy,
        review=review,
    )
    query = "" if path is None else f"?{urlencode({'path': path})}"
    with connected(server, following.shown) as client:
        place = path_of(refinement_id, f"/continue{query}")
        following.follow(client, _sent(client, place, changes, idempotency_key))


def _show_pending(client: ContractClient, refinement_id: str) -> None:
    now = client.snapshot(refinement_id)
    if now.review is None:
        raise CliError(f"{refinement_id} is not waiting for a review")
    for asked in now.reviews or (now.review,):
        if len(now.reviews) > 1:
            say(console(), f"--key {asked.key}", "bold")
        _show_review(client, refinement_id, asked)


def _show_review(client: ContractClient, refinement_id: str, asked: PendingReview) -> None:
    say(console(), asked.question, "bold", wraps=True)
    say(console(), f"Until {asked.deadline:%Y-%m-%d %H:%M} UTC, then: {asked.on_timeout}\n")
    if asked.approvals:
        names = ", ".join(on_one_line(approval.reviewer) for approval in asked.approvals)
        say(console(), f"Approved by {names}; it takes {asked.approvals_needed} approvals\n")
    if asked.call is not None:
        say(console(), f"{asked.call.why}\n")
        say(console(), json.dumps(asked.call.arguments, indent=2, ensure_ascii=False))
    elif asked.path is not None:
        drafts = client.read(IterationList, path_of(refinement_id, "/iterations")).data
        say(
            console(),
            next(judged.draft for judged in drafts if judged.path == asked.path),
            wraps=True,
        )


@app.command()
def steps(
    refinement_id: RefinementIdArgument,
    path: Annotated[
        str | None,
        typer.Argument(metavar="[PATH]", help="Key of a step, or of those that begin with it."),
    ] = None,
    server: ServerOption = None,
) -> None:
    """List the steps, or print the prompt and reply of one.

    Without PATH it lists them.
    """
    with connected(server) as client:
        is_there = path is None
        for step in _steps(client, refinement_id, path):
            is_there = True
            say(console(), _headline(step), "bold" if path else "", wraps=True)
            for line in _asked_and_said(step) if path else ():
                say(console(), line, wraps=True)
    if not is_there:
        raise CliError(f"no step at {path} has ended; without PATH the steps are listed")


def _steps(client: ContractClient, refinement_id: str, path: str | None) -> Iterator[Step]:
    """Yield every step, or the one at `path` and those below it."""
    query: dict[str, str | int] = {"path": path} if path else {}
    after, has_more = 0, True
    while has_more:
        asked = query | {"after": after}
        page = client.read(StepPage, path_of(refinement_id, "/steps"), params=asked)
        yield from page.data
        after, has_more = page.next_after, page.has_more


def _headline(step: Step) -> str:
    ended = f"failed: {step.code}" if step.code else step.model or "done"
    voided = ", voided by a retry" if step.is_voided else ""
    return f"{step.event:>4}  {step.key}  {ended}{voided}  ({usage_text(step.usage)})"


def _asked_and_said(step: Step) -> Iterator[str]:
    if prompt := step.prompt:
        yield f"\n--- prompt {prompt.name}, version {prompt.version}"
        yield "(not kept)" if prompt.system is None else f"{prompt.system}\n"
        yield prompt.user or ""
    yield "\n--- reply" if step.reply else f"\n--- {step.code}"
    if isinstance(step.reply, FindingsReply):
        yield (
            "\n".join(f"- {finding.source}: {finding.message}" for finding in step.reply.findings)
            or "nothing"
        )
    else:
        yield step.reply.text if step.reply else step.detail or ""
    yield ""


@app.command()
def report(
    refinement_id: RefinementIdArgument,
    *,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Print a report, as Markdown.

    It has the request, the steps and the result.
    """
    check_writable(output)
    with connected(server) as client:
        text = client.report(refinement_id)
    if output is None:
        print_text(plain_text(text).plain)
    else:
        write_file(output, [text.encode()])


@app.command()
def calibration(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Kinds at most.")] = 100,
    server: ServerOption = None,
) -> None:
    """Show what refinements have taught about scores."""
    with connected(server) as client:
        found = client.read(
            CalibrationList, "/v1/statistics", params={"of": "calibration", "limit": limit}
        )
        show_calibration(found, console())


@app.command()
def insights(
    by: Annotated[
        Dimension | None, typer.Option(help="Only by this. Without it, every grouping is shown.")
    ] = None,
    since: Annotated[
        date | None,
        typer.Option(
            parser=day, metavar="DATE", help="First day that counts, in UTC, such as 2026-01-31."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Rows of each grouping.")] = 20,
    server: ServerOption = None,
) -> None:
    """Show which settings and steps raised the score most.

    By strategy, model, critic, criterion and step.
    """
    with connected(server) as client:
        query = given(of="insights", by=by, since=since and since.isoformat(), limit=limit)
        show_insights(client.read(InsightList, "/v1/statistics", params=query), console())
