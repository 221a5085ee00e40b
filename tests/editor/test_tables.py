"""The data files: every line can be read, and none undoes another."""

import re

from tests.editor.texts_to_edit import end_of
from workers.editor.rules import Phrase, phrases
from workers.text.edits import facts_in
from workers.text.tables import lines, misspellings

ALL = [phrase for found in phrases().values() for phrase in found]


def test_there_are_tens_of_thousands_of_misspellings() -> None:
    assert len(misspellings()) > 50_000


def test_every_phrase_can_be_compiled_and_its_choices_exist() -> None:
    for phrase in ALL:
        choices = [int(number) for number in re.findall(r"\\(\d)", phrase.replacement)]
        assert all(number <= phrase.pattern.groups for number in choices), phrase.source


def test_every_phrase_stands_in_the_table_once() -> None:
    found = [line.split("=>")[0].strip() + line.partition(";")[2] for line in lines("phrases.txt")]
    assert sorted(found) == sorted(set(found))


def test_no_phrase_takes_away_or_adds_a_number_or_a_negation() -> None:
    for phrase in ALL:
        words = re.sub(r"\\s\+|\(\?!.*?\)|\\", " ", phrase.source)
        before = set(facts_in(words, frozenset()))
        after = set(facts_in(re.sub(r"\\\d", "", phrase.replacement), frozenset()))
        assert after <= before, phrase.source


def plain(phrase: Phrase) -> bool:
    return "\\" not in phrase.replacement and len(phrase.replacement.split()) > 1


def test_what_replaces_a_phrase_is_no_wordy_phrase_itself() -> None:
    for replacement in sorted({it.replacement for it in ALL if plain(it)}):
        sentence = f"The people {replacement} these things."
        assert end_of(sentence) == sentence


def test_no_correction_is_a_misspelling() -> None:
    table = misspellings()
    assert not [right for right in table.values() if right in table]
    assert table["recieve"] == "receive"
    assert "the" not in table
