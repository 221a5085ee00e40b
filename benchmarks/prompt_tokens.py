"""Counts the input tokens of one refinement.

A text of 300 words with 3 criteria and 1 document is judged, revised, judged, revised and judged.

    .venv/bin/pip install bpe-openai
    .venv/bin/python -m benchmarks.prompt_tokens
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from app.contract.requests import RefinementRequest
from benchmarks.playing import StrategyPlayer
from workers.models.port import ModelCall
from workers.models.scripted import Scripted

ENCODING = "o200k_base"
SETUP = "pip install bpe-openai, which brings OpenAI's encodings without a download"

TASK = """Answer a customer who asks how to return a blender that she bought online three weeks ago.
She has used it twice, and threw away the box. Write an e-mail of some 300 words."""

POLICY = """Returns. Goods bought online may be returned within 30 days of delivery. They need not
be
in their original packaging, but must be packed so that they arrive undamaged. Goods that
were used more than is needed to test them are refunded less their loss in value; for
kitchen appliances that is 15 % of the price after up to five uses, and 40 % after more.
Food residue must be removed. Refunds are paid to the means of payment that was used,
within 14 days of the arrival of the goods. Delivery costs are refunded at the rate of the
cheapest delivery that we offer. The customer pays for the return unless the goods are
faulty; our label costs 4.90 euros and is deducted from the refund. Without our label, the
customer chooses the carrier and bears the risk until the parcel arrives. Returns are
registered in the account under Orders, or by e-mail to returns@example.com with the
number of the order. A parcel that is not registered is sent back."""

SENTENCES = """Dear Ms Berger,
Thank you for reaching out to us with regard to the return of the blender that you purchased in
our online shop. We are sorry to hear that you are not happy with it. In principle it is
possible to return goods that were bought online for a period of 30 days, and as you received
your blender three weeks ago, you are still within this period of time at the present moment.
The fact that you threw away the box is not a problem. However, it should be made sure that
the device is packed in such a manner that it will not be damaged on its way to us. Please also
clean it before you send it, as food residue is something that cannot be accepted by our
colleagues in the warehouse. Due to the fact that the blender has been used two times already,
a deduction for the loss in value will have to be made by us. The deduction amounts to 10 % of
the purchase price. In order to register the return, you can go to your account, where you will
find it under Orders, or alternatively you can simply send us an e-mail. It is important that
the return is registered before it is sent, since otherwise the parcel cannot be assigned to
you. A label for the return can be obtained from us if you wish; the costs of it amount to 4.90
euros and they are going to be deducted from the refund. You are also free to use a carrier of
your own choice. As soon as the blender has arrived at our warehouse and has been checked by
us, the amount will be refunded to you, which normally does not take longer than 14 days. We
are always happy to help you.
Kind regards,
Your customer service"""

FLAWS = (
    ("accuracy", "The deduction is 15 % after up to five uses, not 10 %.", "Write 15 %.",
     "The deduction amounts to 10 %"),
    ("completeness", "It does not say who bears the risk with another carrier.",
     "Add that she bears the risk until the parcel arrives.",
     "You are also free to use a carrier of your own"),
    ("tone", "It is wordy and officialese.",
     "Cut phrases such as 'in order to' and 'due to the fact'.",
     "Due to the fact that the blender has been used two times already"),
)  # fmt: skip

REQUEST = RefinementRequest.model_validate(
    {
        "task": TASK,
        "draft": SENTENCES,
        "context": [{"name": "policy.md", "text": POLICY}],
        "criteria": [
            {"name": "accuracy", "description": "States only what policy.md says, and all figures"
             " as they stand there."},
            {"name": "completeness", "description": "Says everything that she must know and do to"
             " get her money back."},
            {"name": "tone", "description": "Warm, plain and short: no officialese, no jargon."},
        ],
        "max_iterations": 2,
        "threshold": 1,
    }
)  # fmt: skip


def answered(call: ModelCall) -> str:
    """Write the next draft, or judge one: as real critics do, which say a flaw several times."""
    if call.prompt.name == "revise":
        number = 3 if "(revision 2)" in call.prompt.user else 2
        words = SENTENCES.split(" ")
        moved = words[number * 20 :] + words[: number * 20]
        return f"(revision {number}) {' '.join(moved)}"
    scores = [
        {"criterion": kind, "evidence": [quote], "reason": message, "score": 0.5}
        for kind, message, _, quote in FLAWS
    ]
    findings = [
        {"kind": kind, "message": message, "fix": fix, "quote": quote}
        for kind, message, fix, quote in FLAWS
    ]
    verdict = {
        "scores": scores,
        "strengths": ["It names the period and the label's price.", "It is polite."],
        "weaknesses": [FLAWS[0][1], FLAWS[2][1]],
        "suggestions": [it[2] for it in FLAWS],
        "findings": findings,
    }
    return json.dumps(verdict)


async def asked() -> list[dict[str, str]]:
    """Return every prompt of the refinement, in order."""
    model = Scripted(answered)
    await StrategyPlayer(REQUEST, model).play()
    prompts = [it.prompt for it in model.calls]
    return [{"name": it.name, "system": it.system, "user": it.user} for it in prompts]


def counter() -> Callable[[str], int]:
    """Return a function that counts the tokens of a text, else raise ImportError."""
    encoding = import_module("bpe_openai").get_encoding(ENCODING)
    return lambda text: len(encoding.encode(text))


def table(prompts: Sequence[dict[str, str]]) -> str:
    """Return the tokens of each call as a table."""
    count = counter()
    rows = [(it["name"], count(it["system"] + it["user"])) for it in prompts]
    rows.append(("all", sum(tokens for _, tokens in rows)))
    return "\n".join(["| call | tokens |", "|---|--:|", *(f"| {n} | {t:,} |" for n, t in rows)])


def main() -> int:
    """Print the table; return 1 where the tokenizer is missing."""
    now = asyncio.run(asked())
    try:
        print(table(now))
    except ImportError:
        print(f"no tokenizer: {SETUP}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
