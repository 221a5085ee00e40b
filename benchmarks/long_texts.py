"""python -m benchmarks.long_texts [FILE ...]: how loops on short and on long texts end.

The texts are the beginnings of Python's own help, or of the given files. `max_iterations` is 9,
the threshold 0.94, and every other setting has its default.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import cycle, islice, pairwise, repeat
from pathlib import Path
from pydoc_data.topics import topics
from time import process_time
from typing import Any

from app.contract.requests import RefinementRequest
from workers.engine.moves import Ask, Heard, Judged
from workers.engine.pipeline import strategy_for
from workers.engine.prompts import Judge
from workers.engine.replies.likeness import WORDS, likeness

LENGTHS = (3, 200, 902, 1_933, 5_000, 20_000)
"""Words; 902 and 1,933 are texts whose loops once ended as `stable` while they got better."""
FAULTS = 8
SAME = (0.5,) * (FAULTS + 1)
HEAD = ("gets better", "same text again", "two texts in turn", "no better", "`patience: 2`")


def row(text: str, words: int) -> list[str]:
    """Return how loops on the first words of a text end, and after how many drafts.

    The score of the first one rises by 0.15 with each draft; those of the others stay the same.
    """
    drafts = list(_corrected(text, words))
    return [
        _ended(iter(drafts), (0.4 + 0.15 * number for number in range(5))),
        _ended(repeat(drafts[0])),
        _ended(cycle(drafts[:2])),
        _ended(iter(drafts)),
        _ended(iter(drafts), patience=2),
    ]


def _corrected(text: str, words: int) -> Iterator[str]:
    """Yield the first words with faults, and then with one fault less each time."""
    found = list(islice(WORDS.finditer(text), words))
    if len(found) < words:
        raise SystemExit(f"the text has {len(found)} words, not {words}")
    pieces = [text[one.start() : two.start()] for one, two in pairwise(found)]
    pieces.append(f"{found[-1].group()}.")
    places = [number * words // FAULTS for number in range(FAULTS)]
    for place in places:
        pieces[place] = "x" + pieces[place]
    yield "".join(pieces)
    for place in places:
        pieces[place] = pieces[place][1:]
        yield "".join(pieces)


def _ended(drafts: Iterator[str], scores: Iterable[float] = SAME, **stop: int) -> str:
    request = RefinementRequest.model_validate(
        {"task": "-", "threshold": 0.94, "max_iterations": FAULTS + 1, "stop": stop}
    )
    strategy, said, judged, last = strategy_for(request, "482913"), iter(scores), 0, ""
    reply: Any = None
    while True:
        try:
            move = strategy.send(reply)
        except StopIteration as done:
            return f"{done.value.reason}, {judged}"
        match move:
            case Ask(prompt_request=Judge()):
                score = {"criterion": "quality", "score": next(said)}
                reply = json.dumps({"scores": [score]})
            case Ask(path=path):  # what is asked again is answered again
                reply = last if "/again/" in path else next(drafts)
                last = reply
            case Judged():
                judged, reply = judged + 1, request.limits()
            case Heard():
                reply = None


def _milliseconds(text: str, words: int) -> float:
    """Return how long it takes to compare two texts whose first and last quarters differ."""
    first, *_, last = _corrected(text, words)
    begun = process_time()
    likeness(first, last)
    return 1000 * (process_time() - begun)


def main() -> None:
    """Print a table for each text; a cell that differs with CRLF has both."""
    files = {Path(name).stem: Path(name).read_text() for name in sys.argv[1:]}
    for name, text in (files or {"Python's help": "\n".join(topics.values())}).items():
        print(f"\n| {name}, words | {' | '.join(HEAD)} | ms to compare |")
        print("|--:" + "|---" * len(HEAD) + "|--:|")
        for words in LENGTHS:
            cells = zip(row(text, words), row(text.replace("\n", "\r\n"), words), strict=True)
            shown = [one if one == other else f"{one} / {other}" for one, other in cells]
            print(f"| {words:,} | {' | '.join(shown)} | {_milliseconds(text, words):.1f} |")


if __name__ == "__main__":
    main()
