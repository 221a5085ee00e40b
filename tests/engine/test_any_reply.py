"""Whatever a model replies and whatever the draft is, the reader returns a text or says why not."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from workers.engine.replies.texts import (
    NoText,
    TextRequest,
    begun_in,
    doubt_in,
    flaw_in_text,
    settled,
    text_of,
    unframed,
)

PIECES = (
    "",
    " ",
    "\n",
    "\n\n",
    "\t",
    "\ufeff",
    "\u200b",
    "\x00",
    "```",
    "```text\n",
    '"""',
    "> ",
    "---",
    "***",
    "# Refunds",
    "## ",
    "- ",
    "1. ",
    "Sure, here is the revised text:",
    "Revised draft:",
    "Assistant:",
    "Human:",
    "<think>",
    "</think>",
    "{",
    "}",
    '{"score": 1}',
    "Option 1:",
    "@@ -1 +1 @@",
    "+++ b",
    "...",
    "We refund within 14 days.",
    "Customers ask for it by mail.",
    "Wir erstatten binnen 14 Tagen.",
    "返金は十四日以内です。",
    "यह पाठ है।",
    ":",
    "。",
    "This version is shorter.",
    "<text-482913>",
    "</text-482913>",
    "Note: I kept it.",
)
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=9).map("".join)


@given(reply=TEXTS, base=st.none() | TEXTS, review=st.none() | TEXTS, is_marked=st.booleans())
def test_it_is_read_or_refused(
    reply: str, base: str | None, review: str | None, *, is_marked: bool
) -> None:
    asked = TextRequest(task="Explain refunds.", base=base, review=review, mark="482913")
    begun_in(reply, asked)
    with suppress(NoText):
        read = text_of(reply, asked)
        for text in (read, unframed(read, asked)):
            flaw_in_text(text, asked, is_marked=is_marked)
            doubt_in(text, asked, is_marked=is_marked)
            settled(text, asked, is_marked=is_marked)
