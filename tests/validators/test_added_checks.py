"""What a check of a package may do wrong: neither another draft nor another check is affected."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.installed_package import environment_with, install_package
from tests.waiting import TIMEOUT_S

CONTRACT = '''
"""A kind that does what it is told."""

from typing import Literal

from app.contract.validators import ScoringValidator


class OddValidator(ScoringValidator):
    """What the check does, as Python."""

    kind: Literal["odd"]
    does: str
    at_once: bool = False

    def is_quick(self, draft: str) -> bool:
        return self.at_once

    def can_fix(self) -> bool:
        return True
'''
PLAY = """
import os, sys
from app.contract.regexes import compile_pattern
from workers.text.edits import Edit
from workers.validators.violation import Measurement, Violation

def check_odd(validator, draft):
    yield from eval(validator.does)

def fix_odd(validator, draft):
    return eval(validator.does)
"""
RUN = """
import asyncio, json, sys
from pydantic import TypeAdapter
from app.contract.validators import AnyValidator
from workers.validators.running import compile_validators

async def main():
    given = TypeAdapter(list[AnyValidator]).validate_python(json.load(sys.stdin))
    for each in given:
        found = await compile_validators([each]).examine("Alpha beta.")
        print(found.model_dump_json())

asyncio.run(main())
"""
BROKEN = {
    "raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "ends": ("sys.exit(0)", "SystemExit: 0"),
    "another type": ("[42]", "TypeError: a check gives Violation and Measurement, not 42"),
    "no list": ("None", "TypeError: 'NoneType' object is not iterable"),
    "not a number": ("[Measurement(float('nan'), '')]", "ValueError: a score is from 0 to 1"),
    "a pattern": ("[compile_pattern('(')]", "PatternError: "),
    "elsewhere": ("[Violation('m', 'f', span=(3, 99))]", "ValueError: the span (3, 99) is not in"),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    points = {
        "hone.contract": {"validators.odd": "odd_contract"},
        "hone.play": {"validators.odd": "odd_checks"},
    }
    install_package(folder, "hone-odd", points, odd_contract=CONTRACT, odd_checks=PLAY)
    return folder


def examined(package: Path, *validators: dict[str, Any]) -> list[Any]:
    """Return what each validator finds, one after the other in one worker."""
    run = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(validators),
        env=environment_with(package),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


def odd(does: str, **more: object) -> dict[str, Any]:
    return {"kind": "odd", "does": does, **more}


def test_what_a_check_prints_or_reads_is_no_verdict_about_another_draft(package: Path) -> None:
    prints = odd("print('{}', flush=True) or os.write(1, b'{}\\n') and sys.stdin.read() and []")
    forbids = {"kind": "excludes", "texts": ["beta"]}
    broken, *found, parsed = examined(package, prints, forbids, forbids, {"kind": "json"})
    assert broken["findings"] == []
    assert ["'beta'" in each["findings"][0]["message"] for each in found] == [True, True]
    assert "is not JSON" in parsed["findings"][0]["message"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_check_that_fails_is_a_finding_that_says_how(package: Path, at_once: bool) -> None:
    given = [odd(does, at_once=at_once) for does, _ in BROKEN.values()]
    found = examined(package, *given, {"kind": "length", "max_words": 1})
    for (_, said), each in zip(BROKEN.values(), found, strict=False):
        (finding,) = each["findings"]
        assert finding["skipped"]
        assert f"could not be checked: the check of odd failed with {said}" in finding["message"]
    assert "2 words" in found[-1]["findings"][0]["message"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_check_in_any_process_can_score_and_say_too_much(package: Path, at_once: bool) -> None:
    share, long, unused = examined(
        package,
        odd("[Measurement(0.5, 'half')]", at_once=at_once, score={"as": "decides"}),
        odd("[Violation('m' * 10**6 + '\\ud800', 'f')]", at_once=at_once),
        odd("[Measurement(0.5, 'half')]", at_once=at_once),
    )
    assert [each["score"] for each in share["scores"]] == [0.5]
    assert len(long["findings"][0]["message"]) == 4_000
    assert unused["scores"] == []


def test_a_correction_that_is_none_changes_nothing(package: Path) -> None:
    fixes = ("[Edit(0, 99, '')]", "[Edit(0, 11, '')]", "1 / 0", "[Edit(0, 5, 'Gamma')]")
    *left, mended = examined(package, *(odd(does, on_fail="fix") for does in fixes))
    assert [each["text"] for each in left] == [None] * 3
    assert mended["text"] == "Gamma beta."
