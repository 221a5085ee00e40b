"""The validator of what a draft owes to the documents of its request."""

from typing import Literal

from pydantic import Field

from app.contract.validators import Validator


class CitationsValidator(Validator):
    """Every citation names a document of `context`, and what is quoted from one is really in it.

    A citation is a name in square brackets, such as `[policy.md]` or `[policy.md, section 2]`;
    links, footnotes, check boxes and brackets in quotations or code are none. A quotation stands in
    double quotation marks. It is attributed to the citations right behind it, else to all in its
    paragraph, and must be in one of them word for word; case and punctuation do not count, and
    `...` or `[...]` stands for words left out.
    """

    reads_documents = True

    kind: Literal["citations"]
    min_quote_words: int = Field(
        4, ge=1, le=1_000, description="Quotations with fewer words are not looked up."
    )
    required: bool = Field(False, description="The draft must cite at least one document.")
