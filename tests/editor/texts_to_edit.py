"""Texts to edit, and the editor iterated to its end as a search does it."""

from collections.abc import Sequence
from pathlib import Path

from app.contract.judgement import QUALITY, Criterion
from workers.editor.critic import judged
from workers.editor.reviser import revised

HERE = Path(__file__).parent
ROUGH = sorted((HERE / "texts").glob("*.txt"))
CLEAN = sorted((HERE / "clean").glob("*.txt"))
MOST = 30
"""Revisions within which every text must come to rest."""


def path_of(text: str, criteria: Sequence[Criterion] = (QUALITY,)) -> list[str]:
    """Every draft from the text to the one that the editor leaves unchanged."""
    drafts = [text]
    while len(drafts) <= MOST:
        draft = revised(drafts[-1], criteria)
        if draft == drafts[-1]:
            return drafts
        drafts.append(draft)
    raise AssertionError("the editor does not come to rest")


def end_of(text: str, *criteria: Criterion) -> str:
    """The draft that the editor leaves unchanged."""
    return path_of(text, criteria or (QUALITY,))[-1]


def score_of(text: str, criterion: Criterion = QUALITY) -> float:
    """The score of one criterion."""
    score = judged(text, (criterion,)).scores[0].score
    assert score is not None
    return score
