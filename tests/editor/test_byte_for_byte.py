"""Through a whole refinement by the editor: what it does not edit stays byte for byte."""

import re
import sysconfig
from difflib import SequenceMatcher
from importlib.metadata import distributions
from itertools import count

import pytest

from app.contract.requests import RefinementRequest
from tests.editor.test_editor import edited
from tests.engine.engine_driver import EngineDriver

DOCUMENTS = sorted(
    it.read_text("METADATA") or "" for it in distributions(path=[sysconfig.get_path("purelib")])
)[::5][:30]
"""Descriptions of installed packages, most of them a README, in an order that nobody chose."""

WORDY = (
    "In order to see the cafe\u0301 \U0001f642 and \u4f60\u597d, we utilize it.  \n"
    "\n\tPrior to\u00a0x\n"
)


def refined(text: str) -> str:
    model = EngineDriver(iter(()), iter(()))
    model.critic = (edited(model.asked("critic")[-1]) for _ in count())
    model.writer = (edited(model.asked("generator")[-1]) for _ in count())
    request = RefinementRequest(draft=text, threshold=1.0, max_iterations=3)
    return model.play(request).best.scored.draft.text


def changes(before: list[str], after: list[str]) -> list[tuple[str, str]]:
    """What differs between two lists of pieces."""
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [
        ("".join(before[start:end]), "".join(after[at:to]))
        for kind, start, end, at, to in blocks
        if kind != "equal"
    ]


def changes_without_a_word(before: str, after: str) -> list[str]:
    """What differs between two texts and consists of blanks alone."""
    lines = (re.findall(r"[^\r\n]*(?:\r\n?|\n|\Z)", text) for text in (before, after))
    return [
        f"{old!r} -> {new!r}"
        for block in changes(*lines)
        for old, new in changes(*(re.findall(r"\s|[^\s\w]|\w+", text) for text in block))
        if not (old + new).strip()
    ]


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(DOCUMENTS)))
def test_a_real_document_differs_in_words_alone(number: int) -> None:
    text = DOCUMENTS[number]
    if number % 3 == 1:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    if number % 3 == 2:
        text = f"\ufeff\n {text.rstrip()}"
    assert changes_without_a_word(text, refined(text)) == []


@pytest.mark.parametrize(
    ("start", "end"),
    [("", "\n"), ("\ufeff", "\r\n"), ("  ", "\r"), ("\n\n ", "\r\n"), ("\u3000", "\n")],
)
def test_scripts_blanks_and_line_ends_stay(start: str, end: str) -> None:
    text = f"{start}{WORDY}".replace("\n", end)
    for rough in (text, text.rstrip()):
        assert refined(rough) == rough.replace("In order to", "To").replace("utilize", "use")
