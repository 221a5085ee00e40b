"""`hone demo`: a real text gets better, and nothing is left behind."""

import re
import signal
from pathlib import Path

import pytest

from app.cli.server_commands import rough_text
from tests.cli.running_command import running
from tests.waiting import eventually

NUMBERS = ("1,284", "4 May", "06:30", "45", "31 December", "EUR 0.00", "12", "28 April")
KEPT = (
    "Okafor",
    "Lindqvist",
    "Priya Raman",
    '"Nothing may be deleted before the totals agree to the cent."',
    "do not need to do anything",
    "https://intranet.example.com/ledgerline/status",
)


def test_the_demonstration_makes_a_text_better_and_keeps_its_facts(tmp_path: Path) -> None:
    with running("demo", TMPDIR=str(tmp_path)) as demo:
        assert demo.says("Result: ")
        assert demo.end() == 0
        assert demo.left() == []
    output = "\n".join(demo.lines)
    scores = [
        float(found)
        for found in re.findall(r"^iteration \d+: score ([\d.]+)", output, re.MULTILINE)
    ]
    assert scores[-1] > scores[0]
    assert re.search(r"refinement.completed arrived at .*, its signature is valid", output)
    result = output.partition("\nResult: ")[2]
    assert "[-seperate-]{+separate+}" in output
    assert [kept for kept in (*NUMBERS, *KEPT) if kept in rough_text() and kept not in result] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("moment", ["", "step:", "What changed"])
def test_ctrl_c_leaves_nothing_running_at_any_moment(tmp_path: Path, moment: str) -> None:
    with running("demo", TMPDIR=str(tmp_path)) as demo:
        assert eventually(lambda: bool(demo.family()) or demo.process.poll() is not None)
        assert demo.says(moment) or not moment
        assert demo.interrupt() in {0, 130}
        assert demo.left() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_kill_9_leaves_nothing_running(tmp_path: Path) -> None:
    with running("demo", TMPDIR=str(tmp_path)) as demo:
        assert demo.says("Refining")
        assert len(demo.family()) >= 3
        demo.interrupt(signal.SIGKILL)
        assert demo.left() == []


def test_the_rough_text_has_what_must_survive() -> None:
    assert [kept for kept in (*NUMBERS, *KEPT) if kept not in rough_text()] == []
