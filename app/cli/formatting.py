"""How numbers, scores and texts are put on a terminal."""

import re

from rich.console import Console
from rich.text import Text

from app.contract.judgement import CriterionScore, Usage

BAR_CELLS = 24
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def say(console: Console, text: str, style: str = "") -> None:
    """Print a text as it is: no markup is read in it, no line is broken, no escape gets through."""
    console.print(plain(text, style), soft_wrap=True, highlight=False)


def plain(text: str, style: str = "") -> Text:
    """A text of unknown origin, made harmless: a terminal would obey the control codes in it."""
    return Text(UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text), style)


def score_text(score: float | None) -> str:
    """Two decimals, never rounded up to a threshold that was missed; `n/a` if not measurable."""
    return "n/a" if score is None else f"{int(score * 100 + 1e-9) / 100:.2f}"


def criteria_text(scores: tuple[CriterionScore, ...], separator: str = ", ") -> str:
    """Each criterion with its score."""
    return separator.join(f"{found.criterion} {score_text(found.score)}" for found in scores)


def usage_text(usage: Usage) -> str:
    """Calls, tokens, cost and seconds."""
    cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    tokens = usage.input_tokens + usage.output_tokens
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    return f"{calls}, {tokens:,} tokens, {cost}, {usage.seconds:.1f} s"


def bar(score: float | None, threshold: float, passed: bool) -> Text:
    """A bar as long as the score, with a mark where the threshold is."""
    filled = round((score or 0.0) * BAR_CELLS)
    mark = min(round(threshold * BAR_CELLS), BAR_CELLS - 1)
    cells = Text("━" * mark + "┃" + "━" * (BAR_CELLS - mark - 1))
    cells.stylize("green" if passed else "yellow", 0, filled)
    cells.stylize("bright_black", filled)
    cells.stylize("bold white", mark, mark + 1)
    return cells
