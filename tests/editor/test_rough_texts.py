"""On 20 rough texts: what must stay stays, and their scores rise."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.editor.protected_facts import KEPT, mentions
from tests.editor.texts_to_edit import ROUGH, end_of, path_of, score_of


def stem(path: Path) -> str:
    return path.stem


def test_there_are_twenty_texts_of_a_page_at_most() -> None:
    assert len(ROUGH) == 20
    assert all(120 <= len(path.read_text().split()) <= 350 for path in ROUGH)


@pytest.mark.parametrize("what", KEPT)
@pytest.mark.parametrize("path", ROUGH, ids=stem)
def test_it_keeps(path: Path, what: str) -> None:
    text = path.read_text().strip()
    assert KEPT[what](end_of(text)) == KEPT[what](text)


@pytest.mark.parametrize("path", ROUGH, ids=stem)
def test_it_keeps_every_name_as_often_as_it_was_there(path: Path) -> None:
    text = path.read_text().strip()
    assert mentions(end_of(text), of=text) == mentions(text, of=text)


@pytest.mark.parametrize("path", ROUGH, ids=stem)
def test_the_score_rises_in_steps_from_rough_to_good(path: Path) -> None:
    scores = [score_of(draft) for draft in path_of(path.read_text().strip())]
    assert scores[-1] >= max(0.8, scores[0] + 0.05)
    assert len(scores) < 8
    assert all(later > earlier for earlier, later in pairwise(scores))
