"""What an edit must not touch, wherever it stands."""

import pytest

from tests.editor.texts_to_edit import end_of

ROUGH = "In order to recieve it, please note that the the door is open."


@pytest.mark.parametrize(
    "kept",
    [
        f'She wrote "{ROUGH}" to us.',
        f"She wrote “{ROUGH}” to us.",
        f"She wrote \u2018{ROUGH}\u2019 to us.",
        "Press 'in order to recieve the the' now.",
        f'She wrote "{ROUGH}',
        f"> {ROUGH}\n> {ROUGH}",
        f"`{ROUGH}`",
        f"``{ROUGH} ` ``",
        f"```\n{ROUGH}\n```",
        f"~~~text\n{ROUGH}",
        f"    {ROUGH}",
        f"# {ROUGH}",
        f"{ROUGH}\n=====",
        f"| a | {ROUGH} |",
        f"a | {ROUGH} | b",
        f"---\ntitle: {ROUGH}\n---\n",
        f"Subject: {ROUGH}",
        f"[{ROUGH}](https://example.com/recieve)",
        f"![{ROUGH}](recieve.png)",
        f"[1]: https://example.com {ROUGH}",
        "https://example.com/in/order/to/recieve",
        "www.recieve.example",
        "in.order.to.recieve@example.com",
        "Ask @recieve about #teh-thing.",
        "Call recieve() in teh.py or src/teh/recieve_it.",
        "Set RECIEVE and --recieve to {{recieve}} or {teh}.",
        "<recieve>the</recieve>",
        "name      recieve      teh",
        f"2024-05-01T09:30:00 {ROUGH}",
        f"[12:30:01] {ROUGH}",
        f"WARN worker-1 {ROUGH}",
        f"error: {ROUGH}",
        f"$ {ROUGH}",
        f">>> {ROUGH}",
        f"path = {ROUGH}",
        f".. warning:: {ROUGH}",
        f"Name: teh\nSummary: {ROUGH}",
        f"Write this:\n\n  {ROUGH}",
        f"In order to {{ recieve() }};\n{ROUGH}",
        f"We recieve it if ready and ! done. {ROUGH}",
        f"We recieve a -> b. {ROUGH}",
        ".Dq yes ,\n.Fl A\n.It Fl a\noptions above. \\&",
        f"Contributor Covenant Code of Conduct\n\n{ROUGH}",
        f"By-laws\n\nA quorum ratifies by-laws.\n\nA quorum changes by-laws. {ROUGH}",
        f"$a is ok. In a or b we recieve $x. {ROUGH}",
        f"A client MUST recieve it. {ROUGH}",
        f"Permission is hereby granted, free of charge, to recieve it. {ROUGH}",
        f"Copyright (c) 2024 Us. All rights reserved. {ROUGH}",
        f"To the extent that a party is liable for damages, individuals recieve them. {ROUGH}",
        f"{ROUGH} (Jane Miller, Norway)",
        f"{ROUGH}\n(Jane, Norway)",
        f"{ROUGH}\n\n  -- Jane van Miller",
        f"{ROUGH}\n\u2014 Jane Miller, Head of Sales",
        f"I hereby agree to it. {ROUGH}",
        f"By making a contribution to it, I certify that:\n\n(a) {ROUGH}\n\n(b) We recieve it.",
        f"The Developer's Certificate of Origin says so. {ROUGH}",
        "It is sent to the initiating socket.",
        "The general public may see it.",
        "Alle Kunden, die das Paket recieve haben, melden sich an der Theke im Haus nebenan.",
    ],
)
def test_it_stays_as_it_is(kept: str) -> None:
    assert end_of(kept) == kept


def test_a_licence_is_left_alone_as_a_whole() -> None:
    granted = "Permission is hereby granted to redistribute it without warranty. " * 2
    text = f"{granted}\n\nWe recieve it.\n\n{ROUGH}"
    assert end_of(text) == text


def test_a_page_whose_title_names_a_licence_is_left_alone_as_a_whole() -> None:
    granted = "Permission is hereby granted to redistribute it without warranty.\n\n" * 2
    plain = "We like this tool, and we use it each day to see what is new in our logs.\n\n" * 8
    page = f"<html>\n<title>2. The Free License</title>\n\n{granted}{plain}{ROUGH}"
    assert end_of(page) == page
    assert end_of(page.replace(" License", " Tool")) != page.replace(" License", " Tool")


def test_what_follows_a_licence_at_a_distance_is_edited() -> None:
    plain = (
        "We like this tool, and we use it each day to see what is new in all of our logs.\n\n" * 6
    )
    text = f"Copyright 2024 Us. All rights reserved.\n\n{plain}We recieve it."
    assert end_of(text) == text.replace("recieve", "receive")


@pytest.mark.parametrize(
    "fact",
    [
        "one",
        "12",
        "3.5 %",
        "$4,500.00",
        "2024-05-01",
        "v2.1",
        "Maria Lopez",
        "NASA",
        "not",
        "never",
        "without",
        "cannot",
        "doesn't",
        "iPhone",
    ],
)
@pytest.mark.parametrize(
    "around", ["In order to see {}, we wait.", "It is clear that {} is very good in terms of {}."]
)
def test_a_fact_is_there_as_often_as_before(fact: str, around: str) -> None:
    rough = around.format(fact, fact)
    assert end_of(rough).lower().count(fact.lower()) == rough.lower().count(fact.lower())


def test_a_name_at_the_start_of_a_sentence_is_known_from_the_rest_of_the_text() -> None:
    text = "Recieve is a band. We like Recieve."
    assert end_of(text) == text


def test_lists_keep_their_marks_and_paragraphs_their_distance() -> None:
    text = "Intro:\n\n1. {} win, play.\n2) Play {} noon.\n\n- [x] {} it\n* We win."
    rough, good = ("In order to", "prior to", "utilize"), ("To", "before", "use")
    assert end_of(text.format(*rough)) == text.format(*good)


def test_a_table_in_the_middle_of_a_text_stays() -> None:
    table = "| in order to | recieve |\n|---|---|\n| a  b | the the |"
    assert end_of(f"We utilize it:\n\n{table}\n\nPrior to lunch.") == (
        f"We use it:\n\n{table}\n\nBefore lunch."
    )
