"""The list of misspellings: it knows the common ones, and holds nothing that is right somewhere."""

import re
from pathlib import Path

import pytest

from workers.text.document import Document
from workers.text.tables import lines, misspellings, word_list

ROOT = Path(__file__).parents[3]
ENTRIES = [line.partition(": ") for line in lines("misspellings.txt")]


@pytest.mark.parametrize(
    "words",
    [
        "absense accomodate acheive adress agressive allready alot apparant arguement begining",
        "beleive buisness calender catagory collegue comittee commited concious consistant",
        "definately desicion dilemna dissapear embarass enviroment existance experiance familar",
        "finaly foriegn fourty freind gaurd goverment grammer gratefull harrass heirarchy",
        "hygeine immediatly independant intresting knowlege lenght liason libary maintainance",
        "millenium mispell neccessary noticable occured occurence paralell peice perseverence",
        "posession prefered priviledge pronounciation publically reccomend recieve refered",
        "relevent rember resistence responsable rythm seperate sieze similiar succesful",
        "supercede suprise tendancy thier threshhold tommorow truely unfortunatly untill",
        "usefull vaccum wich wierd writting",
    ],
)
def test_the_usual_misspellings_are_known(words: str) -> None:
    assert [word for word in words.split() if word not in misspellings()] == []


def test_every_misspelling_stands_in_the_list_once() -> None:
    wrong = [word for _, _, words in ENTRIES for word in words.split()]
    assert len(wrong) == len(set(wrong))


def test_the_lines_are_sorted_and_so_are_their_words() -> None:
    rights = [(right.lower(), right) for right, _, _ in ENTRIES]
    assert rights == sorted(set(rights))
    assert [words for _, _, words in ENTRIES if words.split() != sorted(words.split())] == []


def test_every_line_has_the_same_form() -> None:
    form = re.compile(r"[A-Z]?[a-z]+(?:[ '][a-z]+)*: [a-z]{3,}(?: [a-z]{3,})*")
    assert [line for line in lines("misspellings.txt") if not form.fullmatch(line)] == []


def test_no_word_of_the_other_tables_is_a_misspelling() -> None:
    for name in ("adjectives", "common", "may repeat", "numbers", "openers", "participles"):
        assert word_list(name) & misspellings().keys() == set()


def test_hones_own_documents_hold_no_misspelling() -> None:
    found = {
        (path.name, word.text)
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
        for word in Document(path.read_text(encoding="utf-8")).words
        if word.is_free and word.lower in misspellings()
    }
    assert found == set()


@pytest.mark.parametrize(
    "words",
    [
        "api async backend bool boolean config daemon endpoint env http json kwargs localhost",
        "lockfile middleware mutex namespace oauth param postgres pytest redis regex repo",
        "schema stdin stdout sudo symlink timestamp tuple unicode upstream uvicorn webhook",
        "whitespace xml yaml inlined varint referer chown compat creat dict enum fsync getter",
        "iterable lambda memoize parens preempt pushd umask colour color organise organize",
        "travelled traveled centre center licence license programme grey gray cancelled",
        "canceled judgment judgement focused focussed fulfil fulfill analyse analyze dialogue",
        "dialog cant wont dependant dependent principal principle stationary stationery",
        "complement compliment recurse queueing artefact attache cafe naive resume fiancee",
        "facade rendezvous hors entree touche",
        "lorem ipsum consectetur eiusmod tempor incididunt labore magna aliqua officia varius",
        "varints referers resolv daemons mutexes callables iterables chatbot dedupe observability",
    ],
)
def test_technical_british_and_american_words_are_right(words: str) -> None:
    assert set(words.split()) & misspellings().keys() == set()
