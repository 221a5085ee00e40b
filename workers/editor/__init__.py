"""`offline:editor`: a plain-language editor and JSON repairer that needs no key and no network.

It is no language model and does not pretend to be one: it measures what can be counted, mends what
can be mended without understanding the text, and says of everything else that it was not measured.
The same call always has the same reply.
"""

import json
from dataclasses import asdict

from app.contract.editor import EDITOR
from workers.engine.edits import between, restored
from workers.engine.prompt_requests import Amend, Brief, Compare, Judge, ListCriteria, Revise, Write


class EditorCannot(Exception):
    """The editor cannot do what is asked, whatever the text; the message says what instead."""


def answer(brief: Brief) -> str:
    """Return a verdict or a preference as JSON, or a revised draft.

    Raises `EditorCannot` when asked to write, or to judge what it cannot measure.
    """
    # The rules and their tables cost a second's start; a process that uses no editor saves it.
    from workers.editor.critic import checklist, judged, preference  # noqa: PLC0415

    if isinstance(brief, Write):
        raise EditorCannot(f"{EDITOR} improves a text and cannot write one: give a draft")
    if isinstance(brief, Judge):
        if brief.member and (brief.member.perspective or brief.member.adversarial):
            raise EditorCannot(f"{EDITOR} counts words and plays no part")
        critique = judged(brief.draft, brief.task.criteria)
        if all(it.score is None for it in critique.scores):
            said = "; ".join(f"{it.criterion}: {it.reason}" for it in critique.scores)
            raise EditorCannot(f"{EDITOR} can measure nothing here. {said}")
        return critique.model_dump_json()
    if isinstance(brief, ListCriteria):
        listed = checklist(brief.task.instruction, brief.task.draft)
        return json.dumps(
            {"criteria": [{"name": it.name, "description": it.description} for it in listed]}
        )
    if isinstance(brief, Compare):
        preferred = preference(brief.a, brief.b, brief.task.criteria)
        if preferred is None:
            raise EditorCannot(f"{EDITOR} can measure nothing that both texts have")
        return preferred
    if isinstance(brief, Amend):
        edits = between(brief.revision.draft, _revised(brief.revision))
        return json.dumps({"edits": [asdict(it) for it in edits]}, ensure_ascii=False)
    if not isinstance(brief, Revise):
        raise EditorCannot(f"{EDITOR} is no language model: it neither asks nor answers")
    return _revised(brief)


def _revised(brief: Revise) -> str:
    from workers.editor.reviser import revised  # noqa: PLC0415

    text = revised(brief.draft, brief.task.criteria, brief.findings, brief.task.schemas)
    return restored(brief.draft, text, brief.task.locked)
