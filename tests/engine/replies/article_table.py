"""What comes of replies with a text, with marks and without them, as a table."""

from tests.engine.replies.articles import REPLIES, firsts, legitimate, others
from tests.engine.replies.collected import anew, first_drafts, public, texts

HEAD = (
    "replies",
    "read",
    "asked again",
    "wrong",
    "doubted",
    "then read",
    "then kept",
    "then wrong",
    "object read",
    "object kept",
    "object wrong",
)
OUTCOMES = ("right", "asked again", "wrong", "doubted")


KINDS = {
    "revisions": REPLIES,
    "revisions of other articles": tuple(others()),
    "from public reports": tuple(public()),
    "written anew": tuple(anew()),
    "first drafts": tuple(firsts()),
    "first drafts of long articles": tuple(first_drafts()),
    "first drafts, written later": tuple(first_drafts("later")),
    "first drafts as they stand": tuple(first_drafts("texts")),
    "texts as they stand": (*legitimate(), *texts()),
}


def article_table() -> str:
    """Return what comes of the replies, with marks and without them, as a table in Markdown.

    A doubted reply comes again: its text is read then, or the draft before it is kept. For the last
    columns its model gives the text in an object instead.
    """
    lines = [("replies", "marks", *HEAD), ("---", "---", *["---:"] * len(HEAD))]
    for name, replies in KINDS.items():
        for marks, them in (("yes", [it.with_marks() for it in replies]), ("no", replies)):
            found = [it.outcome() for it in them]
            then = [
                it.outcome(is_again=True)
                for it, was in zip(them, found, strict=True)
                if was == "doubted"
            ]
            kept = len(then) - then.count("right") - then.count("wrong")
            objects = [
                it.played(it.in_object)
                for it, was in zip(them, found, strict=True)
                if was == "doubted"
            ]
            counts = (len(found), *map(found.count, OUTCOMES))
            counts += (then.count("right"), kept, then.count("wrong"))
            counts += tuple(map(objects.count, ("right", "kept", "wrong")))
            lines.append((name, marks, *map(str, counts)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def wrong() -> list[str]:
    """Return the replies that are read wrongly, when they come or when they come again."""
    every = [it for replies in KINDS.values() for it in replies]
    forms = [(it, "without marks") for it in every] + [(it.with_marks(), "marks") for it in every]
    return [f"{it.family}, {it.name}, {form}" for it, form in forms if it.is_wrong]


def wrong_with_objects() -> list[str]:
    """Return the replies without marks that are read wrongly though an object follows if asked."""
    every = [it for replies in KINDS.values() for it in replies]
    return [f"{it.family}, {it.name}" for it in every if it.is_wrong_with_object]
