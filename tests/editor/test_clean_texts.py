"""Good writing is left alone, and judged good."""

from pathlib import Path

import pytest

from tests.editor.texts_to_edit import CLEAN, end_of, score_of


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.stem)
def test_a_clean_text_scores_high_and_is_not_made_worse(path: Path) -> None:
    text = path.read_text().strip()
    assert score_of(text) >= 0.85
    assert end_of(text) == text
