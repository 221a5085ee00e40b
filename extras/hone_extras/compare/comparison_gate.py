"""A gate for CI: this run against scores that were stored before, and reports that CI reads.

What `hone compare --json` printed is stored. Its scores stand as the setting `baseline` against
those of this run, on the texts that were judged alike.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from app.cli.root import parse_json
from app.contract.status import Status
from app.legible import legible, on_one_line
from hone_extras.compare.comparison import (
    NoScore,
    PairedDifference,
    TextOutcome,
    interval_text,
    texts_text,
)
from hone_extras.compare.comparison_page import (
    Rows,
    criteria_table,
    differences_table,
    pair_of,
    settings_table,
)
from hone_extras.compare.comparison_run import ComparisonInvalid, ComparisonStory

BASELINE = "baseline"
NOT_STORED = TextOutcome(
    has_text=False,
    has_ended=False,
    no_score=NoScore(
        "it is not in the baseline", "Store the baseline again.", blames_setting=False
    ),
)
_MARKUP = re.compile(r"([\\`*_\[\]<>|#])")


def stored_outcomes(path: Path, keys: Sequence[str]) -> list[TextOutcome]:
    """Return the stored outcome of each text, by the keys of the texts.

    Of several settings that is the recommended one. Raises ComparisonInvalid for another file, and
    if no text was judged alike.
    """
    try:
        stored = parse_json(path.read_text())
        names = [setting["name"] for setting in stored["settings"] if setting["name"] != BASELINE]
        name = names[0] if len(names) == 1 else stored["recommendation"]["choice"]
        found = {text["key"]: _stored(text["settings"][name]) for text in stored["texts"]}
    except OSError as error:
        raise ComparisonInvalid(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError) as error:
        detail = "is not what `hone compare --json` printed of one setting, or with a choice"
        raise ComparisonInvalid(f"{path} {detail}: {error!r}") from None
    if not found.keys() & {*keys}:
        raise ComparisonInvalid(f"{path} has none of these texts, judged alike: store it again")
    return [found.get(key, NOT_STORED) for key in keys]


def _stored(given: Mapping[str, Any]) -> TextOutcome:
    return TextOutcome(
        has_text=given["path"] is not None,
        has_ended=given["status"] is None or Status(given["status"]).is_terminal,
        judged=() if given["score"] is None else (given["score"],),
        no_score=NOT_STORED.no_score if given["score"] is None else None,
        criteria=given["criteria"],
        cost_usd=given["cost_usd"],
        seconds=given["seconds"],
        passed=given["passed"],
        ratings=given["ratings"],
    )


def failures(story: ComparisonStory, max_drop: float) -> list[PairedDifference]:
    """Return the differences from the baseline that are shown to be worse, by over `max_drop`."""
    return [
        difference
        for difference in story.result.differences
        if difference.against == BASELINE
        and difference.verdict == "worse"
        and difference.basis is not None
        and -difference.basis.mean > max_drop
    ]


def _told(difference: PairedDifference) -> str:
    found = difference.basis
    scored = "" if found is None else f" ({interval_text(found)}, {texts_text(found.count)})"
    return f"{difference.setting} against {difference.against}: {difference.verdict}{scored}"


def markdown_summary(story: ComparisonStory, failed: Sequence[PairedDifference]) -> str:
    """Return the findings in GitHub's Markdown, for the summary of a job."""
    result = story.result
    blocks = [
        f"## {'❌' if failed or story.gaps() else '✅'} hone compare: {_escaped(story.plan.name)}",
        *(f"**Too much worse: {_escaped(_told(difference))}**" for difference in failed),
        *map(_escaped, result.recommendation.sentences),
    ]
    tables = (settings_table(result.settings), differences_table(result.differences))
    blocks += [
        "\n".join(_table(rows))
        for rows in (*tables, criteria_table(result.differences))
        if len(rows) > 1
    ]
    blocks += [f"- {_escaped(line)}" for line in (*story.gaps(), *story.notes(), story.costs())]
    return "\n\n".join(blocks) + "\n"


def _table(rows: Rows) -> Iterator[str]:
    head, *body = ([*map(_escaped, row)] for row in rows)
    for cells in (head, ["---"] * len(head), *body):
        yield f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", on_one_line(text))


def junit_of(story: ComparisonStory, failed: Sequence[PairedDifference]) -> bytes:
    """Return the findings as JUnit XML: a case for each difference, and one for what is missing."""
    gaps = story.gaps()
    suite = ET.Element(
        "testsuite",
        name=f"hone compare {story.plan.name}",
        tests=str(len(story.result.differences) + 1),
        failures=str(len(failed)),
        errors="1" if gaps else "0",
    )
    for difference in story.result.differences:
        case = ET.SubElement(suite, "testcase", classname="hone.compare")
        case.set("name", pair_of(difference))
        if difference in failed:
            ET.SubElement(case, "failure", message=_told(difference))
        ET.SubElement(case, "system-out").text = _told(difference)
    case = ET.SubElement(suite, "testcase", classname="hone.compare")
    case.set("name", "every text has a result and a judgement")
    if gaps:
        error = ET.SubElement(case, "error", message=f"{len(gaps)} missing")
        error.text = legible("\n".join(gaps))
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))
