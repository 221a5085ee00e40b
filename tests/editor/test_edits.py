"""Small texts and what becomes of them: each rule where it applies, and where it must hold back."""

import pytest

from app.contract.judgement import Criterion
from tests.editor.texts_to_edit import end_of, score_of

SENTENCES = Criterion(name="sentence length")
SPELLING = Criterion(name="spelling")


@pytest.mark.parametrize(
    ("rough", "good"),
    [
        ("In order to apply, send us the form.", "To apply, send us the form."),
        ("We can help in the event that it fails.", "We can help if it fails."),
        ("Use was made of it.", "Use was made of it."),
        ("We *make use of* it.", "We *use* it."),
        ("We utilise it prior to lunch.", "We use it before lunch."),
        ("It is utilized to save time.", "It is utilized to save time."),  # used to
        ("This is due to the fact that it rains.", "This is due to the fact that it rains."),
        ("This is an uber-mutated role.", "This is an uber-mutated role."),
        ("<aside>They make use of it.</aside>", "<aside>They make use of it.</aside>"),
        ("The site constains a section.", "The site constains a section."),  # contains
        ("A number of people came.", "A number of people came."),
        ("WE UTILIZE IT.", "WE UTILIZE IT."),  # capitals may be names
    ],
)
def test_wordy_phrases_say_it_in_fewer_words(rough: str, good: str) -> None:
    assert end_of(rough) == good


@pytest.mark.parametrize(
    "text",
    [
        "It is not very good.",
        "We don't really need it.",
        "Thank you very much.",
        "The very first step is easy.",
        "Two forms are required to complete the process.",
        "It used to be as well as it could be.",
        "There was not a sufficient number of chairs.",
        "There are quite a few.",
        "The report that that team wrote is long.",
        "Please log in in time.",
        "He had had a cold.",
        "An hour is a unit, and an SMS is a European thing.",
        "An href or an html page is a one-off.",
        "The customer indicated that she agrees.",
        "Whether it is clear that it works is open.",
    ],
)
def test_good_english_is_left_alone(text: str) -> None:
    assert end_of(text) == text


@pytest.mark.parametrize(
    ("rough", "good"),
    [
        ("We recieve teh mail.", "We receive the mail."),
        ("Recieve it.", "Receive it."),
        ("We see a equals 1.", "We see a equals 1."),
        ("Look at the the list.", "Look at the list."),
        ("Look at the\nthe list.", "Look at the\nlist."),
        ("It takes a hour in an unit.", "It takes an hour in a unit."),
        ("It has a unary operator, here an below.", "It has a unary operator, here an below."),
        ("The might of the storm is great.", "The might of the storm is great."),
        ("We could of left.", "We could have left."),
        ("I am here, I know, but i'm late.", "I am here, I know, but I'm late."),
        ("It is late ,so go home.", "It is late, so go home."),
        ("Stop !", "Stop!"),
        ("Stop ! Go !", "Stop ! Go !"),  # the writer's manner
        ("Look, look,, and go.", "Look, look, and go."),
        ("Quid me teh sum?", "Quid me teh sum?"),  # no English
        ("Fix the typos such as teh.", "Fix the typos such as teh."),
        ("An make it snappy.", "An make it snappy."),  # and
        ("It was an historic day.", "It was an historic day."),
        ("I dont know.", "I dont know."),  # "dont" is a word to someone
        ("Ask Mr. Teh about it.", "Ask Mr. Teh about it."),
        ("Run npm. npm is there.", "Run npm. npm is there."),
    ],
)
def test_slips_are_corrected(rough: str, good: str) -> None:
    assert end_of(rough, SPELLING) == good


LEFT = (
    "The team sent the parcel to the new address on the other side of town in the first week of May"
)


@pytest.mark.parametrize(
    ("joint", "divided"),
    [
        (", but the driver could leave it with the people next door", ". But the driver could"),
    ],
)
def test_a_long_sentence_is_divided_where_a_clause_begins(joint: str, divided: str) -> None:
    assert divided in end_of(f"{LEFT}{joint}.", SENTENCES)


@pytest.mark.parametrize(
    "text",
    [
        f"If {LEFT.lower()}, and it does not reach you before the end of the month, call us.",
        f"We know that {LEFT.lower()}, and it should reach you before the end of the month.",
        f"({LEFT}, and it should reach you before the end of the month.)",
        f"{LEFT}, and the people who live next door and often help us when we need it.",
        f"Is it true that {LEFT.lower()}, and it will reach us before the end of the month?",
    ],
)
def test_a_long_sentence_that_hangs_together_is_not_divided(text: str) -> None:
    assert end_of(text, SENTENCES) == text


def test_only_what_a_criterion_asks_for_is_changed() -> None:
    text = "In order to recieve it, wait."
    assert end_of(text, SPELLING) == "In order to receive it, wait."
    assert end_of(text, Criterion(name="conciseness")) == "To recieve it, wait."


def test_a_text_that_is_too_long_loses_words_first() -> None:
    short = Criterion(name="length", description="at most 20 words")
    rough = "We recieve a large number of letters in order to answer each and every one of them. "
    assert end_of(rough * 3, short) == (rough * 3).replace("a large number of", "many").replace(
        "in order to", "to"
    ).replace("each and every", "every")


@pytest.mark.parametrize(
    ("rough", "good"),
    [
        ("It is is easy to handle.", "It is easy to handle."),
        ("This is is handled.", "This is handled."),
        ("The old file is is handled by it.", "The old file is handled by it."),
        ("All there is is noise.", None),
        ("We live in in the house.", None),
        ("They log in in time.", None),
        ("What it is is a mess.", None),
        ("It belongs to the root root group.", None),  # a table of users and groups
    ],
)
def test_a_word_written_twice_counts_unless_it_may_be_meant(rough: str, good: str | None) -> None:
    assert end_of(rough) == (good or rough)
    is_reported = good is not None or "root" in rough
    assert (score_of(rough, SPELLING) < 1) == is_reported


@pytest.mark.parametrize(
    "meant",
    [
        "This is quite good, and it is actually used.",
        "Expect very large or negative numbers.",
        "They act on behalf of the owner.",
        "The individuals made modifications.",
        "It comes in a wide variety of colours.",
        "We stayed for the duration of the storm.",
        "This is, of course, a draft.",
        "Do they have the ability to work well?",
        "We will always have the ability to choose.",
        "Additionally, you can also change the style.",
        "Note this additional information.",
        "Our uses span both of the above.",
        "This can be in the form of a handler.",
        "In the interest of fostering peace, we meet.",
        "Its use imposes a maximum of 10240, which is low.",
        "A nonzero value may have been set by a security module.",
        "As previously mentioned, pkgconf runs it.",
        "Avoid a contant redraw.",  # constant, content
        "Specify it as a number of bytes.",
        "To demonstrate, we run it.",
    ],
)
def test_a_phrase_whose_replacement_may_change_what_is_said_is_reported_at_most(meant: str) -> None:
    assert end_of(meant) == meant


def test_a_list_of_clauses_and_a_relative_clause_are_not_divided() -> None:
    text = (
        "The transform is applied to the document, the nodes are rendered as standard nodes in"
        " turn, and a standard document tree is written to the disk. Errors are common in systems"
        " where reads and writes are done on other disks, and it is hard for the tool to say on"
        " which of all the disks one was made."
    )
    assert end_of(text) == text


@pytest.mark.parametrize(
    ("rough", "good"),
    [
        ("  If you\r\n  wish to go, go.\r\n", "  If you\r\n  want to go, go.\r\n"),
        ("  It is read in\n  order to help.\n", "  It is read\n  to help.\n"),
    ],
)
def test_a_line_end_within_a_phrase_and_an_indent_stay(rough: str, good: str) -> None:
    assert end_of(rough) == good


@pytest.mark.parametrize(
    "text",
    [
        "Normally, the parcel is sent off within 5 days of the order",
        "Usually the parcel is sent off within 5 days of the order",
        "The tool is of use when the list of hosts has been made by hand",
        "The tool is of use on days when\n`hosts` is changed by hand on one of the machines",
        "The page must meet two needs: it must have a title in its first line",
    ],
)
def test_a_sentence_whose_opening_may_cover_both_halves_is_not_divided(text: str) -> None:
    for joint in (", and it", "; it"):
        whole = f"{text}{joint} must be one of those that have been on our list from the start."
        assert end_of(whole, SENTENCES) == whole


@pytest.mark.parametrize(
    "text",
    [
        "Try to ascertain that the lamp is off.",
        "It is attempted to keep the numbers stable.",
        "Moreover even old files open fast.",
        "Read `hosts.txt` regarding the default list.",
        "They were given an explanation of it.",
        "We made changes to save time.",
        "The holiday is upon us.",
        "They are more numerous than before.",
        "Why should you need it?",
        "He changed it in the manner in which she did.",
    ],
)
def test_a_phrase_whose_replacement_has_another_grammar_is_left_alone(text: str) -> None:
    assert end_of(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "This is the logical order to follow in order to see the rest.",
        "There are three tables with a total of 20 rows.",
        "The other group has quite a few versus a small number of people here.",
        "Speed is extremely important, and we are absolutely certain of it.",
        "It is a very unique idea.",
    ],
)
def test_words_that_a_contrast_a_sum_or_a_purpose_needs_stay(text: str) -> None:
    assert end_of(text) == text


def test_a_text_in_small_letters_keeps_them() -> None:
    text = "so i think it works. the rest is fine. we like it, and i am glad. we {} it."
    assert end_of(text.format("utilize")) == text.format("use")


@pytest.mark.parametrize(
    "text",
    [
        'In order to live, utilize it.\n\t\t-- Ada Lovelace, "Notes"',
        "In order to live, we wish to eat.\n\u2014 Somebody who knows",
        "It is a rose,\nIn order to be seen,\nPrior to the snow.",
        "<ada> we wish to go\n<bob> in order to be there",
        "Ada: I wish to go.\nBob: Prior to lunch?",
        "We wish to go.\n%\nUtilize it.\n%\nIn order to live, eat.\n%\nEat.",
    ],
)
def test_what_somebody_else_said_is_left_alone(text: str) -> None:
    assert end_of(text) == text


def test_lines_are_not_joined_to_one_that_is_longer_than_any_other() -> None:
    text = (
        "Please send the form to the new office on the hill, but\nthe old one is open in May too."
    )
    rough = text.replace(", but", " with all of its pages as soon as you can do that, but")
    assert end_of(rough, SENTENCES) == rough.replace(", but", ". But")


@pytest.mark.parametrize("line", ["See f(x);", "We utilize it \\"])
def test_windows_line_ends_make_no_difference(line: str) -> None:
    text = f"{line}\nIn order to go, utilize it.\n\nWe utilize the lamp.\n"
    assert end_of(text.replace("\n", "\r\n")) == end_of(text).replace("\n", "\r\n")
