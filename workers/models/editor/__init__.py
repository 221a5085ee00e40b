"""`offline:editor`: a plain-language editor and JSON repairer that needs no key and no network.

It is no language model and does not pretend to be one: it measures what can be counted, mends what
can be mended without understanding the text, and says of everything else that it was not measured.
The same call always has the same reply.
"""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache

from app.contract.editor import EDITOR
from app.contract.judgement import Usage
from workers.engine.briefs import Amend, Brief, Compare, Judge, ListCriteria, Revise, Write
from workers.engine.edits import between, restored
from workers.models.port import ModelCall, ModelRefused, ModelReply

THREADS = 1
"""Python runs one thread at a time: more would only take the event loop's turn more often."""


class Editor:
    """Answers from the brief of a call, in a thread of its own; the prompt is not read."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Return a verdict or a preference as JSON, or a revised draft.

        Raises `ModelRefused` when asked to write, or to judge what it cannot measure.
        """
        text = await asyncio.get_running_loop().run_in_executor(_threads(), _answer, call.brief)
        return ModelReply(text=text, model=EDITOR, usage=Usage(calls=1))


def _answer(brief: Brief) -> str:
    # The rules and their tables cost a second's start; a process that uses no editor saves it.
    from workers.models.editor.checklist import checklist  # noqa: PLC0415
    from workers.models.editor.comparing import preference  # noqa: PLC0415
    from workers.models.editor.critic import judged  # noqa: PLC0415

    usage = Usage(calls=1)
    if isinstance(brief, Write):
        raise ModelRefused(f"{EDITOR} improves a text and cannot write one: give a draft", usage)
    if isinstance(brief, Judge):
        if brief.member and (brief.member.perspective or brief.member.adversarial):
            raise ModelRefused(f"{EDITOR} counts words and plays no part", usage)
        critique = judged(brief.draft, brief.task.criteria)
        if all(it.score is None for it in critique.scores):
            said = "; ".join(f"{it.criterion}: {it.reason}" for it in critique.scores)
            raise ModelRefused(f"{EDITOR} can measure nothing here. {said}", usage)
        return critique.model_dump_json()
    if isinstance(brief, ListCriteria):
        listed = checklist(brief.task.instruction, brief.task.draft)
        return json.dumps(
            {"criteria": [{"name": it.name, "description": it.description} for it in listed]}
        )
    if isinstance(brief, Compare):
        preferred = preference(brief.a, brief.b, brief.task.criteria)
        if preferred is None:
            raise ModelRefused(f"{EDITOR} can measure nothing that both texts have", usage)
        return preferred
    if isinstance(brief, Amend):
        edits = between(brief.revision.draft, _revised(brief.revision))
        return json.dumps({"edits": [asdict(it) for it in edits]}, ensure_ascii=False)
    if not isinstance(brief, Revise):
        raise ModelRefused(f"{EDITOR} is no language model: it neither asks nor answers", usage)
    return _revised(brief)


def _revised(brief: Revise) -> str:
    from workers.models.editor.reviser import revised  # noqa: PLC0415

    text = revised(brief.draft, brief.task.criteria, brief.findings, brief.task.schemas)
    return restored(brief.draft, text, brief.task.locked)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="editor")
