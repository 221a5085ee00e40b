"""For any text: no error, nothing lost, the same again, and an end."""

import json
import re
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from app.contract.judgement import QUALITY, Criterion
from tests.editor.protected_facts import KEPT, mentions
from tests.editor.texts_to_edit import end_of, path_of
from workers.editor.critic import judged
from workers.editor.reviser import revised
from workers.text.document import Document
from workers.text.edits import fingerprint
from workers.text.json_documents import looks_like_json
from workers.text.tables import lines

CRITERIA = (
    QUALITY,
    Criterion(name="clarity"),
    Criterion(name="spelling"),
    Criterion(name="length", description="at most 20 words"),
    Criterion(name="accuracy"),
)
PHRASES = [
    line.split("=>")[0].strip() for line in lines("phrases.txt") if "=>" in line and "<" not in line
]
WORDY = [phrase for phrase in PHRASES if "(" not in phrase]
PLAIN = re.findall(
    r"\S+",
    """the a an we you report reports team was is will be approved by our not never no 12 3.5 two
    and but , and it will which means that ; however, recieve teh alot if that very . . . ? ! : of
    to Maria Lopez NASA iPhone May The I i it's doesn't ( ) -- is is very very hour unit""",
)
MARKED = [
    '"in order to"',
    "'the the'",
    "“recieve it”",
    "`in order to`",
    "```\nteh teh\n```",
    "https://example.com/teh",
    "[the the](recieve.md)",
    "teh@example.com",
    "@recieve",
    "\n# In order to\n",
    "\n> teh the the\n",
    "\n| teh | the the |\n",
    "\n- ",
    "\n1. ",
]
texts = st.text(max_size=300)
sentences = st.lists(st.sampled_from(PLAIN + WORDY), max_size=60).map(" ".join)
documents = st.lists(st.sampled_from([*PLAIN, "\n", "\n\n", *WORDY, *MARKED]), max_size=60).map(
    " ".join
)
any_text = st.one_of(texts, sentences, documents)


@given(any_text)
def test_any_text_is_judged_and_its_findings_quote_it(text: str) -> None:
    critique = judged(text, CRITERIA)
    assert [it.criterion for it in critique.scores] == [it.name for it in CRITERIA]
    for finding in critique.findings:
        assert finding.span is not None
        assert finding.quote == (text[finding.span.start : finding.span.end] or None)


@given(any_text)
def test_a_revision_keeps_the_fingerprint_and_is_the_same_each_time(text: str) -> None:
    document = Document(text)
    draft = revised(text, CRITERIA)
    assert draft == revised(text, CRITERIA)
    if not looks_like_json(text):
        assert fingerprint(Document(draft), document.names) == fingerprint(document, document.names)


@given(any_text)
def test_every_text_comes_to_rest_and_stays_there(text: str) -> None:
    drafts = path_of(text, CRITERIA)
    assert len(set(drafts)) == len(drafts)
    assert revised(drafts[-1], CRITERIA) == drafts[-1]


@given(sentences)
def test_numbers_negations_and_names_are_found_again_by_other_rules(text: str) -> None:
    draft = end_of(text, *CRITERIA)
    assert KEPT["numbers"](draft) == KEPT["numbers"](text)
    assert KEPT["negations"](draft) == KEPT["negations"](text)
    assert mentions(draft, of=text) == mentions(text, of=text)


@given(
    st.lists(st.sampled_from(MARKED), max_size=20), st.lists(st.sampled_from(WORDY), max_size=20)
)
def test_what_is_marked_stays_among_what_is_not(marked: list[str], wordy: list[str]) -> None:
    mixed = [*chain.from_iterable(zip(marked, wordy, strict=False))]
    text = ". We are here\n\n".join(mixed)
    draft = end_of(text, *CRITERIA)
    for what in ("code", "links", "quotations", "structure"):
        assert KEPT[what](draft) == KEPT[what](text)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_valid_json_is_never_changed(value: object) -> None:
    text = json.dumps({"value": value})
    assert end_of(text, *CRITERIA) == text
