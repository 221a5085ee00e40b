"""Markdown with the headings it must have, and nothing broken."""

import pytest

from app.contract.validators.formats import MarkdownValidator
from tests.validators import violations
from workers.validators.running import compile_validators
from workers.validators.violation import MAX_VIOLATIONS, Violation

WHOLE = """Intro with a [link](https://example.com) and `[]()` as code.

# Title

## Usage

```python
# not a heading
| not | a table
```

> ~~~
> quoted
> ~~~

| a | b \\| c |
| - | :-: |
| 1 | 2 |

## **Notes**

- a list

  ```
  in a list
  ```

![](decoration.png) a | b is no table
### Details
"""


def found(draft: str, *headings: str) -> list[Violation]:
    return violations(MarkdownValidator(kind="markdown", headings=headings), draft)


def test_a_whole_page_passes() -> None:
    assert found(WHOLE, "Title", "## usage", "Notes", "### Details") == []


def test_a_line_of_a_drawing_is_no_row_of_dashes() -> None:
    assert found("root\n|\n+-- child\n|\n+-- child\n") == []


@pytest.mark.parametrize(
    "heading",
    ["# 1. Use **it**", "# 1. [Use](https://e.com) it", "# 1. Use `it`", "# 1\\. Use it"],
)
def test_a_heading_is_what_is_shown_of_it(heading: str) -> None:
    assert found(f"{heading}\n\nText.", "1. Use it") == []


def test_names_every_heading_that_is_missing() -> None:
    hits = found(WHOLE, "Usage", "not a heading", "# Usage", "Licence")
    assert [hit.message for hit in hits] == [
        "the heading 'not a heading' is missing",
        "the heading '# Usage' is missing at level 1",
        "the heading 'Licence' is missing",
    ]
    assert hits[2].fix.endswith("Licence")


@pytest.mark.parametrize(
    ("draft", "said", "quote"),
    [
        ("a\n\n```py\nx = 1\n", "never closed at line 3, column 1", "```py"),
        ("````\n```\n", "never closed at line 1", "````"),
        ("> ```\n> x\n\nafter", "never closed at line 1", "> ```"),
        ("text\n\n```", "never closed at line 3", "```"),
        ("# A\r\n\r\n### B\r\n", "jumps from 1 to 3 at line 3", "### B"),
        ("Title\n===\n\n#### B", "jumps from 1 to 4", "#### B"),
        ("| a | b |\n|---|---|\n| 1 |\n", "1 cell under a header of 2 at line 3", "| 1 |"),
        ("a | b\n-|-\n1 | 2 | 3", "3 cells under a header of 2", "1 | 2 | 3"),
        ("> | a | b |\n> |--|--|\n> | 1 |", "1 cell under", "> | 1 |"),
        ("| a | b |\n|---|\n| 1 | 2 |", "delimiter row has 1 cell under a header of 2", "|---|"),
        ("| a | b |\n| 1 | 2 |", "no delimiter row", "| a | b |"),
        ("|---|---|\n| 1 | 2 |", "no header", "|---|---|"),
        ("see [this]() now", "no destination", "[this]()"),
        ("see [this](#) now", "no destination", "[this](#)"),
        ("see [](https://example.com)", "no text", "[](https://example.com)"),
        ("![chart]()", "no destination", "![chart]()"),
        ('- [x](<> "title")', "no destination", '[x](<> "title")'),
    ],
)
def test_points_at_what_is_broken(draft: str, said: str, quote: str) -> None:
    (hit,) = found(draft)
    assert said in hit.message
    assert hit.quote == quote
    assert hit.fix


def test_reports_only_the_first_flaws() -> None:
    assert len(found("[x]() " * 100)) == MAX_VIOLATIONS


@pytest.mark.parametrize(
    "draft", ["[" * 200_000, "> " * 50_000, "*a_ [x](" * 25_000, "|a|\n|-|\n" + "|1|\n" * 20_000]
)
async def test_hostile_markdown_comes_to_an_end(draft: str) -> None:
    assert len(await compile_validators([MarkdownValidator(kind="markdown")]).run(draft)) <= 1
