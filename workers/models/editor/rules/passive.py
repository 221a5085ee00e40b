"""The passive voice, and the plainest sentences in it turned round."""

import re
from collections.abc import Iterator

from workers.models.editor.document import Document, Sentence, Word
from workers.models.editor.edits import Edit, checked
from workers.models.editor.issues import Issue, Kind
from workers.models.editor.phrases import BE
from workers.models.editor.tables import (
    Verb,
    alternatives,
    listed,
    participles,
    verbs_by_participle,
)

LONGEST = 40
"""Words of the longest sentence that is turned round."""

_OBJECT_OF = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
_SUBJECT_OF = {"me": "I", "him": "he", "us": "we", "them": "they", "you": "you"}
_NOUN = rf"(?:(?!(?:{alternatives('ends a noun phrase')})\b)[a-z]+(?:-[a-z]+)*)"
_NP = rf"(?:{alternatives('determiners')})(?:\s+{_NOUN}){{1,3}}"
_MODAL = "will|must|can|should|may|could|would|might"
_ACTIVE = re.compile(
    rf"(?P<object>(?:{_NP})|it|they|you|he|she|we)\s+"
    rf"(?P<aux>was|were|is|are|(?:{_MODAL})\s+be|(?:has|have|had)\s+been)\s+"
    rf"(?P<participle>[a-z]+)\s+by\s+(?P<agent>(?:{_NP})|me|him|us|them|you)"
    r"(?P<tail>\s+(?:on|in|at|before|after|within|during|until|every|each|last|next|yesterday|today"
    r"|tomorrow)\b[^,;:()]*)?(?P<stop>[.!])",
    re.IGNORECASE,
)


def passives(document: Document) -> Iterator[Issue]:
    """Report each sentence with a passive; one of subject, verb and agent alone has an edit."""
    for sentence in document.sentences:
        found = _passive(sentence.words)
        if found is None:
            continue
        first, last = found
        edit = _turned(document, sentence)
        quote = document.text[first.start : last.end]
        yield Issue(
            Kind.VOICE,
            first.start,
            last.end,
            f'"{" ".join(quote.split())}" is passive.',
            f'Write "{edit.new}"' if edit else "Say who does it.",
            edit,
        )


def _passive(words: tuple[Word, ...]) -> tuple[Word, Word] | None:
    """Return the first form of "be" with its participle, at most two adverbs between them."""
    for at, word in enumerate(words):
        if word.lower not in BE or not word.is_free:
            continue
        for following in words[at + 1 : at + 4]:
            if _is_participle(following.lower):
                return word, following
            if following.lower not in listed("between") and not following.lower.endswith("ly"):
                break
    return None


def _is_participle(word: str) -> bool:
    if word in listed("adjectives"):
        return False
    return (
        word.endswith("ed") and len(word) > 4 and not word.endswith("eed")
    ) or word in participles()


def _turned(document: Document, sentence: Sentence) -> Edit | None:
    """Return the edit that lets the agent act, if the whole sentence can be turned safely."""
    start = sentence.words[0].start
    if len(sentence.words) > LONGEST:
        return None
    match = _ACTIVE.fullmatch(document.masked[start : sentence.end].rstrip())
    if match is None or match["agent"].lower().split()[-1] in listed("no agents"):
        return None
    verb = verbs_by_participle().get(match["participle"].lower())
    if verb is None or sentence.words[0].text in document.names:
        return None
    agent = _SUBJECT_OF.get(match["agent"].lower(), match["agent"])
    object_ = match["object"][0].lower() + match["object"][1:]
    new = f"{agent} {_active(verb, match['aux'].lower(), agent)} {_OBJECT_OF.get(object_, object_)}"
    new = new[0].upper() + new[1:] + (match["tail"] or "") + match["stop"]
    return checked(document, Edit(start, start + match.end(), " ".join(new.split())))


def _active(verb: Verb, aux: str, agent: str) -> str:
    """Return the verb in the tense of the passive, in agreement with its new subject."""
    first, *rest = aux.split()
    is_plural = _is_plural(agent)
    if first in {"was", "were"}:
        return verb.past
    if first in {"is", "are"}:
        return verb.base if is_plural else verb.third
    if rest == ["been"]:
        return f"{'had' if first == 'had' else 'have' if is_plural else 'has'} {verb.participle}"
    return f"{first} {verb.base}"


def _is_plural(agent: str) -> bool:
    words = agent.lower().split()
    if words[0] in {"i", "we", "they", "you", "these", "those", "all"}:
        return True
    if words[0] in {"each", "every", "this", "that", "a", "an"} or agent in {"he", "she", "it"}:
        return False
    last = words[-1]
    return last in listed("plural") or (
        last.endswith("s") and not last.endswith(("ss", "us", "is"))
    )
