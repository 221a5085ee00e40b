"""Prompts are read back as they were, share what repeats, and hide their nonce."""

import pytest

from app.contract.drafts import sha256_of
from app.contract.requests import RefinementRequest
from app.store.prompts import (
    MASK,
    SHORT,
    KeptPrompt,
    PromptKeeper,
    decode_prompt,
    drafts_in,
    ids_in,
    known_texts,
    names_of,
    parts_of,
)

DOCUMENT = "The policy says a lot.\n\n" * 20
NONCE = "483920"


def fenced(label: str, text: str) -> str:
    return f"<{label} {NONCE}>\n{text}\n</{label} {NONCE}>"


def read(kept: dict[bytes, bytes], sha256: str) -> KeptPrompt | None:
    parts = parts_of(kept[names_of([sha256])[0]])
    return decode_prompt(parts, kept)


@pytest.mark.parametrize(
    "prompt",
    [
        KeptPrompt("Write.", "A task."),
        KeptPrompt("", ""),
        KeptPrompt("S\u00e9 " * 100, DOCUMENT, {"type": "object", "required": ["c1"]}),
        KeptPrompt("=", "#=\n<a>\n\n</a>\r\n\u2028"),
        KeptPrompt("Write.", f"Task:\n{fenced('draft', DOCUMENT)}\n\n<p>\n{DOCUMENT}"),
        KeptPrompt("W", f"Task:\n<data-{'a' * 64}>\n{DOCUMENT}\n</data-{'a' * 64}>\n\nDo it."),
    ],
)
def test_a_prompt_is_read_back_as_it_was(prompt: KeptPrompt) -> None:
    assert read(PromptKeeper().fields("1" * 64, prompt, shared=5), "1" * 64) == prompt


def test_a_document_in_two_prompts_is_stored_once() -> None:
    critique = KeptPrompt("Judge." * SHORT, fenced("document", DOCUMENT) + "\n\nJudge it.")
    revise = KeptPrompt("Judge." * SHORT, f"{fenced('draft', 'A')}\n\n{fenced('doc', DOCUMENT)}")
    first = PromptKeeper(NONCE).fields("1" * 64, critique)
    second = PromptKeeper(NONCE).fields("2" * 64, revise)
    assert len(first.keys() & second.keys()) == 2  # the system message and the document
    keeper = PromptKeeper(NONCE)
    assert keeper.fields("1" * 64, critique) == keeper.fields("1" * 64, critique)
    keeper.kept(keeper.fields("1" * 64, critique))
    assert keeper.fields("1" * 64, critique) == {}
    assert keeper.fields("2" * 64, revise).keys() == {names_of(["2" * 64])[0]}


def test_what_stands_in_the_request_is_not_stored_again() -> None:
    request = RefinementRequest.model_validate(
        {"task": "Short.", "context": [{"name": "a", "text": DOCUMENT}]}
    )
    known = known_texts(request)
    prompt = KeptPrompt("Judge.", f"{fenced('document', f'a {DOCUMENT}')} {DOCUMENT}")
    kept = PromptKeeper(None, known).fields("1" * 64, prompt)
    assert kept.keys() == {names_of(["1" * 64])[0]}
    assert decode_prompt(parts_of(*kept.values()), kept, known) == prompt


def test_the_nonce_is_masked_in_tags_alone() -> None:
    prompt = KeptPrompt(f"Between <NAME {NONCE}> and </NAME {NONCE}>.", fenced("draft", NONCE))
    assert read(PromptKeeper(NONCE).fields("1" * 64, prompt), "1" * 64) == KeptPrompt(
        f"Between <NAME {MASK}> and </NAME {MASK}>.", f"<draft {MASK}>\n{NONCE}\n</draft {MASK}>"
    )


def test_a_prompt_whose_part_is_missing_is_none() -> None:
    sha256 = sha256_of("x")
    kept = PromptKeeper().fields(sha256, KeptPrompt("Write.", DOCUMENT))
    (part,) = ids_in(parts_of(kept[names_of([sha256])[0]]))
    del kept[part]
    assert read(kept, sha256) is None


def test_the_draft_of_a_recorded_reply_is_not_stored_again() -> None:
    keeper = PromptKeeper(NONCE)
    keeper.replied(f"```\n{DOCUMENT}\n```")
    prompt = KeptPrompt("Judge.", fenced("draft", DOCUMENT.strip("\n")))
    kept = keeper.fields("1" * 64, prompt)
    assert kept.keys() == {names_of(["1" * 64])[0]}
    parts, masked = parts_of(*kept.values()), prompt.user.replace(NONCE, MASK)
    drafts = drafts_in(["Short.", f"```\n{DOCUMENT}\n```"])
    assert decode_prompt(parts, {}, (), drafts) == KeptPrompt("Judge.", masked)
    assert decode_prompt(parts, {}) is None
