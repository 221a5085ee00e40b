"""What a pass, a stage and a part of a text are told about their place in the whole."""

from typing import Any

from tests.engine.engine_driver import EngineDriver, judged_by, request
from workers.engine.pipeline import strategy_for

SECTIONS = ("# Refunds\n\nWe pay.", "# Returns\n\nSend it.", "# Contact\n\nWrite to us.")
LEAVE = "leave everything else as it is"
PASSES = [{"focus": "content"}, {"focus": "style", "instructions": "Plainly."}]


def texts() -> Any:
    number = 0
    while True:
        number += 1
        yield f"Point {number}\n\nText number {number}."


def played(**fields: Any) -> EngineDriver:
    body = request(threshold=0.5, **fields)
    low = judged_by(lambda path, _: 0.4 if path == "iterations/0/critique" else 0.9, texts())
    low.run(strategy_for(body, "482913"), body.limits())
    return low


def asked(model: EngineDriver, path: str) -> str:
    return next(it.prompt.user for it in model.asked("generator") if it.path.startswith(path))


def test_the_first_writer_of_several_passes_is_not_told_to_leave_anything_as_it_is() -> None:
    model = played(strategy={"kind": "multi_pass", "passes": PASSES})
    first, *_ = model.asked("generator")
    assert LEAVE not in first.prompt.user
    assert "write the whole text, and attend to content above all." in first.prompt.user


def test_later_passes_and_those_over_a_draft_leave_everything_else_as_it_is() -> None:
    body: dict[str, Any] = {"strategy": {"kind": "multi_pass", "passes": PASSES}, "draft": "Mine."}
    critics = [it.prompt.user for it in played(**body).asked("critic") if "passes" in it.path]
    assert [LEAVE in it for it in critics] == [True, True]
    assert "attend to style and leave everything else as it is. Plainly." in critics[1]


def test_a_section_knows_its_place_its_siblings_and_what_stands_before_it() -> None:
    model = judged_by(lambda path, _: 0.4 if path.startswith("iterations/0") else 0.9, texts())
    body = request(draft="\n\n".join(SECTIONS), strategy={"kind": "nested"}, threshold=0.5)
    model.run(strategy_for(body, "482913"), body.limits())
    users = {it.path.split("/")[1]: it.prompt.user for it in model.asked("critic")}
    first, second = users["section-1"], users["section-2"]
    assert "The text is part 2 of 3 of a larger one:" in second
    assert "<parts 482913>\n1. Refunds\n2. Returns\n3. Contact\n</parts 482913>" in second
    before = "<what stands before it 482913>\n# Refunds\n\nWe pay.\n</what stands before it 482913>"
    assert before in second
    assert "what stands before it" not in first
    shared = {
        it.prompt.user[: it.prompt.shared]
        for it in model.asked("critic")
        if it.path.startswith("parts/")
    }
    assert len(shared) == 1


def test_only_the_end_of_a_long_section_is_shown() -> None:
    long = f"# One\n\n{'x ' * 500}the end."
    body = request(draft=f"{long}\n\n# Two\n\nText.", strategy={"kind": "nested"}, threshold=0.5)
    model = judged_by(lambda path, _: 0.4 if path.startswith("iterations/0") else 0.9, texts())
    model.run(strategy_for(body, "482913"), body.limits())
    (second,) = (it.prompt.user for it in model.asked("critic") if "section-2" in it.path)
    shown = second.split("<what stands before it 482913>\n")[1].split("\n</what")[0]
    assert shown.endswith("the end.")
    assert len(shown) == 200


def test_a_planned_part_knows_the_others() -> None:
    parts = [
        {"name": "intro", "instructions": "Greet."},
        {"name": "body", "instructions": "Say it."},
    ]
    model = played(strategy={"kind": "nested", "parts": parts})
    user = asked(model, "parts/body/")
    assert "The text is part 2 of 2 of a larger one:" in user
    assert "1. intro: Greet.\n2. body: Say it.\n" in user
    assert "This is about one part of the whole text: Say it." in user


def test_a_section_of_a_stage_knows_the_others() -> None:
    stages = [{"name": "outline"}, {"name": "text", "sections": True}]
    model = judged_by(lambda *_: 0.9, iter(["- one\n- two", *[f"Section {n}" for n in range(9)]]))
    body = request(strategy={"kind": "stepwise", "stages": stages}, threshold=0.5)
    model.run(strategy_for(body, "482913"), body.limits())
    user = asked(model, "stages/text/sections/2")
    assert "The text is part 2 of 2 of a larger one:" in user
    assert "1. one\n2. two\n" in user
    assert "Write only this section of it: - two" in user
