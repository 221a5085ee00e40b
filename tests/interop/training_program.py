"""Reads the pairs of two files with `datasets`, and prepares them as TRL's DPO trainer does."""

import sys

from datasets import load_dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from trl.data_utils import (
    apply_chat_template,
    is_conversational,
    maybe_extract_prompt,
    unpair_preference_dataset,
)

plain, conversational = (
    load_dataset("json", data_files=path, split="train") for path in sys.argv[1:3]
)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]")),
    chat_template="{% for it in messages %}<{{ it.role }}>{{ it.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}",
)
assert len(plain) == len(conversational) > 1
for text, messages in zip(plain, conversational, strict=True):
    assert not is_conversational(text)
    assert is_conversational(messages)
    for example in (text, messages):
        assert maybe_extract_prompt(example) == example  # the prompt is one of its own
    worded = apply_chat_template(messages, tokenizer)
    assert worded["prompt"].startswith(("<system>", "<user>"))
    assert worded["prompt"].endswith("<assistant>")
    assert text["chosen"] in worded["chosen"] != worded["rejected"]
    assert text["source"] in ("rating", "review", "comparison")
for pairs in (plain, conversational):
    named = pairs.select_columns(["prompt", "chosen", "rejected"])
    assert len(unpair_preference_dataset(named)) == 2 * len(pairs)
print(f"succeeded: {len(plain)} pairs in both forms")
