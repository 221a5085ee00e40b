"""Values and contracts are compared by their fields, however they were made."""

from dataclasses import replace

from app.contract.judgement import Usage
from workers.models.port import ReportedLimit

LIMIT = ReportedLimit("tokens", 1_000, 10, 60)
USAGE = Usage(calls=1, input_tokens=700, output_tokens=300, cost_usd=0.002, seconds=1.5)


def test_equal_values_are_one_in_a_set() -> None:
    assert {LIMIT, replace(LIMIT, remaining=10), replace(LIMIT, remaining=9)} == {
        LIMIT,
        ReportedLimit("tokens", 1_000, 9, 60),
    }


def test_a_sum_of_usages_has_the_numbers_of_both() -> None:
    unknown = Usage(calls=2, output_tokens=1, cost_usd=None, seconds=0.25)
    assert USAGE + unknown == Usage(
        calls=3, input_tokens=700, output_tokens=301, cost_usd=None, seconds=1.75
    )
