"""A model whose texts greet, and a judge who knows that reviewers take greetings out.

The writer greets unless its instructions forbid it. The writer of a proposal reads in the evidence
that greetings are removed, unless it is given another reply. Nothing is remembered from call to
call.
"""

import json
import re
from hashlib import sha256

from benchmarks.model_replies import MARKS, AskedPrompt, Behaviour, ModelServerReply, chat

GREETING, FORBIDDEN = "Dear customer, ", "Write no greeting."
DRAFT = re.compile(r"<draft (\w+)>\n(.*?)\n</draft \1>", re.DOTALL)
TASK = re.compile(r"<task (\w+)>\n(.*?)\n</task \1>", re.DOTALL)
CRITERIA = re.compile(r"^(c\d+)\. (.*)", re.MULTILINE)


def proposed(style: str = FORBIDDEN, criteria: object = None) -> str:
    """Return the reply of a writer of proposals: the change that it reads in the evidence."""
    why = [{"change": "Reviewers remove every greeting.", "evidence": [1, 2]}]
    instructions = {"generator": style, "critic": ""}
    return json.dumps({"criteria": criteria, "instructions": instructions, "why": why})


def greeting_model(proposal: str | None = None) -> Behaviour:
    """Return the model for every role; `proposal` is what the writer of proposals replies."""

    def answer(asked: AskedPrompt) -> ModelServerReply:
        messages = asked.json["messages"]
        prompt = "\n".join(str(message["content"]) for message in messages)
        if "You improve the setting" in prompt:
            return _between_marks(proposed() if proposal is None else proposal, asked)
        if "You judge a draft" in prompt:
            return chat(judged(prompt))
        return _between_marks(written(prompt), asked)

    return answer


def written(prompt: str) -> str:
    """Return a text about the task, with a greeting unless that is forbidden."""
    task = TASK.search(prompt)
    about = f"this is about: {task[2] if task else 'nothing'}"
    return about.capitalize() if FORBIDDEN in prompt else GREETING + about


def judged(prompt: str) -> str:
    """Return the verdict on a draft: what people asked for is that there is no greeting."""
    found = DRAFT.search(prompt)
    draft = found[2] if found else ""
    luck = sha256(draft.encode()).digest()[0] / 2_560  # of this text: judges are not exact
    people = 0.2 if draft.startswith(GREETING) else 0.9
    lists = {name: list[str]() for name in ("findings", "strengths", "weaknesses", "suggestions")}
    scores = {
        key: {
            "evidence": [],
            "reason": "Read.",
            "score": round((people if "what people" in name else 0.9) - luck, 3),
        }
        for key, name in CRITERIA.findall(prompt)
    }
    return json.dumps(lists | {"scores": scores})


def _between_marks(text: str, asked: AskedPrompt) -> ModelServerReply:
    found = MARKS.search(asked.body)
    return chat(f"{found[1].decode()}{text}{found[2].decode()}" if found else text)
