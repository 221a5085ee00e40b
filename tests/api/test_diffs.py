"""The difference between two drafts."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.drafts import sha256_of
from app.contract.judgement import Usage
from app.contract.snapshot import Iteration
from app.service.iterations import diff_of

DRAFTS = st.lists(
    st.sampled_from(["a\n", "b\n", "\n", "c", "d\r\n", "e\u2028f\n"]), max_size=30
).map("".join)


def iteration(number: int, draft: str) -> Iteration:
    return Iteration(
        iteration=number,
        path=f"iterations/{number}",
        draft=draft,
        sha256=sha256_of(draft),
        parent=None,
        score=0.5,
        scores=(),
        passed=False,
        findings=(),
        strengths=(),
        weaknesses=(),
        suggestions=(),
        asked=(),
        usage=Usage(),
    )


@given(DRAFTS, DRAFTS)
def test_the_operations_joined_are_the_two_drafts(old: str, new: str) -> None:
    diff = diff_of(iteration(0, old), iteration(1, new))
    assert "".join(operation.from_text for operation in diff.operations) == old
    assert "".join(operation.to_text for operation in diff.operations) == new
    assert all((it.op == "equal") == (it.from_text == it.to_text) for it in diff.operations)
    assert (diff.unified == "") == (old == new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("one\ntwo\nthree\n", "one\n2\nthree\nfour\n"),
        ("no end", "no end\n"),
        ("a\n" * 20 + "b\n" + "c\n" * 20, "a\n" * 19 + "b\nx\n" + "c\n" * 21),
        ("", "all new"),
        ("all gone\n", ""),
    ],
)
def test_git_makes_the_new_draft_of_the_old_one(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "draft").write_text(old)
    unified = diff_of(iteration(0, old), iteration(1, new)).unified
    patch = unified.replace("iterations/0", "a/draft", 1).replace("iterations/1", "b/draft", 1)
    subprocess.run(["git", "apply"], cwd=tmp_path, input=patch, text=True, check=True)
    assert (tmp_path / "draft").read_text() == new


def test_drafts_with_too_many_changed_lines_are_one_replacement() -> None:
    old, new = "a\nb\n" * 10_000, "same\n" + "a\nc\n" * 10_000
    diff = diff_of(iteration(0, old), iteration(1, new))
    assert [operation.op for operation in diff.operations] == ["replace"]


def test_a_long_draft_is_compared_between_lines_that_stand_once_in_both() -> None:
    lines = [f"line {number}\n" for number in range(60_000)]
    changed = [f"new {line}" if number % 600 == 7 else line for number, line in enumerate(lines)]
    moved = [*changed[:30_000], *changed[31_000:], *changed[30_000:31_000]]
    diff = diff_of(iteration(0, "".join(lines)), iteration(1, "".join(moved)))
    assert "".join(operation.from_text for operation in diff.operations) == "".join(lines)
    assert "".join(operation.to_text for operation in diff.operations) == "".join(moved)
    replaced = [operation for operation in diff.operations if operation.op == "replace"]
    assert len(replaced) > 90
    assert {operation.from_end - operation.from_start for operation in replaced} == {1}
