"""What is calculated of a text, and what is passed over."""

import pytest

from workers.engine.calculator import calculations_in

RIGHT = [
    "One weighs 9 / 12 = 0.75 kg.",
    "**7 x 0.75 = 5.25**",
    "7 / 3 = 2.33",
    "100/3 = 33.3...",
    "12.4 * 3 = 37",
    "2/3 \u00d7 3 = 0.67 \u00d7 3 = 2.01",
    "22/7 \u2248 3.1",
    "0,75 * 4 = 3",
    "1.500 + 500 = 2.000",
    "1,000 + 1 = 1,001",
    "10^6 = 1,000,000",
    "2 ** 3 = 8",
    "3/4 = 75 %",
    "20 % von 50 = 10",
    "-3 + 5 = 2",
    "(1 + 2) * -3 = -9",
    r"\( 9 \div 12 \times 4 = 3 \)",
    "$5 + $3 = $8",
    "1 + 1 = 2 = 4 / 2",
]


@pytest.mark.parametrize("text", RIGHT)
def test_an_equation_that_holds_is_right_as_is_one_that_is_rounded(text: str) -> None:
    found = list(calculations_in(text))
    assert found
    assert all(it.is_right for it in found), found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2. Seven weigh 7 x 0.75 = 6.75 kg.", "7 * 0.75 is 5.25, not 6.75"),
        ("7 / 2 = 3", "7 / 2 is 3.5, not 3"),
        ("7 / 3 = 2.34", "7 / 3 is 2.33333, not 2.34"),
        ("- 3 + 4 = 8", "3 + 4 is 7, not 8"),
        ("In 2024, 2 + 3 = 6.", "2 + 3 is 5, not 6"),
        ("from 3 - 5 = 2", "3 - 5 is -2, not 2"),
        ("(2 + 3 = 6)", "2 + 3 is 5, not 6"),
        ("20 % of 50 = 11", "20 % * 50 is 10, not 11"),
        ("22/7 \u2248 4", "22/7 is 3.14286, not 4"),
        ("0,75 * 4 = 4", "0,75 * 4 is 3, not 4"),
        ("1 + 1 = 2 = 3 - 2", "2 is 2, not 3 - 2"),
        ("1,000,000 + 1 = 1,000,002", "1,000,000 + 1 is 1000001, not 1,000,002"),
        ("So 17 / 5 = 3.5. Then we stop.", "17 / 5 is 3.4, not 3.5"),
        ("We add:\n  2 + 3 = 6 km/h!\nAnd go on.", "2 + 3 is 5, not 6"),
        ("| 2 + 3 = 6 | kg |", "2 + 3 is 5, not 6"),
        (r"Somit ist \( 2 \cdot 3 = 5 \).", "2 * 3 is 6, not 5"),
    ],
)
def test_an_equation_that_does_not_hold_is_wrong_with_what_it_makes(text: str, said: str) -> None:
    assert [str(it) for it in calculations_in(text) if not it.is_right] == [said]


@pytest.mark.parametrize(
    "text",
    [
        "x = 5",
        "2x + 1 = 4",
        "x^2 = 3 * 3 = 10",
        "f(2) = 3 + 1 = 5",
        "14:05 + 3:40 = 17:50",
        "5 apples + 3 = 9",
        "8 kg - 3 = 4",
        "1 km + 500 m = 2 km",
        "50 + 10% = 55",
        "2(3) = 7",
        "5/0 = 1",
        "2^0.5 = 1.5",
        "4 + 1 = 5 - x",
        "12 000 * 2 = 1",
        "2024-05-01",
        "3 = 4",
        "1 + 1 == 3",
        "1.2.3 + 1 = 4",
        "0 ^ -1 = 3",
        f"{'9' * 40} + 1 = 2",
        "17 / 5 = 3 remainder 2.",
        "17 \u00f7 5 = 3 Rest 2",
        "So 17 / 5 = 3 R2.",
        "17 / 5 = 3, remainder 2.",
        "10 + 5 = 3 mod 12",
        "10 + 5 = 3 (mod 12)",
        "14 + 11 = 1 o'clock",
        "22 + 3 = 1 Uhr.",
        "1 + 1 = 10 in binary.",
        "1/4 = 25 percent",
        "So 3 / 4 = 75 per cent.",
        "1500 * 2 = 3 thousand",
        "Das macht 2000000 + 1000000 = 3 Millionen.",
        "12 * 2 = 2 dozen",
        "It is not true that 2 + 2 = 5.",
        "We don't get 2 + 2 = 5.",
        "Suppose 2 + 2 = 5. That is absurd.",
        'He says "2 + 2 = 5", which is wrong.',
        "2 + 2 = 5 is wrong.",
        "Option 2 = 5 + 3",
        "Stufe 2 + 3 = 4 Punkte",
    ],
)
def test_what_cannot_be_read_for_certain_is_passed_over(text: str) -> None:
    assert list(calculations_in(text)) == []


def test_long_and_hostile_texts_end() -> None:
    """In linear time: a quadratic one would take minutes."""
    for text in ("=1+" * 70_000, "(" * 200_000, "9^9^9^9 = 2\n" * 10_000, "1 + 1 = 2\n" * 20_000):
        assert all(it.is_right for it in calculations_in(text))
