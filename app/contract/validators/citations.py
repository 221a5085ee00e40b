"""The validator of citations of the documents of a request."""

from typing import Literal

from pydantic import Field

from app.contract.validators import Validator


class CitationsValidator(Validator):
    """Every citation names a document of `context`, and every quotation occurs in its document.

    A citation is a name in square brackets, such as `[policy.md]` or `[policy.md, section 2]`;
    links, footnotes, check boxes and brackets in quotations or code are not. A quotation is text in
    double quotation marks. It belongs to the citations directly after it, else to all in its
    paragraph, and must occur in one of them word for word; case and punctuation do not count, and
    `...` or `[...]` stands for omitted words.
    """

    reads_documents = True

    def in_words(self) -> str:
        must = "cites at least one document" if self.required else "may cite documents"
        return (
            f"{must}, by name in square brackets, such as [policy.md]; a quotation of"
            f" {self.min_quote_words} words or more in double quotation marks is copied word for"
            " word from the document that is cited after it"
        )

    kind: Literal["citations"]
    min_quote_words: int = Field(
        4, ge=1, le=1_000, description="Quotations with fewer words are not checked."
    )
    required: bool = Field(False, description="The draft must cite at least one document.")
