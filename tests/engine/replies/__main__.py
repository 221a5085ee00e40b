"""`python -m tests.engine.replies`: what comes of every reply of the corpus, as a table."""

import sys

from tests.engine.replies.case import is_as_expected, outcome_of
from tests.engine.replies.table import CASES, table

print(table(CASES))
wrong = [it for it in CASES if not is_as_expected(it, outcome_of(it))]
for case in wrong:
    print(f"wrong: {case.family}, {case.name}: {outcome_of(case)!r}, expected {case.expected!r}")
sys.exit(bool(wrong))
