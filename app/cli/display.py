"""Shows a refinement on a terminal: its progress, its result, and how values are formatted."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from itertools import accumulate, groupby

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress import Progress as ProgressBars
from rich.table import Table
from rich.text import Text

from app.cli.contract_client import ContractClient, path_of
from app.contract.batches import Batch
from app.contract.events import (
    Changed,
    Event,
    EventType,
    IterationCompleted,
    Queued,
    Retried,
    StepCompleted,
    StepDelta,
    StepFailed,
    StepStarted,
    Stopping,
)
from app.contract.judgement import CriterionScore, Usage
from app.contract.reviews import ApprovalGiven, Paused, Reviewed
from app.contract.snapshot import Diff, Result, Snapshot
from app.contract.statistics import (
    CalibratedKind,
    CalibrationList,
    Insight,
    InsightList,
    MeanGain,
    search_of,
)
from app.contract.status import BLOCKING, TEXT_MISSING, RefinementOutcome, Status
from app.contract.waiting import Waiting
from app.legible import legible, on_one_line
from hone import HoneError, NotHone

MOST_LINES = 8
MOST_CHARACTERS = 1_000
"""Limits of the end of a text that the table shows while a model writes it."""


def say(console: Console, text: str, style: str = "", *, wraps: bool = False) -> None:
    """Print a text as it is: without markup and escape sequences, on a terminal wrapped or not."""
    is_wrapped = wraps and console.file.isatty()
    console.print(plain_text(text, style), soft_wrap=not is_wrapped, highlight=False)


def plain_text(text: str, style: str = "") -> Text:
    """Return a text with its control characters replaced, which a terminal would interpret."""
    return Text(legible(text), style)


def name_of(text: str) -> Text:
    """Return the name that a user gave, on one line."""
    return Text(on_one_line(text))


def is_animated(console: Console) -> bool:
    """Return whether a console can redraw its output: FORCE_COLOR makes no terminal of a file."""
    return console.is_interactive and console.file.isatty() and not console.quiet


def score_text(score: float | None) -> str:
    """Return two decimals, never rounded up to a missed threshold; `n/a` if not measured."""
    return "n/a" if score is None else f"{int(score * 100 + 1e-9) / 100:.2f}"


def criteria_text(scores: tuple[CriterionScore, ...]) -> str:
    """Return each criterion with its score."""
    return ", ".join(
        f"{on_one_line(found.criterion)} {score_text(found.score)}" for found in scores
    )


def usage_text(usage: Usage) -> str:
    """Return calls, tokens, cost and seconds."""
    cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    tokens = usage.input_tokens + usage.output_tokens
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    cached = f" ({usage.cached_share:.0%} of the input cached)" if usage.cached_tokens else ""
    return f"{calls}, {tokens:,} tokens{cached}, {cost}, {usage.seconds:.1f} s"


NOTHING = Usage()
OF_ITERATION = re.compile(r"iterations/(\d+)(?:/|\Z)")

STATUS_AFTER: Mapping[EventType, Status] = {
    EventType.QUEUED: Status.QUEUED,
    EventType.STARTED: Status.RUNNING,
    EventType.RESUMED: Status.RUNNING,
    EventType.PAUSED: Status.PAUSED,
    EventType.REVIEWED: Status.QUEUED,
    EventType.RETRIED: Status.QUEUED,
    EventType.CANCELING: Status.CANCELING,
    EventType.COMPLETED: Status.SUCCEEDED,
    EventType.FAILED: Status.FAILED,
    EventType.CANCELED: Status.CANCELED,
}


@dataclass
class Row:
    """One iteration: what it consumed and, once judged, its scores."""

    usage: Usage = NOTHING
    score: float | None = None
    scores: tuple[CriterionScore, ...] = ()
    passed: bool | None = None

    @property
    def is_judged(self) -> bool:
        """Whether it has been judged."""
        return self.passed is not None


@dataclass
class OpenReview:
    """A review that is waited for, and who has approved so far, where several must."""

    asked: Paused
    until: datetime
    approved_by: list[str] = field(default_factory=list)


@dataclass
class Progress:
    """The progress after some events; `final` is the last snapshot while it has ended."""

    status: Status = Status.QUEUED
    strategy: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    threshold: float = 1.0
    max_iterations: int = 1
    phase: tuple[str, ...] = ()
    stopping: str = ""
    reviews: dict[str, OpenReview] = field(default_factory=dict)
    """The reviews that it waits for, by key."""
    waits: dict[str, Waiting] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    usage: Usage = NOTHING
    final: Snapshot | None = None
    retries: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """Texts that are being written, by step."""

    def add_piece(self, piece: StepDelta) -> None:
        """Add a piece to a text that is being written."""
        self.texts[piece.key] = self.texts.get(piece.key, "")[: piece.offset] + piece.text

    def add(self, event: Event) -> None:
        """Add an event; the events come in order."""
        data = event.data
        self.status = STATUS_AFTER.get(event.type, self.status)
        if isinstance(data, Queued | Changed | Retried | IterationCompleted):
            self.threshold = data.limits.threshold
            self.max_iterations = data.limits.max_iterations
        match data:
            case Queued():
                self.strategy, self.models = data.strategy, data.models
            case StepStarted() | StepCompleted() | StepFailed():
                self._add_step(data)
            case IterationCompleted() if data.path == f"iterations/{data.iteration}":
                row = self.rows.setdefault(data.iteration, Row())
                row.score, row.scores, row.passed = data.score, data.scores, data.passed
            case Waiting():
                self.waits[data.key] = data
            case Paused():
                until = event.at + timedelta(seconds=data.timeout_s)
                self.reviews[data.key], self.phase = OpenReview(data, until), ()
            case ApprovalGiven() if data.key in self.reviews:
                self.reviews[data.key].approved_by.append(data.reviewer)
            case Reviewed():
                self.reviews.pop(data.key, None)
                self.status = Status.PAUSED if self.reviews else self.status
            case Stopping():
                self.stopping = f"{data.reason} ({data.limit})" if data.limit else data.reason
                self.status = Status.QUEUED if self.status is Status.PAUSED else self.status
                self.reviews, self.waits = {}, {}
            case Retried():
                why = f"{data.reason.code}: {data.reason.detail}"
                self.retries.append(f"retried at event {event.event} after {why}")
                self.final, self.stopping = None, ""
            case Snapshot():
                self.final, self.usage, self.phase = data, data.usage, ()
                self.reviews, self.waits = {}, {}

    def _add_step(self, data: StepStarted | StepCompleted | StepFailed) -> None:
        self.phase = data.next
        for key in data.next:
            self._row_of(key)
        if not isinstance(data, StepStarted):
            self.waits.pop(data.key, None)
            self.texts.pop(data.key, None)
            self.usage += data.usage
            if row := self._row_of(data.key):
                row.usage += data.usage

    def _row_of(self, key: str) -> Row | None:
        """Return the row of the iteration that a step belongs to, if it belongs to one."""
        match = OF_ITERATION.match(key)
        return self.rows.setdefault(int(match[1]), Row()) if match else None


WORD = re.compile(r"\s+|\S+")
MAX_PAIRS = 4_000_000
"""Maximum pairs of words to compare; above it, changed lines are shown as a whole."""

HEADER = re.compile(r"(---|\+\+\+|@@) ")


def coloured(unified: str) -> Iterator[Text]:
    """Yield the lines of a diff, unchanged but coloured: removed ones red, added ones green."""
    for line in unified.removesuffix("\n").split("\n"):
        style = "cyan" if HEADER.match(line) else {"-": "red", "+": "green"}.get(line[:1], "")
        yield plain_text(line, style)


AROUND = 12
"""Words that are shown before and after a change."""


def show_words(difference: Diff, console: Console) -> None:
    """Print the texts that changed: removed words struck through in red, new ones green.

    Without colours they stand in [-brackets-] and {+braces+}.
    """
    is_coloured = console.color_system is not None and not console.no_color
    pieces = list(_pieces(difference))
    while pieces and pieces[-1][1].isspace():
        pieces.pop()
    text = Text.assemble(*(_marked(*piece, is_coloured=is_coloured) for piece in pieces))
    text.rstrip()
    console.print(text, highlight=False, soft_wrap=not console.file.isatty())


def _pieces(difference: Diff) -> Iterator[tuple[str, str]]:
    """Yield the changes with a few words around them; most unchanged words are left out."""
    last = len(difference.operations) - 1
    for at, operation in enumerate(difference.operations):
        if operation.op == "equal":
            yield "=", _shortened(operation.from_text, is_first=at == 0, is_last=at == last)
            continue
        for kind, words in changed_words(operation.from_text, operation.to_text):
            yield kind, _shortened(words) if kind == "=" else words


def changed_words(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield pieces of both texts in order, each with "=" (in both), "-" (removed) or "+" (new).

    White space between two changes counts as changed with them.
    """
    old, new = WORD.findall(before), WORD.findall(after)
    if len(old) * len(new) > MAX_PAIRS:
        yield from (("-", before), ("+", after))
        return
    removed, added = "", ""
    for tag, start, end, from_, to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        same = "".join(old[start:end])
        if tag != "equal" or (same.isspace() and "\n" not in same and (removed or added)):
            removed, added = removed + same, added + "".join(new[from_:to])
            continue
        yield from _change(removed, added)
        removed = added = ""
        yield "=", same
    yield from _change(removed, added)


def _change(removed: str, added: str) -> Iterator[tuple[str, str]]:
    """Yield what differs; the white space that both begin or end with is in both."""
    head = removed[: len(removed) - len(removed.lstrip())]
    head = head if added.startswith(head) else ""
    removed, added = removed.removeprefix(head), added.removeprefix(head)
    tail = removed[len(removed.rstrip()) :]
    tail = tail if added.endswith(tail) else ""
    pieces = ("=", head), ("-", removed.removesuffix(tail)), ("+", added.removesuffix(tail))
    yield from ((kind, text) for kind, text in (*pieces, ("=", tail)) if text)


def _marked(kind: str, words: str, *, is_coloured: bool) -> Text:
    if kind == "=":
        return plain_text(words)
    if is_coloured:
        return plain_text(words, "strike red" if kind == "-" else "bold green")
    return plain_text(f"[-{words}-]" if kind == "-" else f"{{+{words}+}}")


def _shortened(text: str, *, is_first: bool = False, is_last: bool = False) -> str:
    """Return a text with most of its words left out, if it has many; those at its ends stay."""
    words = WORD.findall(text)
    head = [] if is_first else words[: 2 * AROUND]
    tail = [] if is_last else words[-2 * AROUND :]
    left_out = len(words) - len(head) - len(tail)
    if left_out < 2 * AROUND:
        return text
    begin, end = "".join(head).rstrip(), "".join(tail).lstrip()
    return f"{begin and f'{begin} '}[... {left_out // 2} words ...]{end and f' {end}'}"


def watch_batch(client: ContractClient, batch: Batch, console: Console) -> Batch:
    """Show how far a batch is until it has ended, and return it."""
    for error in batch.errors:
        name = "" if error.custom_id is None else f" ({on_one_line(error.custom_id)})"
        say(console, f"line {error.line}{name}: {error.error.detail}", "red")
    total, shown = batch.counts.total, ""
    with ProgressBars(console=console, transient=True, disable=not is_animated(console)) as bars:
        task = bars.add_task(batch.id, total=total)
        for now in client.follow_batch(batch):
            bars.update(task, completed=total - now.counts.under_way())
            why = now.waiting.detail if now.waiting else ""
            if why and why != shown:
                say(console, f"{now.id} waits: {why}")
            batch, shown = now, why
    counts = [f"{count} {name}" for name, count in batch.counts if count and name != "total"]
    say(console, f"{batch.id} {batch.status}: {', '.join(counts)}")
    return batch


def show_ending(
    client: ContractClient, ended: Snapshot, console: Console, changes: Console | None
) -> None:
    """Print why a refinement ended and the notes on its result, not the result itself.

    What changed from the draft is printed to `changes`, if there is one.
    """
    if ended.error:
        line = f"\nIt failed: {ended.error.code}: {ended.error.detail}"
        say(console, line, "red", wraps=True)
    if ended.result is None:
        say(console, "\nNo draft was judged, so there is no result.")
        return
    if changes:
        _show_changes(client, ended.id, ended.result, changes)
    show_follow_ups(ended.result, console)
    style = "bold green" if ended.outcome is RefinementOutcome.PASSED else "bold yellow"
    say(console, f"\nResult: {_headline(ended, ended.result)}\n", style, wraps=True)


def show_follow_ups(result: Result, console: Console) -> None:
    """Print the outputs, the caveats, and the comparison with the first draft."""
    for name, text in result.outputs.items():
        say(console, f"\n{name}:\n", "bold")
        say(console, text)
    for caveat in result.caveats:
        style = "yellow" if caveat.code in (*BLOCKING, TEXT_MISSING) else ""
        line = f"\n{caveat.code.replace('_', ' ')}: {caveat.path}: {caveat.detail}"
        say(console, line, style, wraps=True)
    if compared := result.comparison:
        verdict = f"\nCompared with {compared.against} in both orders: {compared.verdict}."
        say(console, verdict, "bold")


SHORTEST_TEXT = 12
"""Columns of a terminal that must be left for the beginnings of texts."""

LIST_HEAD = ("refinement", "status", "score", "outcome", "cost", "created", "iterations")


def show_list(found: Iterable[Snapshot], console: Console) -> None:
    """Print refinements: on a terminal the columns that fit, else all, with tabs between them.

    The last column has the beginning of the text, of which a terminal shows what fits.
    """
    found = list(found)
    texts = [on_one_line(snapshot.excerpt or "") for snapshot in found]
    if not console.file.isatty():
        for snapshot, text in zip(found, texts, strict=True):
            print("\t".join((*_list_row(snapshot), text)), file=console.file)
        return
    rows = [_list_row(snapshot) for snapshot in found]
    if not rows:
        say(console, "No refinement is found.")
        return
    widths = [max(map(cell_len, column)) + 1 for column in zip(LIST_HEAD, *rows, strict=True)]
    fits = sum(end <= console.width + 1 for end in accumulate(widths))
    left = console.width - sum(widths) if fits == len(widths) else 0
    texts = [
        set_cell_size(cell, left) if left >= SHORTEST_TEXT else "" for cell in ("text", *texts)
    ]
    for number, (row, text) in enumerate(zip((LIST_HEAD, *rows), texts, strict=True)):
        cells = [
            set_cell_size(cell, width) for cell, width in zip(row[:fits], widths, strict=False)
        ]
        say(console, "".join((*cells, text)).rstrip(), "" if number else "bold")


def _list_row(snapshot: Snapshot) -> tuple[str, ...]:
    best = snapshot.result or snapshot.best
    cost = snapshot.usage.cost_usd
    return (
        snapshot.id,
        snapshot.status,
        score_text(best.score) if best else "",
        snapshot.outcome or "",
        "unknown" if cost is None else f"${cost:.4f}",
        f"{snapshot.created_at:%Y-%m-%dT%H:%MZ}",
        str(len(snapshot.scores)),
    )


INSIGHT_HEAD = ("gain", "95 %", "change", "95 %", "kept", "cases", "cost", "seconds")


CALIBRATION_HEAD = (
    "generator / critic / strategy / criteria",
    *("known", "noise", "gain", "first drafts", "sd", "trust", "pairs", "ratings"),
)


def show_insights(found: InsightList, console: Console) -> None:
    """Print a table for every grouping; the cost and the seconds are those of a case."""
    say(console, f"Since {found.since:%Y-%m-%d} (UTC).")
    if not found.data:
        say(console, "No refinement has ended with drafts that can be compared.", wraps=True)
    for by, insights in groupby(found.data, key=lambda insight: insight.by):
        say(console, "")
        say_table([(by.value, *INSIGHT_HEAD), *map(_insight_row, insights)], console)


def show_calibration(found: CalibrationList, console: Console) -> None:
    """Print a table of the kinds, with their names in front."""
    if not found.data:
        say(
            console,
            "Nothing was learnt yet: no refinement with a critic that is a model succeeded.",
            wraps=True,
        )
        return
    say_table([CALIBRATION_HEAD, *map(_calibration_row, found.data)], console)


def _calibration_row(calibrated: CalibratedKind) -> tuple[str, ...]:
    names = (calibrated.generator, calibrated.critic, calibrated.strategy, calibrated.criteria)
    kind = " / ".join("any" if name is None else name for name in names)
    first = calibrated.first_drafts
    return (
        kind,
        f"{calibrated.refinements:.1f}",
        *(_known(calibrated.noise), _known(calibrated.gain)),
        *(("unknown",) * 2 if first is None else (_known(first.mean), _known(first.sd))),
        *(f"{calibrated.trust:.2f}", f"{calibrated.pairs:.1f}", f"{calibrated.ratings}"),
    )


def _known(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def say_table(rows: Sequence[tuple[str, ...]], console: Console) -> None:
    """Print rows, of which the first is the head: names to the left, other cells to the right.

    Where the terminal is too narrow, each row becomes a paragraph.
    """
    rows = [tuple(map(on_one_line, row)) for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    if console.file.isatty() and sum(widths) + 2 * (len(widths) - 1) > console.width:
        head, *others = rows
        for name, *cells in others:
            say(console, f"{head[0]}: {name}", "bold")
            titled = zip(head[1:], cells, strict=True)
            words = plain_text(", ".join(f"{title} {cell}" for title, cell in titled))
            console.print(Padding(words, (0, 0, 0, 2)), highlight=False)
        return
    for number, (name, *cells) in enumerate(rows):
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        style = "" if number else "bold"
        say(console, "  ".join((name.ljust(widths[0]), *padded)), style)


def _insight_row(insight: Insight) -> tuple[str, ...]:
    mean = insight.mean_usage
    return (
        insight.value,
        *_mean_gain(insight.gain),
        *_mean_gain(insight.change),
        f"{insight.kept:.0%}",
        f"{insight.cases:,}",
        "unknown" if mean.cost_usd is None else f"${mean.cost_usd:.4f}",
        f"{mean.seconds:.1f}",
    )


def _mean_gain(gain: MeanGain) -> tuple[str, str]:
    if gain.low is None or gain.high is None:
        return f"{gain.mean:+.3f}", "unknown"
    return f"{gain.mean:+.3f}", f"{gain.low:+.3f} to {gain.high:+.3f}"


def _show_changes(
    client: ContractClient, refinement_id: str, result: Result, console: Console
) -> None:
    search = search_of(result.path)
    if (search, result.iteration) == ("", 0):
        say(console, "\nThe submitted draft is the best one.")
        return
    inner = {"from_path": "", "path": search} if search else {}
    query = {"from": 0, "to": result.iteration, **inner}
    try:
        difference = client.read(Diff, path_of(refinement_id, "/diff"), params=query)
    except HoneError:  # such as of a text that is not stored: the result has been sent only once
        return
    say(console, f"\nWhat changed from the draft to {draft_name(result)}:\n", "bold")
    show_words(difference, console)


def draft_name(result: Result) -> str:
    """Return what a result is called: its number, or its path if an inner search has made it."""
    number = result.iteration
    return f"iteration {number}" if result.path == f"iterations/{number}" else result.path


def _headline(ended: Snapshot, result: Result) -> str:
    score = f"{draft_name(result)} with score {score_text(result.score)}"
    return f"{ended.outcome}: {score}. {ended.reason}"


@contextmanager
def display_on(console: Console, refinement_id: str) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress: a table on a terminal, else a line for each new fact.

    The table is redrawn with every event; what does not fit on the screen is cut at the end.
    """
    if is_animated(console):
        with Live(console=console, refresh_per_second=8) as live:
            yield lambda now: live.update(Group(*table_of(now, refinement_id, console.width)))
        return
    shown: set[str] = set()

    def show_lines(progress: Progress) -> None:
        for line in lines_of(progress, refinement_id):
            if line not in shown:
                shown.add(line)
                say(console, line)

    yield show_lines


SCORE_CELLS = 6
"""Columns of a score, with the space before it."""
NARROWEST_NAME = 12


def table_of(progress: Progress, refinement_id: str, width: int) -> tuple[Table | Text, ...]:
    """Return the progress, `width` columns wide; the least important rows stand last.

    The table has a column for each iteration, and a row for each criterion.
    """
    head = Text.assemble((refinement_id, "bold"), "\n", plain_text(_models(progress)))
    asked = map(plain_text, (*_waits(progress), *_asked(progress, refinement_id)))
    texts = [] if progress.final else list(map(_last_lines, progress.texts.items()))
    judged = [_scores_of(progress, width)] if progress.rows else []
    steps = [] if progress.final else [_steps(progress.phase)]
    return head, plain_text(_summary(progress)), *asked, Text(), *judged, *steps, *texts


def _scores_of(progress: Progress, width: int) -> Table:
    """Return the scores by criterion and iteration; of many iterations the last ones."""
    found = [score for row in progress.rows.values() for score in row.scores]
    names = list(dict.fromkeys(score.criterion for score in found))
    widest = max((cell_len(name) for name in ("threshold", *names)), default=0)
    name_width = min(widest, max(NARROWEST_NAME, width // 3))
    shown = sorted(progress.rows.items())[-max(1, (width - name_width) // SCORE_CELLS) :]
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
    table.add_column("iteration", width=name_width, no_wrap=True, overflow="ellipsis")
    for number, _ in shown:
        table.add_column(str(number), justify="right", width=SCORE_CELLS - 2, no_wrap=True)
    table.add_row(plain_text("score", "bold"), *(_score(row) for _, row in shown))
    for name in names:
        scores = ({score.criterion: score.score for score in row.scores} for _, row in shown)
        table.add_row(
            name_of(name), *(score_text(score[name]) if name in score else "" for score in scores)
        )
    table.add_row(plain_text("threshold", "dim"), plain_text(score_text(progress.threshold), "dim"))
    return table


def _score(row: Row) -> Text:
    if not row.is_judged:
        return Text("...", "dim")
    return Text(score_text(row.score), "bold green" if row.passed else "bold yellow")


def _steps(keys: tuple[str, ...]) -> Text:
    """Return the steps under way; of many, the first ones."""
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return plain_text(f"now: {', '.join(keys[:3])}{more}" if keys else "now: waiting")


def _last_lines(writing: tuple[str, str]) -> Text:
    """Return the end of a text that is being written, below the key of its step."""
    key, text = writing
    lines = text[-MOST_CHARACTERS:].splitlines()[-MOST_LINES:]
    return Text.assemble((f"{key}\n", "bold"), plain_text("\n".join(lines), "dim"))


def lines_of(progress: Progress, refinement_id: str) -> list[str]:
    """Return all facts, one per line; the line of an unchanged fact stays the same."""
    limits = f"threshold {score_text(progress.threshold)}, at most {progress.max_iterations}"
    lines = [f"{refinement_id}: {_models(progress)}", f"limits: {limits} iterations"]
    for number, row in sorted(progress.rows.items()):
        if row.is_judged:
            verdict = "passed" if row.passed else "not good enough yet"
            scores = f"score {score_text(row.score)} ({criteria_text(row.scores)}), {verdict}"
            beyond = ", beyond the limit" if number > progress.max_iterations else ""
            lines.append(f"iteration {number}{beyond}: {scores}")
    lines += progress.retries
    lines += [f"step: {key}" for key in progress.phase]
    lines += _waits(progress)
    lines += _asked(progress, refinement_id)
    if progress.stopping:
        lines.append(f"stopping: {progress.stopping}")
    if progress.final:
        lines.append(_summary(progress))
    return lines


def _asked(progress: Progress, refinement_id: str) -> list[str]:
    """Return the open reviews, their deadlines, and how to answer; nothing if none is open."""
    is_one = len(progress.reviews) == 1
    answered = (
        (review, "" if is_one else f" --key {key}") for key, review in progress.reviews.items()
    )
    return [line for review, key in answered for line in _question(review, refinement_id, key)]


def _question(review: OpenReview, refinement_id: str, key: str) -> list[str]:
    """Return the question of one review; `key` is the option that names the review."""
    asked = review.asked
    lines = [
        f"paused at {asked.key}: {asked.question}",
        f"  until {review.until:%Y-%m-%d %H:%M} UTC, then: {asked.on_timeout}",
    ]
    if review.approved_by:
        lines.append(f"  approved by {', '.join(map(on_one_line, review.approved_by))}")
    if asked.when == "requested":
        lines.append(f"  hone review {refinement_id} resume    lets it continue")
        if asked.place:
            revise = "revise --feedback TEXT, " if asked.path else ""
            lines.append(f"  or: {revise}replace --draft FILE")
        return lines
    others = "reject, revise --feedback TEXT, replace --draft FILE"
    if asked.approvals_needed == 1:
        others += ", rate --score S"
    return [
        *lines,
        f"  hone review {refinement_id}    shows the draft",
        f"  hone review {refinement_id} approve{key}    or: {others}",
    ]


def _waits(progress: Progress) -> list[str]:
    """Return one line for each step that waits for a model."""
    return [
        f"{wait.key} waits for {wait.model} until {wait.until:%H:%M:%S} UTC:"
        f" {wait.detail or wait.reason.replace('_', ' ')}"
        for wait in progress.waits.values()
    ]


def _models(progress: Progress) -> str:
    seats = ", ".join(f"{seat} {model}" for seat, model in progress.models.items())
    return f"{progress.strategy}, {seats}" if seats else progress.strategy


def _summary(progress: Progress) -> str:
    status = progress.status.value
    if progress.final and progress.final.outcome:
        status = f"{progress.final.outcome}: {progress.final.stop_reason}"
    elif progress.stopping:
        status = f"{status}, stopping: {progress.stopping}"
    return f"{status}; {usage_text(progress.usage)}"


def watch(
    client: ContractClient,
    refinement_id: str,
    console: Console,
    *,
    with_texts: bool = True,
) -> Snapshot:
    """Show the progress of a refinement until it has ended; return its final snapshot.

    `with_texts` shows texts while they are written, on a terminal.
    """
    progress = Progress()
    with display_on(console, refinement_id) as show:

        def show_piece(piece: StepDelta) -> None:
            progress.add_piece(piece)
            show(progress)

        on_delta = show_piece if with_texts and is_animated(console) else None
        for event in client.follow(refinement_id, on_delta):
            progress.add(event)
            show(progress)
    if progress.final is None:
        raise NotHone(client.url)
    return progress.final
