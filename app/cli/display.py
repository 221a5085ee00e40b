"""Showing a refinement while it goes on: a table that changes on a terminal, lines elsewhere."""

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.cli.progress import Progress, Row
from app.cli.words import bar, criteria_text, plain, say, score_text, usage_text


class Display(Protocol):
    """Shows the progress of one refinement; entered before the first and left after the last."""

    def show(self, progress: Progress) -> None:
        """Bring up to date what is seen."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def display_on(console: Console, refinement_id: str) -> Display:
    """What suits the console."""
    if console.is_terminal:
        return LiveTable(console, refinement_id)
    return Lines(console, refinement_id)


class LiveTable:
    """One table, drawn again with every event."""

    def __init__(self, console: Console, refinement_id: str) -> None:
        self._id = refinement_id
        self._live = Live(console=console, vertical_overflow="visible", refresh_per_second=8)

    def show(self, progress: Progress) -> None:
        self._live.update(Group(*table_of(progress, self._id)))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)


class Lines:
    """A line for everything new, for logs and pipes."""

    def __init__(self, console: Console, refinement_id: str) -> None:
        self._console = console
        self._id = refinement_id
        self._said: set[str] = set()

    def show(self, progress: Progress) -> None:
        for line in lines_of(progress, self._id):
            if line not in self._said:
                self._said.add(line)
                say(self._console, line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is held."""


def table_of(progress: Progress, refinement_id: str) -> tuple[Table | Text, ...]:
    """The iterations as a table, and the lines under it."""
    table = Table(title=f"{refinement_id}  {_models(progress)}", title_justify="left")
    table.add_column("iteration", justify="right")
    table.add_column("phase", no_wrap=True)
    table.add_column("score per criterion")
    table.add_column(f"score (threshold {score_text(progress.threshold)})", no_wrap=True)
    table.add_column("usage")
    for number, row in sorted(progress.rows.items()):
        table.add_row(
            str(number),
            plain(_phase(progress, number, row)),
            plain(criteria_text(row.scores, "\n")),
            _score(progress, row),
            _usage(row),
        )
    return table, plain(_summary(progress)), *map(plain, _asked(progress, refinement_id))


def lines_of(progress: Progress, refinement_id: str) -> list[str]:
    """Everything known, one fact a line; a fact that does not change keeps its line."""
    limits = f"threshold {score_text(progress.threshold)}, at most {progress.max_iterations}"
    lines = [f"{refinement_id}: {_models(progress)}", f"limits: {limits} iterations"]
    for number, row in sorted(progress.rows.items()):
        if row.is_judged:
            verdict = "passed" if row.passed else "not good enough yet"
            scores = f"score {score_text(row.score)} ({criteria_text(row.scores)}), {verdict}"
            lines.append(f"iteration {number}: {scores}")
    lines += [f"step: {key}" for key in progress.phase]
    lines += _asked(progress, refinement_id)
    if progress.stopping:
        lines.append(f"stopping: {progress.stopping}")
    if progress.final:
        lines.append(_summary(progress))
    return lines


def _asked(progress: Progress, refinement_id: str) -> list[str]:
    """What a reviewer is asked, until when, and how to answer; nothing while nobody is."""
    asked, until = progress.asked, progress.asked_until
    if asked is None or until is None:
        return []
    others = "reject, revise --feedback TEXT, replace --draft FILE, rate --score S"
    return [
        f"paused at {asked.key}: {asked.question}",
        f"  until {until:%Y-%m-%d %H:%M} UTC, then: {asked.on_timeout}",
        f"  hone review {refinement_id}    shows the draft",
        f"  hone review {refinement_id} approve    or: {others}",
    ]


def _models(progress: Progress) -> str:
    roles = ", ".join(f"{role} {model}" for role, model in progress.models.items())
    return f"{progress.strategy}, {roles}" if roles else progress.strategy


def _phase(progress: Progress, number: int, row: Row) -> str:
    prefix = f"iterations/{number}/"
    under_way = [key.removeprefix(prefix) for key in progress.phase if key.startswith(prefix)]
    if under_way:
        return "\n".join(under_way)
    if row.is_judged:
        return "passed" if row.passed else "judged"
    return "" if progress.final else "waiting"


def _score(progress: Progress, row: Row) -> Text:
    if not row.is_judged:
        return Text()
    drawn = bar(row.score, progress.threshold, passed=bool(row.passed))
    return Text.assemble(f"{score_text(row.score)} ", drawn)


def _usage(row: Row) -> str:
    tokens = row.usage.input_tokens + row.usage.output_tokens
    return f"{row.usage.calls} calls, {tokens:,} tok" if row.usage.calls else ""


def _summary(progress: Progress) -> str:
    status = progress.status.value
    if progress.final and progress.final.stop_reason:
        status = f"{status}: {progress.final.stop_reason}"
    elif progress.stopping:
        status = f"{status}, stopping: {progress.stopping}"
    return f"{status}; {usage_text(progress.usage)}"
