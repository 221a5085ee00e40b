"""`hone compare`: the same texts with two or more settings, and which one is worth its money."""

import json as jsonlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as ProgressBars

from app.cli.client_commands import connected, read_request
from app.cli.contract_client import ContractClient
from app.cli.display import say, say_table
from app.cli.root import (
    ServerOption,
    check_writable,
    console,
    interruptible,
    print_text,
    write_file,
)
from app.contract.budget import Consumption
from app.contract.judgement import CRITIC
from app.contract.statistics import CalibrationList
from app.legible import on_one_line
from hone_extras.compare.comparison import (
    SAME,
    ComparedSettings,
    PairedDifference,
    TextOutcome,
    Texts,
    texts_text,
)
from hone_extras.compare.comparison_gate import (
    BASELINE,
    NOT_STORED,
    failures,
    junit_of,
    markdown_summary,
    stored_outcomes,
)
from hone_extras.compare.comparison_page import (
    criteria_table,
    differences_table,
    own_estimates,
    page_of_comparison,
    people_table,
    settings_table,
)
from hone_extras.compare.comparison_run import (
    ComparisonCost,
    ComparisonPlan,
    ComparisonRunner,
    ComparisonStory,
    Fields,
    PlanEstimates,
    RefinedText,
    RefinedTexts,
    check_settings,
    key_of,
    read_texts,
    refined_texts,
    sum_of,
)

INCOMPLETE = 3
"""Exit code if a text lacks a result or a judgement."""

WORSE = 4
"""Exit code if a setting is shown to be worse than the baseline."""

MOST_SETTINGS = 8
MOST_SHOWN = 3
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

PathOption = Annotated[
    Path, typer.Option(metavar="PATH", help="Folder of *.txt and *.md, or requests as JSON Lines.")
]
AOption = Annotated[Path | None, typer.Option("--a", metavar="FILE", help="Setting a, as JSON.")]
BOption = Annotated[Path | None, typer.Option("--b", metavar="FILE", help="Setting b, as JSON.")]
SettingOption = Annotated[
    list[str] | None,
    typer.Option("--setting", metavar="NAME=FILE", help="One more setting; may be repeated."),
]
JudgeOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="How all final drafts are judged: fields of a request."),
]
JudgementsOption = Annotated[
    int, typer.Option(min=1, max=9, help="How often each final draft is judged.")
]
NameOption = Annotated[
    str | None,
    typer.Option(help="Name of the comparison.  [default: made of texts and settings]"),
]
MarginOption = Annotated[
    float, typer.Option(min=0, max=1, help="Differences of score below this do not matter.")
]
ConcurrencyOption = Annotated[
    int, typer.Option(min=1, max=64, help="Refinements at once, at most.")
]
KeepOption = Annotated[
    int | None,
    typer.Option(min=1, max=3650, metavar="DAYS", help="How long results are kept."),
]
RetryOption = Annotated[
    bool, typer.Option("--retry", help="Let those that failed go on from their journal.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")]
PageOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a page with all texts, too.")
]
BaselineOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Hold settings against what --json printed before."),
]
MaxDropOption = Annotated[
    float, typer.Option(min=0, max=1, help="How far below the baseline a score may be.")
]
SummaryOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the findings as Markdown, too.")
]
JUnitOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the findings as JUnit XML, too.")
]
AsJsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def compare(
    *,
    texts: PathOption,
    a: AOption = None,
    b: BOption = None,
    setting: SettingOption = None,
    judge: JudgeOption = None,
    judgements: JudgementsOption = 1,
    name: NameOption = None,
    margin: MarginOption = 0.02,
    concurrency: ConcurrencyOption = 8,
    keep: KeepOption = None,
    retry: RetryOption = False,
    dry_run: DryRunOption = False,
    html: PageOption = None,
    baseline: BaselineOption = None,
    max_drop: MaxDropOption = 0.0,
    summary: SummaryOption = None,
    junit: JUnitOption = None,
    json: AsJsonOption = False,
    server: ServerOption = None,
) -> None:
    """Say which setting is worth its money, or if one got worse.

    It refines the same texts with each. Every final draft is judged by the same judge on the same
    criteria. Run again with the same texts and settings, it goes on where it was: nothing is paid
    twice. Exit code: 0; 1 if nothing could be compared; 3 if a text lacks a result or a judgement;
    4 if a setting is worse than the baseline by more than --max-drop.
    """
    # Loading scipy takes as long as the rest of the command line, whose help lists this command.
    from hone_extras.compare.paired_statistics import compare_settings  # noqa: PLC0415

    errors = Console(stderr=True)
    for path in (html, summary, junit):
        check_writable(path)
    given = _settings(a, b, setting or (), baseline)
    judged_by = read_request(judge, sys.stdin.buffer) if judge else {}
    check_settings(given, judged_by)
    found, repeated = read_texts(texts)
    for text_name in repeated:
        say(errors, f"counted once: {text_name}", "yellow")
    keep_s = None if keep is None else keep * 86_400
    plan = ComparisonPlan(
        _named(name, found, given, judged_by), found, given, judged_by, judgements, keep_s
    )
    with connected(server) as client, interruptible(*_going_on(plan.name)):
        runner = ComparisonRunner(client, plan, concurrency=concurrency, retries_failed=retry)
        estimates = runner.estimates(p95=dry_run)
        if dry_run:
            _show_costs(_costs(plan, estimates), is_json=json)
            return
        before = _stored(baseline, plan, estimates)
        with _progress(plan, errors) as on_progress:
            refined = refined_texts(runner, plan, on_progress)
        noise = _calibrated_noise(client, plan, estimates.judge[0].models)
    outcomes = [_outcomes(text) | old for text, old in zip(refined, before, strict=True)]
    result = compare_settings([*before[0], *given], outcomes, margin, noise)
    story = _story(plan, estimates, refined, outcomes, result)
    _tell(story, failures(story, max_drop), (html, summary, junit), is_json=json)


def _story(
    plan: ComparisonPlan,
    estimates: PlanEstimates,
    refined: RefinedTexts,
    outcomes: Texts,
    result: ComparedSettings,
) -> ComparisonStory:
    judge = estimates.judge[0].models
    remarks = [*_remarks(plan, estimates, judge)]
    if count := sum(text.get(BASELINE) is NOT_STORED for text in outcomes):
        remarks.append(f"The baseline does not have {texts_text(count)}, judged alike.")
    return ComparisonStory(plan, refined, outcomes, result, judge, tuple(remarks))


def _outcomes(text: Mapping[str, RefinedText]) -> dict[str, TextOutcome]:
    return {name: refined.outcome() for name, refined in text.items()}


def _stored(
    baseline: Path | None, plan: ComparisonPlan, estimates: PlanEstimates
) -> list[dict[str, TextOutcome]]:
    """Return the stored outcome of each text; none without a baseline."""
    if baseline is None:
        return [{} for _ in plan.texts]
    keys = [plan.judged_key(text, estimates.judge[0].models) for text in plan.texts]
    return [{BASELINE: outcome} for outcome in stored_outcomes(baseline, keys)]


def _tell(
    story: ComparisonStory,
    failed: Sequence[PairedDifference],
    reports: tuple[Path | None, Path | None, Path | None],
    *,
    is_json: bool,
) -> None:
    """Print a story, write the page, summary and JUnit file, and exit with what it means."""
    html, summary, junit = reports
    if html is not None:
        write_file(html, [page_of_comparison(story).encode()])
    if summary is not None:
        write_file(summary, [markdown_summary(story, failed).encode()])
    if junit is not None:
        write_file(junit, [junit_of(story, failed)])
    if is_json:
        print_text(f"{jsonlib.dumps(json_of(story), indent=2, ensure_ascii=False)}\n")
    else:
        show_comparison(story, console())
    differences = story.result.differences
    if differences and all(difference.score is None for difference in differences):
        raise typer.Exit(1)
    raise typer.Exit(WORSE if failed else INCOMPLETE if story.gaps() else 0)


def _settings(
    a: Path | None, b: Path | None, others: Sequence[str], baseline: Path | None
) -> dict[str, Fields]:
    """Return the fields of each setting by name; raise BadParameter for anything else."""
    files = {name: path for name, path in (("a", a), ("b", b)) if path is not None}
    for other in others:
        name, separator, path = other.partition("=")
        if not separator or not NAME.fullmatch(name):
            raise typer.BadParameter(f"--setting {other}: NAME=FILE is required, such as c=c.json")
        if name in files:
            raise typer.BadParameter(f"two settings have the name {name}")
        files[name] = Path(path)
    if baseline is not None and BASELINE in files:
        raise typer.BadParameter(f"with --baseline no setting can have the name {BASELINE}")
    if not 1 <= len(files) <= MOST_SETTINGS:
        raise typer.BadParameter(f"1 to {MOST_SETTINGS} settings are required: --a FILE --b FILE")
    return {name: read_request(path, sys.stdin.buffer) for name, path in files.items()}


def _named(
    name: str | None, texts: Sequence[Any], settings: Mapping[str, Fields], judge: Fields
) -> str:
    """Return the given name, or one that is the same for the same comparison."""
    if name is None:
        whole = [[text.fields for text in texts], dict(settings), dict(judge)]
        return f"compare-{key_of(whole)[:12]}"
    if not NAME.fullmatch(name):
        raise typer.BadParameter("--name must have 1 to 64 letters, digits, dots, - or _")
    return name


def _going_on(name: str) -> tuple[str, str]:
    return f"{name}: what has begun continues on the server.", "The same command goes on with it."


@contextmanager
def _progress(plan: ComparisonPlan, errors: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Show bars on a terminal, and a line for each phase elsewhere."""
    shown: set[str] = set()
    with ProgressBars(console=errors, transient=True, disable=not errors.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def on_progress(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total)
            bars.update(tasks[phase], completed=done)
            if not errors.is_terminal and phase not in shown and done == total:
                shown.add(phase)
                say(errors, f"{plan.name}: {phase} {done} of {total}")

        yield on_progress


def _calibrated_noise(
    client: ContractClient, plan: ComparisonPlan, judge: Mapping[str, str]
) -> float | None:
    """Return the noise of this judge in other refinements, if that is known."""
    samples = (plan.judge.get("critics") or {}).get("samples", 1)
    named = " + ".join(sorted(model for seat, model in judge.items() if seat.startswith(CRITIC)))
    critic = named if samples == 1 else f"{named} x {samples}"
    found = client.read(
        CalibrationList, "/v1/statistics", params={"of": "calibration", "limit": 1_000}
    )
    noises = [
        kind.noise
        for kind in found.data
        if kind.critic == critic and kind.strategy is None and kind.noise is not None
    ]
    return noises[0] if noises else None


def _remarks(
    plan: ComparisonPlan, estimates: PlanEstimates, judge: Mapping[str, str]
) -> Iterator[str]:
    """Yield what may favour one of the settings."""
    judges = {model for seat, model in judge.items() if seat.startswith(CRITIC)}
    models = {name: setting[0].models for name, setting in estimates.settings.items()}
    for role, why in (
        (CRITIC, "it may favour what was revised by its own advice"),
        ("generator", "models tend to favour what they wrote themselves (arXiv 2404.13076)"),
    ):
        same = [
            name
            for name in plan.settings
            if judges & {model for seat, model in models[name].items() if seat.startswith(role)}
            and not judges <= {"offline:editor"}
        ]
        if same and (len(same) < len(plan.settings) or role == CRITIC):
            yield (
                f"The judge is also the {role} of {' and '.join(same)}: {why}. Let another model"
                " judge (--judge)."
            )


def _costs(plan: ComparisonPlan, estimates: PlanEstimates) -> dict[str, ComparisonCost]:
    parts = {name: estimates.of_setting(name) for name in plan.settings}
    return {**parts, "judge": estimates.of_judge(plan.judgements)}


def _show_costs(costs: Mapping[str, ComparisonCost], *, is_json: bool) -> None:
    whole = ComparisonCost(
        sum_of(cost.expected for cost in costs.values()),
        sum_of(cost.p95 for cost in costs.values()),
    )
    if is_json:
        shown = {
            name: {"expected": cost.expected.model_dump(), "p95": cost.p95.model_dump()}
            for name, cost in {**costs, "total": whole}.items()
        }
        say(console(), jsonlib.dumps(shown, indent=2))
        return
    head = ("", "expected", "calls", "tokens", "95 %", "calls", "tokens")
    rows = [
        (name, *_consumption(cost.expected), *_consumption(cost.p95))
        for name, cost in {**costs, "all": whole}.items()
    ]
    say_table([head, *rows], console())
    say(console(), "Nothing was submitted.")


def _consumption(consumption: Consumption) -> tuple[str, str, str]:
    cost = "unknown" if consumption.cost_usd is None else f"${consumption.cost_usd:.2f}"
    return cost, f"{consumption.calls:,}", f"{consumption.tokens:,}"


def show_comparison(story: ComparisonStory, console: Console) -> None:
    """Print the findings: tables, wins and losses, missing texts, and advice."""
    result = story.result
    say(console, f"{story.plan.name}: {texts_text(len(story.plan.texts))}, {story.judged_by()}")
    say(console, "")
    say_table(settings_table(result.settings), console)
    for line in own_estimates(result.settings):
        say(console, line)
    say(console, "")
    say_table(differences_table(result.differences), console)
    if len(result.differences) > 1:
        say(console, "The intervals of all differences of score hold together with 95 %.")
    for rows in (criteria_table(result.differences), people_table(result.differences)):
        if len(rows) > 1:
            say(console, "")
            say_table(rows, console)
    extremes = [line for difference in result.differences for line in _extremes(story, difference)]
    for line in ("", *extremes) if extremes else ():
        say(console, line)
    _show_gaps(story, console)
    for line in story.notes():
        say(console, f"\n{line}")
    say(console, "")
    for sentence in result.recommendation.sentences:
        say(console, sentence, "bold")
    say(console, f"\n{story.costs()}")


def _extremes(story: ComparisonStory, difference: PairedDifference) -> Iterator[str]:
    """Yield the texts that speak most for either setting."""
    found = sorted(story.gaps_in_score(difference))
    wins = [f"{on_one_line(name)} {gap:+z.3f}" for gap, name in reversed(found) if gap > SAME]
    losses = [f"{on_one_line(name)} {gap:+z.3f}" for gap, name in found if gap < -SAME]
    for setting, names in ((difference.setting, wins), (difference.against, losses)):
        if names:
            yield f"best for {setting}: {', '.join(names[:MOST_SHOWN])}"


def _show_gaps(story: ComparisonStory, console: Console) -> None:
    reasons: dict[str, list[str]] = {}
    for line in story.gaps():
        what, _, why = line.partition(": ")
        reasons.setdefault(why, []).append(what)
    for why, of in reasons.items():
        more = f" and {len(of) - MOST_SHOWN} more" if len(of) > MOST_SHOWN else ""
        say(console, f"\n{', '.join(of[:MOST_SHOWN])}{more}: {why}", "yellow")


def json_of(story: ComparisonStory) -> dict[str, Any]:
    """Return everything but the drafts, which are found by the ids; six decimals."""
    result = story.result
    found: dict[str, Any] = _rounded(
        {
            "compare": story.plan.name,
            "judge": {"models": story.judge, "noise": result.judge_noise},
            "settings": [asdict(setting) for setting in result.settings],
            "differences": [asdict(difference) for difference in result.differences],
            "recommendation": asdict(result.recommendation),
            "remarks": story.notes(),
            "missing": story.gaps(),
            "cost_usd": story.spent(),
            "texts": [
                {
                    "name": text.name,
                    "key": story.plan.judged_key(text, story.judge),
                    "settings": {name: _json_of(refined) for name, refined in one.items()},
                }
                for text, one in zip(story.plan.texts, story.refined, strict=True)
            ],
        }
    )
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 6) if isinstance(value, float) else value


def _json_of(refined: RefinedText) -> dict[str, Any]:
    now, outcome = refined.snapshot, refined.outcome()
    return {
        "id": now and now.id,
        "path": now.result.path if now and now.result else None,
        "status": now and now.status,
        "failure": refined.failure,
        "score": outcome.score,
        "passed": outcome.passed,
        "judged_with": refined.judged_with,
        "judgements": [] if refined.judged_with else [one.id for one in refined.judgements],
        "not_judged": [] if refined.judged_with else list(map(str, refined.not_judged)),
        "criteria": dict(outcome.criteria),
        "own_score": outcome.own_score,
        "own_estimate": outcome.own_estimate,
        "cost_usd": outcome.cost_usd,
        "seconds": outcome.seconds,
        "ratings": dict(refined.ratings),
    }
