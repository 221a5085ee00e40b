"""Prompts are read back as they were, share what repeats, and hide their nonce."""

import pytest

from app.contract.requests import RefinementRequest
from app.store.prompts import (
    MASK,
    SHORT,
    KeptPrompt,
    PromptKeeper,
    decode_prompts,
    known_texts,
    step_name,
)

DOCUMENT = "The policy says a lot.\n\n" * 20
NONCE = "qjvxkwzb"
KNOWN = ("A task. " * SHORT, "A draft. " * SHORT)


def fenced(label: str, text: str, nonce: str = NONCE) -> str:
    return f"<{label} {nonce}>\n{text}\n</{label} {nonce}>"


def read(
    kept: dict[str, bytes],
    step: str,
    known: tuple[str, ...] = (),
    replies: dict[str, str] | None = None,
) -> KeptPrompt | None:
    stored = {name.encode(): content for name, content in kept.items()}
    return decode_prompts(stored, [step], known, replies or {}).get(step)


def masked(prompt: KeptPrompt) -> KeptPrompt:
    system, user = (text.replace(NONCE, MASK) for text in (prompt.system, prompt.user))
    return KeptPrompt(system, user, prompt.schema)


@pytest.mark.parametrize(
    "prompt",
    [
        KeptPrompt("Write.", "A task."),
        KeptPrompt("", ""),
        KeptPrompt("S\u00e9 " * 100, DOCUMENT, {"type": "object", "required": ["c1"]}),
        KeptPrompt("[", "#[\n<a>\n\n</a>\r\n\u2028", {}),
        KeptPrompt("Write.", f"Task:\n{fenced('draft', DOCUMENT)}\n\n<p>\n{DOCUMENT}"),
        KeptPrompt("Write.", f"{fenced('draft', MASK)}\n\n{fenced('review', MASK * SHORT)}"),
        KeptPrompt("Write.", f"{fenced('task', f'to {KNOWN[1]}, {KNOWN[0]}')} {KNOWN[0]}"),
        KeptPrompt("Write.", f"Do it. {fenced('a', '')} {fenced('your last answer', KNOWN[1])}"),
    ],
)
@pytest.mark.parametrize("shared", [0, 5, 600])
@pytest.mark.parametrize("nonce", [NONCE, None])
def test_a_prompt_is_read_back_as_it_was_but_for_its_nonce(
    prompt: KeptPrompt, shared: int, nonce: str | None
) -> None:
    keeper = PromptKeeper(nonce, KNOWN)
    shared = 0 if nonce else shared  # a beginning that ends within tags has no other
    for step in ("one", "two"):
        kept = keeper.fields(step, prompt, shared, shared * 2)
        assert read(kept, step, KNOWN) == (masked(prompt) if nonce else prompt)


def test_what_prompts_share_is_stored_once() -> None:
    beginning, words = f"{fenced('document', DOCUMENT)}\n\n", "Judge it. " * SHORT
    prompt = KeptPrompt("Judge." * SHORT, f"{beginning}{words}", {"type": "object"})
    ends = len(beginning), len(beginning) + len(words)
    keeper = PromptKeeper(NONCE)
    first = keeper.fields("one", prompt, *ends)
    assert len(first) == 5  # system message, schema, beginning and words, beside the list
    assert keeper.fields("two", prompt, *ends).keys() == {"two", *first} - {"one"}  # not written
    keeper.kept(first)
    second = keeper.fields("two", prompt, *ends)
    assert second.keys() == {"two"}
    assert read(first | second, "two") == masked(prompt)
    other = PromptKeeper(NONCE).fields("one", prompt, *ends)
    assert other == first


def test_what_stands_in_the_request_is_not_stored_again() -> None:
    request = RefinementRequest.model_validate(
        {"task": "Short.", "context": [{"name": "a", "text": DOCUMENT}]}
    )
    known = known_texts(request)
    beginning = f"{fenced('document', f'a {DOCUMENT}')}\n\n"
    prompt = KeptPrompt("Judge.", beginning + fenced("draft", DOCUMENT))
    kept = PromptKeeper(NONCE, known).fields("one", prompt, *[len(beginning)] * 2)
    assert not any(b"policy" in content for content in kept.values())
    assert read(kept, "one", known) == masked(prompt)


def test_a_text_in_the_list_of_another_step_is_not_stored_again() -> None:
    keeper, first = PromptKeeper(NONCE), KeptPrompt("Judge.", fenced("draft", DOCUMENT))
    second = KeptPrompt("Judge.", f"{fenced('review', 'No.')}\n\n{fenced('text A', DOCUMENT)}")
    kept = keeper.fields("one", first)
    keeper.kept(kept)
    added = keeper.fields("two", second)
    assert b"policy" not in added["two"]
    assert read(kept | added, "two") == masked(second)


def test_nothing_refers_to_what_was_not_written() -> None:
    keeper, prompt = PromptKeeper(NONCE), KeptPrompt("Judge.", fenced("draft", DOCUMENT))
    keeper.fields("one", prompt)
    keeper.replied("one", DOCUMENT)
    assert read(keeper.fields("two", prompt), "two") == masked(prompt)


def test_the_draft_of_a_recorded_reply_is_not_stored_again() -> None:
    keeper, reply = PromptKeeper(NONCE), f"```\n{DOCUMENT}\n```"
    kept = keeper.fields("one", KeptPrompt("Write.", "A task."))
    keeper.replied("one", reply)
    keeper.kept(kept)
    prompt = KeptPrompt("Judge.", fenced("draft", DOCUMENT.strip("\n")))
    kept |= keeper.fields("two", prompt)
    assert b"policy" not in kept["two"]
    assert read(kept, "two", replies={"one": reply, "two": "{}"}) == masked(prompt)


def test_a_step_that_a_retry_voids_has_a_name_of_its_own() -> None:
    assert len({step_name("iterations/1/critique", voided) for voided in range(3)}) == 3
