"""How the keys of Hone are spelled in Redis, and how its commands go to a cluster.

All the rest of Hone spells them as in keys.py, and scripts as in lua/.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from urllib.parse import urlsplit

from redis.crc import key_slot

from app.store.redis.keys import PREFIX, Key
from app.store.redis.scripts import SCRIPTS

Word = str | bytes | int | float

OF_RQ = "rq:"
NAMING = (b'key":"', b'listed_in":"')
SHARDED = {"PUBLISH": "SPUBLISH", "SUBSCRIBE": "SSUBSCRIBE", "UNSUBSCRIBE": "SUNSUBSCRIBE"}
IN_SCRIPTS = {"'PUBLISH'": "'SPUBLISH'", "'NUMSUB'": "'SHARDNUMSUB'"}


class KeyedJson(bytes):
    """JSON in which members `key` and `listed_in` name keys."""


class Layout:
    """Spells keys: without a tag as they are, with one so that all are in one slot of a cluster.

    `hone:1:due` and `rq:queues` become `hone:{TAG}:due` and `rq:{TAG}:queues`.
    """

    def __init__(self, tag: str = "") -> None:
        self._spelled = {PREFIX: f"hone:{{{tag}}}:", OF_RQ: f"rq:{{{tag}}}:"} if tag else {}
        self._scripts = dict(self._spelled_scripts()) if tag else {}

    @property
    def prefix(self) -> str:
        """The beginning of every key of Hone; no key has this name."""
        return self._spelled.get(PREFIX, PREFIX)

    @property
    def slot(self) -> int:
        """The slot of a cluster that has all keys."""
        return key_slot(self.prefix.encode())

    def name(self, name: str) -> str:
        """Return how a key of Hone or RQ is spelled."""
        for start, spelled in self._spelled.items():
            if name.startswith(start):
                return spelled + name.removeprefix(start)
        return name

    def of_rq(self, words: Sequence[Word]) -> Sequence[Word]:
        """Return a command that RQ has recorded, or keys of RQ, with its keys spelled.

        RQ has some of them in private names only.
        """
        if not self._spelled:
            return words
        return [self._key_of_rq(word) for word in words]

    def json_of_rq(self, commands: str) -> str:
        """Return such commands, JSON."""
        return commands.replace(f'"{OF_RQ}', f'"{self.name(OF_RQ)}')

    def _key_of_rq(self, word: Word) -> Word:
        if isinstance(word, bytes) and word.startswith(OF_RQ.encode()):
            return self.name(OF_RQ).encode() + word.removeprefix(OF_RQ.encode())
        return self.name(word) if isinstance(word, str) else word

    def command(self, words: Sequence[Word]) -> Sequence[Word]:
        """Return a command as it goes to a cluster: sharded messages, and the slot of a script.

        A node that does not have the slot refuses the whole script because of its only key.
        """
        first, *others = words
        arguments = map(self._word, others)
        if first in {"EVALSHA", "EVAL"} and others[1] == 0:
            script = self._scripts.get(str(others[0]), others[0])
            return (first, script, 1, self.prefix, *list(arguments)[2:])
        return (SHARDED.get(str(first), first), *arguments)

    def _word(self, word: Word) -> Word:
        if isinstance(word, Key):
            return self.name(word)
        if isinstance(word, KeyedJson):
            start, spelled = PREFIX.encode(), self.prefix.encode()
            for member in NAMING:
                word = word.replace(member + start, member + spelled)
        return word

    def _spelled_scripts(self) -> Iterator[tuple[str, str]]:
        """Yield the SHA-1 and the text of each script, each with the one to send instead."""
        for script in SCRIPTS.values():
            text = script.text.replace(PREFIX, self.prefix)
            for plain, sharded in IN_SCRIPTS.items():
                text = text.replace(plain, sharded)
            yield script.text, text
            yield script.sha, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


PLAIN = Layout()
OF_CLUSTER = "+cluster:"


@cache
def _of_cell(number: int) -> Layout:
    return Layout(f"c{number:02}")


def layout_of(url: str) -> Layout:
    """Return how keys are spelled in the Redis of a URL.

    The path of a cluster is the number of a cell. Raises ValueError if it is none.
    """
    if OF_CLUSTER not in url:
        return PLAIN
    return _of_cell(int(urlsplit(url).path.strip("/") or 0) if "://" in url else 0)
