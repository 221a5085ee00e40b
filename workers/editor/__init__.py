"""`offline:editor`: a plain-language editor and JSON repairer that needs no key and no network.

It is not a language model: it measures what can be counted, fixes what can be fixed without
understanding the text, and reports everything else as not measured. Equal calls have equal replies.
"""

import json
from dataclasses import asdict

from app.contract.editor import EDITOR
from workers.engine.drafting import between, restored
from workers.engine.long_documents import SUMMARY, ReadPart
from workers.engine.prompts import (
    Amend,
    Compare,
    Judge,
    ListCriteria,
    PromptRequest,
    Revise,
    Write,
)


class EditorCannot(Exception):
    """The editor does not support what is asked; the message says why or what to do instead."""


def editor_reply(prompt_request: PromptRequest) -> str:
    """Return a verdict, a checklist, a preference or edits as JSON, or a revised draft as text.

    Raises `EditorCannot` when asked to write, or to compare what it cannot measure.
    """
    # Loading the rules and their tables takes a second; a process without the editor saves it.
    from workers.editor.critic import checklist, judged, preference  # noqa: PLC0415

    if isinstance(prompt_request, Write):
        raise EditorCannot(f"{EDITOR} improves a text and cannot write one: give a draft")
    if isinstance(prompt_request, Judge):
        if prompt_request.member and (
            prompt_request.member.perspective or prompt_request.member.adversarial
        ):
            raise EditorCannot(f"{EDITOR} does not support `perspective` or `adversarial` critics")
        is_sample = prompt_request.parts is not None
        criteria = prompt_request.task.criteria
        critique = judged(prompt_request.draft, criteria, is_sample=is_sample)
        is_unmeasurable = all(score.score is None for score in critique.scores)
        return json.dumps({**critique.model_dump(mode="json"), "unmeasurable": is_unmeasurable})
    if isinstance(prompt_request, ReadPart):
        return json.dumps({"summary": _beginning(prompt_request.text)})
    if isinstance(prompt_request, ListCriteria):
        listed = checklist(prompt_request.task.instruction, prompt_request.task.draft)
        return json.dumps(
            {
                "criteria": [
                    {"name": criterion.name, "description": criterion.description}
                    for criterion in listed
                ]
            }
        )
    if isinstance(prompt_request, Compare):
        preferred = preference(prompt_request.a, prompt_request.b, prompt_request.task.criteria)
        if preferred is None:
            raise EditorCannot(f"{EDITOR} cannot measure any criterion on both texts")
        return preferred
    if isinstance(prompt_request, Amend):
        edits = between(prompt_request.revision.draft, _revised(prompt_request.revision))
        return json.dumps({"edits": [asdict(edit) for edit in edits]}, ensure_ascii=False)
    if not isinstance(prompt_request, Revise):
        raise EditorCannot(f"{EDITOR} is not a language model: it cannot answer this request")
    return _revised(prompt_request)


def length_of(prompt_request: PromptRequest) -> int:
    """Return the characters of the texts that the editor would read to answer."""
    if isinstance(prompt_request, Compare):
        return len(prompt_request.a) + len(prompt_request.b)
    if isinstance(prompt_request, Amend):
        return len(prompt_request.revision.draft)
    if isinstance(prompt_request, Judge | Revise):
        return len(prompt_request.draft)
    if isinstance(prompt_request, ReadPart):
        return SUMMARY
    return len(prompt_request.task.draft or "")


def _beginning(text: str) -> str:
    """Return what stands for a summary: the first sentences, as the editor understands none."""
    shown = text[:SUMMARY]
    end = max(shown.rfind(mark) for mark in (".", "!", "?", "\n"))
    return shown if len(text) <= SUMMARY or end < 0 else shown[: end + 1]


def _revised(prompt_request: Revise) -> str:
    from workers.editor.reviser import revised  # noqa: PLC0415

    text = revised(
        prompt_request.draft,
        prompt_request.task.criteria,
        prompt_request.findings,
        prompt_request.task.schemas,
    )
    return restored(prompt_request.draft, text, prompt_request.task.locked)
