"""Texts of others change nothing that stands beside them."""

import pytest

from app.legible import legible, on_one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\r\nlines,\ta tab", "two\nlines,\ta tab"),
        ("over\rwritten", "over\ufffdwritten"),
        ("\x1b[31mred\x9b1m", "\ufffd[31mred\ufffd1m"),
        ("txt.\u202eexe", "txt.\ufffdexe"),
        ("\u2066a\u2069 \u202ab\u202c", "\ufffda\ufffd \ufffdb\ufffd"),
        ("שלום 事実 caf\u00e9 \N{WOMAN}\u200d\N{PERSONAL COMPUTER}", None),
    ],
)
def test_what_a_terminal_or_a_page_would_obey_is_replaced(text: str, shown: str | None) -> None:
    assert legible(text) == (text if shown is None else shown)


def test_a_name_cannot_begin_a_new_line() -> None:
    assert on_one_line("clarity\n\u2028 forged:\x85 1.00\x0b") == "clarity forged:\ufffd 1.00\ufffd"
