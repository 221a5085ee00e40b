"""What the chat formats have in common: JSON asked for in words, tokens counted, replies flawed."""

import json
from collections.abc import Sequence

from workers.engine.briefs import Prompt
from workers.models.port import ModelError, ModelRefused, UnreadableReply

NAMES_OF_JSON = (
    *("response_format", "json_schema", "json_object", "json mode", "json_mode"),
    *("output_config", "output_format", "schema", "structured", "grammar"),
)
"""Words by which servers name what they cannot do with JSON, in lower case."""


def system_text(prompt: Prompt, *, in_words: bool) -> str:
    """Return the instructions; with `in_words` they state the JSON Schema of the reply."""
    if not in_words or prompt.schema is None:
        return prompt.system
    schema = json.dumps(prompt.schema, ensure_ascii=False)
    return (
        f"{prompt.system}\n\nAnswer with one JSON object that satisfies this JSON Schema, "
        f"and with nothing else:\n{schema}"
    )


def counted(usage: object, inputs: Sequence[str], output: str) -> tuple[int, int] | None:
    """Return input and output tokens, or None unless the first of `inputs` and `output` are there.

    The other names of `inputs` are parts that a server counts apart; each may be missing.
    """
    if not isinstance(usage, dict):
        return None
    first, *parts, said = [_count(usage.get(name)) for name in (*inputs, output)]
    if first is None or said is None:
        return None
    return first + sum(part or 0 for part in parts), said


def _count(number: object) -> int | None:
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return number
    return None


def flaw_of(text: str, *, is_cut_off: bool, is_withheld: bool) -> ModelError | None:
    """Return why a text must not be used, or None."""
    if is_withheld:
        return ModelRefused("the model or its provider's filter declined to answer")
    if is_cut_off:
        return UnreadableReply("the reply is cut off: `max_output_tokens` is too small for it")
    return None if text.strip() else UnreadableReply("the reply is empty")
