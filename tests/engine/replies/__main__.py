"""`python -m tests.engine.replies`: what comes of every reply of the corpus, as tables."""

import sys

from tests.engine.replies.article_table import article_table, wrong_with_objects
from tests.engine.replies.article_table import wrong as wrong_articles
from tests.engine.replies.case import is_as_expected, outcome_of
from tests.engine.replies.table import CASES, table

print(article_table(), table(CASES), sep="\n\n")
for name in wrong_articles():
    print(f"wrong: {name}")
for name in wrong_with_objects():
    print(f"wrong: {name}, without marks, then an object")
wrong = [it for it in CASES if not is_as_expected(it, outcome_of(it))]
for case in wrong:
    print(f"wrong: {case.family}, {case.name}: {outcome_of(case)!r}, expected {case.expected!r}")
sys.exit(bool(wrong))
