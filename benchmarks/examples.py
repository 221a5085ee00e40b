"""Plays one real example of every strategy: `python -m benchmarks.examples [PAGE STEPS]`.

A script plays what `offline:editor` cannot; its scores prove nothing, so they are not shown.
"""

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from app.cli.server_commands import rough_text
from app.contract.requests import RefinementRequest
from app.contract.strategies import STRATEGIES
from benchmarks.broken_json import SCHEMA, broken
from benchmarks.playing import StrategyPlayer
from benchmarks.scripted_examples import COMPOSED, SCRIPTED, ScriptedExample
from workers.model_registry import Editor

INTRODUCTION = """# The strategies

Written by `make examples`; nothing in it is typed by hand. Each strategy plays one request on a
real text with `offline:editor`: no language model, no network. What only a language model can do is
played by a script instead, whose scores would prove nothing and are not shown. How a strategy is
asked for, when to use it and when not to is on its own page. The requests differ, so the scores do
not compare. [The steps of each](data/steps.txt)."""

COMPOSITIONS = """## Compositions

What they are for and how they are asked for is in [compositions.md](compositions.md). Scripts play
them all."""

STEPS = """The steps of each example on docs/strategies.md, in the order in which they began; steps
of parts side by side are mixed. Of a composition with more than 20 steps the first 10 and the last
10 are shown."""

MOST_STEPS = 20

CRITERIA = [{"name": "readability"}, {"name": "conciseness"}, {"name": "spelling"}]
PLAIN = [{"name": "plain", "description": "Plain words, no jargon."}]
TERSE = [{"name": "concise", "description": "No word too many."}]

EXAMPLES: dict[str, Mapping[str, Any]] = {
    "self_correction": {
        "draft": broken(Random(11)).text,
        "validators": [{"kind": "json"}, {"kind": "json_schema", "schema": SCHEMA}],
    },
    "best_of_n": {"strategy": {"n": 2, "refine": True}, "max_iterations": 4},
    "multi_pass": {
        "strategy": {
            "passes": [
                {"focus": "style", "criteria": PLAIN, "threshold": 0.95},
                {"focus": "format", "criteria": TERSE, "threshold": 0.95},
            ]
        }
    },
    "stepwise": {
        "strategy": {
            "stages": [
                {"name": "shorten", "mode": "revise", "criteria": TERSE, "threshold": 0.8},
                {"name": "polish", "mode": "revise", "criteria": PLAIN, "threshold": 0.8},
            ]
        }
    },
}
"""Differences from the common request, by strategy; a strategy that is not listed has none."""

EDITED = [kind for kind, it in STRATEGIES.items() if it.needs_language is None]
"""The strategies that the editor can play."""

PAGES = Path(__file__).parent.parent / "docs" / "strategies"


def on_page(kind: str) -> dict[str, Any]:
    """Return the first request on the page of a strategy."""
    (first, *_) = re.findall(r"```json\n(.*?)```", (PAGES / f"{kind}.md").read_text(), re.DOTALL)
    request: dict[str, Any] = json.loads(first)
    return request


def request_for(kind: str) -> RefinementRequest:
    """Return the example of a strategy."""
    given = dict(EXAMPLES.get(kind, {}))
    strategy = {"kind": kind, **given.pop("strategy", {})}
    common = {"draft": rough_text(), "threshold": 0.9}
    if STRATEGIES[kind].judges_criteria:
        common["criteria"] = CRITERIA
    return RefinementRequest.model_validate({**common, **given, "strategy": strategy})


def player_of(kind: str) -> StrategyPlayer:
    """Return a player for the example of a strategy, with the editor or a script as its model."""
    script = SCRIPTED.get(kind)
    return StrategyPlayer(request_for(kind), Editor()) if script is None else scripted(script)


def scripted(script: ScriptedExample) -> StrategyPlayer:
    """Return a player for a scripted example."""
    request = RefinementRequest.model_validate(script.request)
    decisions = {key: said[-1] for key, said in script.words.items()}
    return StrategyPlayer(request, script, script.resources, decisions)


async def played(kind: str) -> tuple[str, str]:
    """Play one example; return its row of the table and its path of steps."""
    player = player_of(kind)
    outcome = await player.play()
    reason = "" if outcome.reason is None else outcome.reason.value
    score = outcome.best.scored.score
    shown = "null" if score is None else f"{score:.3f}"
    if kind in SCRIPTED:
        shown = "scripted"
    row = (
        f"| [{kind}](strategies/{kind}.md) | {player.calls} | `{reason}`"
        f" | {shown} | `{outcome.score_from}` |"
    )
    return row, f"{kind}: {' → '.join(player.steps)}"


async def composed(name: str) -> tuple[str, str]:
    """Play one composition; return its row of the table and its path of steps."""
    player = scripted(COMPOSED[name])
    outcome = await player.play()
    assert outcome.reason is not None
    steps = list(player.steps)
    if len(steps) > MOST_STEPS:
        steps[MOST_STEPS // 2 : -MOST_STEPS // 2] = ["..."]
    row = f"| {name} | {player.calls} | `{outcome.reason.value}` |"
    return row, f"{name}: {' → '.join(steps)}"


async def page() -> tuple[str, str]:
    """Return the whole page, and the steps of its examples."""
    done = [await played(kind) for kind in STRATEGIES if kind in EDITED or kind in SCRIPTED]
    head = ["| kind | model calls | stop reason | score | of |", "|---|---:|---|---:|---|"]
    rows, paths = zip(*done, strict=True)
    compositions, ways = zip(*[await composed(name) for name in COMPOSED], strict=True)
    shown = ["| composition | model calls | stop reason |", "|---|---:|---|", *compositions]
    text = "\n".join([INTRODUCTION, "", *head, *rows, "", COMPOSITIONS, "", *shown, ""])
    return text, "\n\n".join([STEPS, *paths, *ways, ""])


def main() -> None:
    """Print the page and the steps, or write them to two files."""
    text, steps = asyncio.run(page())
    if len(sys.argv) == 1:
        print(text, steps, sep="\n", end="")
        return
    for path, written in zip(sys.argv[1:], (text, steps), strict=True):
        Path(path).write_text(written)


if __name__ == "__main__":
    main()
