"""The table of docs/openai.md: what a conversation in OpenAI's form becomes."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.errors import InvalidRequest
from app.openai.conversation import (
    FOR_THE_CRITIC,
    Asked,
    ModelNotFound,
    chat_asked,
    response_asked,
)

Json = dict[str, Any]
SCHEMA: Json = {"type": "object", "properties": {"total": {"type": "integer"}}}
IMAGE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}


def said(role: str, content: Any, **more: Any) -> Json:
    return {"role": role, "content": content, **more}


def chat(*messages: Json, **more: Any) -> Asked:
    return chat_asked({"model": "hone", "messages": [*messages], **more})


def fields(asked: Asked, preset: Json | None = None) -> Json:
    found = asked.over(preset or {}, "openai:gpt-5")
    return {name: value for name, value in found.items() if value}


def styled(text: str) -> Json:
    return {"generator": text, "critic": f"{FOR_THE_CRITIC}{text}"}


def earlier(text: str) -> Json:
    return {"context": [{"name": "conversation", "text": text}], "grounding": "open"}


ASK, TOLD, MAIL = said("user", "Be kind."), said("system", "Sign as Ann."), "Pay now."
CONVERSATIONS: list[tuple[list[Json], Json]] = [
    ([ASK], {"task": "Be kind."}),
    ([TOLD, ASK], {"task": "Be kind.", "instructions": styled("Sign as Ann.")}),
    ([said("developer", "A."), said("system", " "), ASK],
     {"task": "Be kind.", "instructions": styled("A.")}),
    ([said("system", ""), ASK], {"task": "Be kind."}),
    ([said("system", "x" * 4_000), ASK], {"task": f"{'x' * 4_000}\n\nBe kind."}),
    ([said("user", "Write."), said("assistant", MAIL), ASK],
     {"task": "Be kind.", **earlier("user: Write.\n\nassistant: Pay now.")}),
    ([said("assistant", MAIL, name="draft"), ASK], {"task": "Be kind.", "draft": MAIL}),
    ([said("user", "Old."), said("assistant", MAIL, name="draft"), ASK],
     {"task": "Be kind.", "draft": MAIL, **earlier("user: Old.")}),
    ([ASK, said("assistant", MAIL)], {"task": "Be kind.", "draft": MAIL}),
    ([said("assistant", MAIL)], {"draft": MAIL}),
    ([said("user", f"Be kind.\n<draft>\n{MAIL}\n</draft>")], {"task": "Be kind.", "draft": MAIL}),
    ([said("user", f"<draft>{MAIL}</draft>")], {"draft": MAIL}),
    ([said("user", "What is </draft> <draft>?")], {"task": "What is </draft> <draft>?"}),
    ([said("user", [{"type": "text", "text": "Be"}, {"type": "text", "text": "kind."}])],
     {"task": "Be\nkind."}),
    ([ASK, said("assistant", None)], {"task": "Be kind."}),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "expected"), CONVERSATIONS)
def test_a_conversation_becomes_task_draft_instructions_and_context(
    messages: list[Json], expected: Json
) -> None:
    assert fields(chat(*messages)) == expected


PARAMETERS: list[tuple[Json, Json]] = [
    ({"response_format": {"type": "text"}}, {}),
    ({"response_format": {"type": "json_object"}}, {"validators": [{"kind": "json"}]}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        {"validators": [{"kind": "json_schema", "schema": SCHEMA}]},
    ),
    ({"max_tokens": 100}, {"validators": [{"kind": "length", "max_characters": 400}]}),
    ({"temperature": 1, "n": 1, "tools": [], "stop": None, "user": "ann", "logprobs": False}, {}),
    (
        {"temperature": 0, "reasoning_effort": "low"},
        {"models": {"generator": {"model": "openai:gpt-5", "temperature": 0,
                                  "reasoning_effort": "low"}}},
    ),
    ({"metadata": {"ticket": "1"}, "store": True}, {"metadata": {"ticket": "1"}}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), PARAMETERS)
def test_a_parameter_becomes_fields_or_nothing(given: Json, expected: Json) -> None:
    assert fields(chat(ASK, **given)) == {"task": "Be kind."} | expected


def test_what_preset_and_conversation_both_have_adds_up() -> None:
    preset: Json = {
        "task": "Answer.",
        "instructions": {"generator": "British spelling."},
        "context": [{"name": "policy", "text": "14 days."}],
        "validators": [{"kind": "markdown"}],
        "metadata": {"must_pass": "true"},
        "models": {"critic": "openai:gpt-5", "generator": {"model": "x:y", "fallbacks": ["x:z"]}},
    }
    asked = chat(TOLD, said("user", "Old."), ASK, max_tokens=1, temperature=0)
    assert fields(asked, preset) == {
        "task": "Answer.\n\nBe kind.",
        "instructions": {
            "generator": "British spelling.\n\nSign as Ann.",
            "critic": f"{FOR_THE_CRITIC}Sign as Ann.",
        },
        "context": [
            {"name": "policy", "text": "14 days."},
            {"name": "conversation", "text": "user: Old."},
        ],
        "validators": [{"kind": "markdown"}, {"kind": "length", "max_characters": 4}],
        "metadata": {"must_pass": "true"},
        "models": {
            "critic": "openai:gpt-5",
            "generator": {"model": "x:y", "fallbacks": ["x:z"], "temperature": 0},
        },
    }


def test_settings_are_those_of_every_generator_of_a_cascade() -> None:
    preset = {"models": {"generator": ["x:y", {"model": "x:z", "temperature": 1}]}}
    found = fields(chat(ASK, temperature=0), preset)["models"]["generator"]
    assert found == [{"model": "x:y", "temperature": 0}, {"model": "x:z", "temperature": 0}]


def test_a_setting_beside_candidates_of_the_preset_is_refused_by_its_own_name() -> None:
    preset = {"models": {"select": "gain", "candidates": ["x:y", "x:z"]}}
    with pytest.raises(InvalidRequest) as refused:
        fields(chat(ASK, reasoning_effort="low"), preset)
    assert refused.value.errors[0].pointer == "/reasoning_effort"


def test_a_response_is_asked_for_in_its_own_words() -> None:
    body = {
        "model": "hone:mail",
        "instructions": "Sign as Ann.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Be kind."}]}],
        "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}},
        "reasoning": {"effort": "low"},
        "max_output_tokens": 2,
    }
    asked = response_asked(body)
    assert (asked.model, asked.preset, asked.is_json) == ("hone:mail", "mail", True)
    found = fields(asked)
    assert found["task"] == "Be kind."
    assert found["instructions"] == styled("Sign as Ann.")
    assert [validator["kind"] for validator in found["validators"]] == ["json_schema", "length"]
    assert fields(response_asked({"model": "hone", "input": "Be kind."})) == {"task": "Be kind."}


WRONG: list[tuple[Json, str]] = [
    ({"model": None}, "/model"),
    ({"messages": []}, "/messages"),
    ({"messages": [said("user", " ")]}, "/messages"),
    ({"messages": [said("user", [IMAGE])]}, "/messages/0/content/0"),
    ({"messages": [said("tool", "42")]}, "/messages/0"),
    ({"messages": [ASK, said("assistant", None, tool_calls=[{"id": "1"}])]}, "/messages/1"),
    ({"n": 2}, "/n"),
    ({"tools": [{"type": "function"}]}, "/tools"),
    ({"top_k": 4}, "/top_k"),
    ({"max_tokens": 0}, "/max_tokens"),
    ({"response_format": {"type": "grammar"}}, "/response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "/response_format"),
    ({"stream": "yes"}, "/stream"),
    ({"hone": {"preset": "mail"}}, "/hone/preset"),
    ({"metadata": []}, "/metadata"),
]


@pytest.mark.parametrize(("given", "pointer"), WRONG)
def test_what_has_no_meaning_is_refused_where_it_stands(given: Json, pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat_asked({"model": "hone", "messages": [ASK], **given})
    assert refused.value.errors[0].pointer == pointer


@pytest.mark.parametrize("model", ["gpt-5", "hone:", "hone:Mail", "hone/mail", "", 4])
def test_a_model_is_hone_or_a_preset(model: Any) -> None:
    with pytest.raises(ModelNotFound):
        chat_asked({"model": model, "messages": [ASK]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
PARTS = st.fixed_dictionaries({}, optional={"type": st.just("text") | JSON, "text": JSON})
SAID = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool"]) | JSON},
    optional={"content": JSON | st.lists(PARTS, max_size=2), "name": JSON, "tool_calls": JSON},
)
OPTIONAL = ("stream", "metadata", "hone", "tools", "n", "max_tokens", "temperature", "store")
FORMATS = st.fixed_dictionaries({"type": st.just("json_schema") | JSON}, optional={"schema": JSON})
BODIES = st.fixed_dictionaries(
    {"model": st.just("hone")},
    optional=dict.fromkeys((*OPTIONAL, "reasoning", "stream_options", "instructions"), JSON)
    | {"messages": st.lists(SAID, max_size=3) | JSON, "input": st.lists(SAID, max_size=3) | JSON}
    | {"response_format": FORMATS | JSON, "text": st.fixed_dictionaries({"format": FORMATS})},
)


@given(BODIES | JSON)
def test_any_body_is_read_or_refused(body: Any) -> None:
    for read in (chat_asked, response_asked):
        with suppress(InvalidRequest, ModelNotFound):
            read(body).over({}, "openai:gpt-5")
