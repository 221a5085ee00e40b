"""Every Redis key and channel. All start with `hone:1:`, where 1 is the version of the format.

All of Hone spells them so, and scripts as well. On a cluster `{c00}` stands for the 1, in cell 7
`{c07}`; see `Layout`.

hone:1:format                   the release whose records these are; written at the first start
hone:1:cell                     which of several cells this one is
hone:1:cells                    hash: `coded_since`, from when on ids have the number of their cell;
                                number of a cell -> JSON of when submissions go there
hone:1:changes                  hash: tenant -> how often its presets, endpoints or keys of
                                providers have changed; of the cells from 1 on: as of their copies
hone:1:refinement:ID            hash: the summary of the journal; of an archived record a stub,
                                with `archived`, the name of its object, and `stub`, see archive.py
hone:1:journal:ID               stream: entry n has the id `n-0`; packed after the end, with what
                                the next two hold, see packing.py
hone:1:request:ID               hash: `request` and `models`, JSON; `secrets`, by JSON Pointer,
                                encrypted; `prompt_nonce`; `learnt`, what was known of its kind
                                when it was first claimed
hone:1:prompts:ID               hash: lists of what its prompts have, see prompts.py
hone:1:given:ID                 hash: `KIND COMMAND` -> digest, of every command that took effect
hone:1:erased:ID                for ten minutes after it was erased
hone:1:erasures                 hash: `count` of the deletions since the append-only file was last
                                rewritten after one; `since`, when the first of them was
hone:1:due                      sorted set: id -> when to check it (review, retention, handed back,
                                start_after; parked: when it has waited for the longest time)
hone:1:waiting                  sorted set: id -> when its RQ job may be considered lost, or its
                                place in the line below be looked up
hone:1:line:TENANT              sorted set: id -> its place among those of the tenant that wait to
                                be admitted to the RQ queue: time of creation, + 1e13 for `batch`
hone:1:turns                    sorted set: tenant -> its turn, of those with a line now or lately
hone:1:low_priority             number of ids in lines whose priority is `batch`
hone:1:slots                    hash: name of a worker -> its free slots
hone:1:to_pack                  sorted set: id -> when it ended, until its record is packed; later
                                while a worker packs it
hone:1:to_archive               sorted set: id -> when its packed record is due to go to the archive
hone:1:expiring                 sorted set: hour since 1970 in which stubs expire -> its end
hone:1:expiring:HOUR            list: ids of archived records, and of some that are gone
hone:1:to_erase                 sorted set: `TENANT ID` -> when its objects are to be deleted; with
                                ` again` once more, after whatever was being written
hone:1:archive                  hash: `installation`, the directory of this service in the archive;
                                `failing_since` and `error` while the archive cannot be used
hone:1:archive_swept            for a day after all records were looked through for the archive
hone:1:to_count                 sorted set: id -> when it ended, until its ending is in the sums
hone:1:deadlines                sorted set: id -> its absolute deadline
hone:1:parked                   set: models and endpoints for which refinements are parked
hone:1:parked:MODEL             sorted set: tenant -> its turn, of those with parked refinements
hone:1:parked_of:TENANT:MODEL   sorted set: id -> minus its recorded steps, + 1e6 per permit in vain
hone:1:aside                    set: ids of those parked before they began, which are queued
hone:1:outbox                   sorted set: `ID N` -> when the webhook about event N is to be sent
hone:1:deliveries:ID            hash: N -> `DeliveryState`, JSON; `taken N` -> who sends it now
hone:1:endpoints:TENANT         set: ids of the registered endpoints
hone:1:endpoints:TENANT:ID      hash: `secret`, the number of the one in force; `previous_until`;
                                `failures`, `failing_since`, `paused_at`,
                                `delivered_at`; `attempt`, `command`, `rotated`, the last of
                                each; `url`, if it is registered
hone:1:endpoints:TENANT:ID:probe  while a paused endpoint is not tried again
hone:1:batch:ID                 hash: a batch: its status, options and counts; `next`, the position
                                of the next request to begin; `positions`, that of the last one
hone:1:batch_items:ID           hash: position -> JSON: `line`, `custom_id`, and `id` or `error`;
                                a request is in `hone:1:request:` of its id, with a field
                                `staged` until it begins
hone:1:batch_live:ID            set: ids that have begun and were not counted as ended
hone:1:batches                  sorted set: id of a batch -> when to look at it
hone:1:overtaken                the highest `waiting` score that was ever claimed
hone:1:workers                  sorted set: name of a worker -> when its lease expires
hone:1:held:NAME                set: the ids that a worker holds
hone:1:news:NAME                sorted set: id -> number of the newest command that NAME must read
hone:1:up                       hash: `seen`, when a worker last reached Redis; `since`, start of
                                the current period in which workers reached Redis without a long gap
hone:1:playable                 sorted set: engine version -> until when a worker plays it
hone:1:unplayable               sorted set: engine version, or `later` -> until when it is named
hone:1:list:TENANT              sorted set, all scores 0: every id, in the order of creation
hone:1:list:TENANT:status:S     the same, one per status
hone:1:list:TENANT:meta:K=V     the same, one per pair of metadata
hone:1:list:TENANT:batch:ID     the same, one per batch
hone:1:list:TENANT:batches      the same: every batch
hone:1:signatures:TENANT        hash: id of an ended refinement -> signature of its texts, by which
                                it is found; see searching.py
hone:1:idempotency:TENANT:H     `BODY_SHA256 ID`, where H is the SHA-256 of the client's key
hone:1:prompt_nonce:TENANT:DAY:H  the nonce in that day's prompts that begin with the same long
                                texts, H; kept for 24 hours; DAY counts from 1970
hone:1:statistics               sorted set: `TENANT:DAY` with usage -> DAY, which counts from 1970
hone:1:statistics:OF:TENANT:DAY hash: sums over the refinements that ended on a day, packed; OF is
                                `usage` (`OUTCOME STRATEGY KEY MODEL`), `insights` (`BY VALUE`) or
                                `models` (`KIND SEAT MODEL`); see statistics.py
hone:1:learnt:TENANT            sorted set: the hashes below -> when they were last added to
hone:1:learnt:TENANT:KIND       hash: sums over the refinements of a kind, see statistics.py
hone:1:trust:TENANT             hash: sums `pairs C`, `ratings C` of critic C
hone:1:limit:MODEL@F            hash: rate and breaker of a model, and its calls under way; F: keyed
                                hash of key and URL
hone:1:limit:PROVIDER@F         hash: breaker of a provider, for its key and its credit
hone:1:limit:MODEL@F:workers    hash: worker -> its calls under way; `=` worker -> its last report's
                                number and answer
hone:1:limit:MODEL@F:expiries   sorted set: worker -> when its calls are forgotten, without a report
hone:1:limit:MODEL@F:apart      sorted set: worker of another cell -> until when its share is kept
hone:1:limit:endpoint:HOST/PATH#TENANT@F  the same of a validator's endpoint, for an hour
hone:1:limits                   sorted set: MODEL@F and PROVIDER@F -> when last used; no endpoints
hone:1:rejected:MODEL@F         set: parts of requests that the server rejects for a model, and the
                                most output tokens that it allows; for a day
hone:1:rejected:MODEL HASH@F    set: those that it rejects with one schema of a document
hone:1:access                   hash: `version` of the API keys; `closed` once there was one; random
                                `secret`, from which keys are derived without HONE_SECRET_KEY
hone:1:api_keys                 hash: id -> JSON of `KeyRecord`, see access.py
hone:1:tenants                  hash: tenant -> JSON of its `Quotas`
hone:1:provider_keys:TENANT     hash: provider -> JSON of when the tenant's own key for it was set,
                                and the key, encrypted
hone:1:presets:TENANT           hash: name of a preset -> JSON of its `request`, when it was
                                stored, and `secrets` in it by JSON Pointer, encrypted
hone:1:proposals:TENANT         set: ids of proposals to change a preset
hone:1:proposals:TENANT:ID      hash: name of a fact about a proposal -> JSON
hone:1:proposals:TENANT:tries:PRESET:H  set: ids of proposals that were tried against one setting,
                                removed ones too; H: hash of the setting
hone:1:requests:TENANT:MINUTE   requests of a tenant in a minute since 1970; for two minutes
hone:1:spent:TENANT:DAY         hash: `tokens` and `cost_usd` of a tenant in a day since 1970;
                                `=WORKER` -> number of its last report; `tokens=WORKER` and
                                `cost_usd=WORKER`, which are reserved for a worker of another cell,
                                and `reserved tokens`, the sum; for three days
hone:1:sharing                  while a process looks after the shares of quotas, of several cells
hone:1:stored                   hash: tenant -> bytes of memory that its refinements take
hone:1:watchers:TENANT          sorted set: open event stream -> when it expires unless renewed
hone:1:audit:TENANT             stream: who did what, the last 10,000 actions or a few more
hone:1:ended_sessions           sorted set: id of a session of the console that was signed out ->
                                when it would have expired
hone:1:counted:TENANT           stream: refused requests, an entry per key and minute, the last
                                10,000 or a few more
hone:1:counting:KEY:ACTION      id of the entry of this minute in that stream
hone:1:key_uses                 hash: id of an API key -> when it was last used, to within a minute
hone:1:probe                    written by readiness: whether Redis takes writes
hone:1:entries                  channel without messages: the first that an API process subscribes
                                to; its confirmation says that the connection works
hone:1:entries:ID               channel: what was appended to a journal, a line per entry: `NUMBER
                                AT TYPE DATA`; empty if the journal must be read
hone:1:commands                 channel: ids for which a command was given
hone:1:watched                  channel: ids whose texts are watched, with `+` if wanted whole
hone:1:texts                    channel: pieces of texts being written: `[ID, KEY, OFFSET, TEXT]`

Times are milliseconds since 1970 by Redis TIME. The name of a tenant has no `:`, so that no two
share a key.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from redis.crc import key_slot


class Key(str):
    """The name of a key or channel, or its beginning: `Layout` spells it for a cluster.

    What is added to one is one. It cannot be formatted, since the text would be none.
    """

    __slots__ = ()

    def __add__(self, rest: str) -> "Key":
        return Key(str.__add__(self, rest))

    def __format__(self, _how: str) -> str:
        raise TypeError(f"add to the key {str(self)!r} instead of formatting it")


PREFIX = Key("hone:1:")

FORMAT = PREFIX + "format"
CELL = PREFIX + "cell"
CELLS = PREFIX + "cells"
CHANGES = PREFIX + "changes"
FIRST_RELEASE = "1.0"
"""The release from which on records can be read."""

SUMMARY = PREFIX + "refinement:"
JOURNAL = PREFIX + "journal:"
REQUEST = PREFIX + "request:"
PROMPTS = PREFIX + "prompts:"
GIVEN = PREFIX + "given:"
ERASED = PREFIX + "erased:"
ERASURES = PREFIX + "erasures"
DUE = PREFIX + "due"
WAITING = PREFIX + "waiting"
DEADLINES = PREFIX + "deadlines"
TO_PACK = PREFIX + "to_pack"
TO_COUNT = PREFIX + "to_count"
TO_ARCHIVE = PREFIX + "to_archive"
EXPIRING = PREFIX + "expiring"
TO_ERASE = PREFIX + "to_erase"
ARCHIVE = PREFIX + "archive"
ARCHIVE_SWEPT = PREFIX + "archive_swept"
PARKED = PREFIX + "parked"
PARKED_OF = PREFIX + "parked_of:"
PARKED_QUEUED = PREFIX + "aside"
OUTBOX = PREFIX + "outbox"
DELIVERIES = PREFIX + "deliveries:"
ENDPOINTS = PREFIX + "endpoints:"
BATCH = PREFIX + "batch:"
BATCH_ITEMS = PREFIX + "batch_items:"
BATCH_LIVE = PREFIX + "batch_live:"
BATCHES = PREFIX + "batches"
LINE = PREFIX + "line:"
TURNS = PREFIX + "turns"
LOW_PRIORITY = PREFIX + "low_priority"
SLOTS = PREFIX + "slots"
OVERTAKEN = PREFIX + "overtaken"
WORKERS = PREFIX + "workers"
HELD = PREFIX + "held:"
NEWS = PREFIX + "news:"
UP = PREFIX + "up"
PLAYABLE = PREFIX + "playable"
UNPLAYABLE = PREFIX + "unplayable"
LIST = PREFIX + "list:"
IDEMPOTENCY = PREFIX + "idempotency:"
PROMPT_NONCE = PREFIX + "prompt_nonce:"
SIGNATURES = PREFIX + "signatures:"
STATISTICS = PREFIX + "statistics"
LEARNT = PREFIX + "learnt:"
TRUST = PREFIX + "trust:"
LIMIT = PREFIX + "limit:"
LIMITS = PREFIX + "limits"
REJECTED = PREFIX + "rejected:"
ACCESS = PREFIX + "access"
API_KEYS = PREFIX + "api_keys"
KEY_USES = PREFIX + "key_uses"
ENDED_SESSIONS = PREFIX + "ended_sessions"
TENANTS = PREFIX + "tenants"
SHARING = PREFIX + "sharing"
AUDIT = PREFIX + "audit:"
COUNTED = PREFIX + "counted:"
COUNTING = PREFIX + "counting:"
PRESETS = PREFIX + "presets:"
PROPOSALS = PREFIX + "proposals:"
PROVIDER_KEYS = PREFIX + "provider_keys:"
REQUESTS = PREFIX + "requests:"
STORED = PREFIX + "stored"
SPENT = PREFIX + "spent:"
WATCHERS = PREFIX + "watchers:"
PROBE = PREFIX + "probe"
ENTRIES = PREFIX + "entries"
ENTRIES_OF = PREFIX + "entries:"
COMMANDS = PREFIX + "commands"
WATCHED = PREFIX + "watched"
TEXTS = PREFIX + "texts"

BY_STATUS = ":status:"
BY_METADATA = ":meta:"
BY_BATCH = ":batch:"
ALL_BATCHES = ":batches"

LUA = {name: text for name, text in globals().items() if name.isupper() and isinstance(text, str)}
"""What scripts name: the constants above."""


def refinement_list(tenant: str) -> Key:
    """Return the key of the list of all refinements of a tenant."""
    return LIST + tenant


def listed_by_status(tenant: str, status: str) -> Key:
    """Return the key of the list of a tenant's refinements in one status."""
    return LIST + f"{tenant}{BY_STATUS}{status}"


def listed_by_metadata(tenant: str, key: str, value: str) -> Key:
    """Return the key of the list of a tenant's refinements with a metadata pair.

    `key` must not contain `=`.
    """
    return LIST + f"{tenant}{BY_METADATA}{key}={value}"


def listed_by_batch(tenant: str, batch_id: str) -> Key:
    """Return the key of the list of a tenant's refinements that a batch has begun."""
    return LIST + f"{tenant}{BY_BATCH}{batch_id}"


def listed_batches(tenant: str) -> Key:
    """Return the key of the list of a tenant's batches."""
    return LIST + f"{tenant}{ALL_BATCHES}"


def idempotency(tenant: str, key: str) -> Key:
    """Return the key of the record of an `Idempotency-Key`, which may be of any length."""
    return IDEMPOTENCY + f"{tenant}:{hashlib.sha256(key.encode()).hexdigest()}"


def statistics(of: str, tenant: str, day: date) -> Key:
    """Return the key of sums over a tenant's refinements that ended on a day."""
    return STATISTICS + f":{of}:{tenant}:{(day - date(1970, 1, 1)).days}"


def all_learnt(tenant: str) -> Key:
    """Return the key of the list of what was learnt for a tenant."""
    return LEARNT + tenant


def learnt(tenant: str, name: str) -> Key:
    """Return the key of the sums over the refinements of a kind."""
    return LEARNT + f"{tenant}:{name}"


def trust(tenant: str) -> Key:
    """Return the key of how the tenant's critics agree with people and validators."""
    return TRUST + tenant


def requests_in(tenant: str, minute: int) -> Key:
    """Return the key of the number of requests of a tenant in a minute since 1970."""
    return REQUESTS + f"{tenant}:{minute}"


def spent_on(tenant: str, day: int) -> Key:
    """Return the key of what a tenant has spent on a day since 1970."""
    return SPENT + f"{tenant}:{day}"


def endpoint(tenant: str, endpoint_id: str) -> Key:
    """Return the key of what is known of a tenant's endpoint."""
    return ENDPOINTS + f"{tenant}:{endpoint_id}"


def probe(tenant: str, endpoint_id: str) -> Key:
    """Return the key that holds while a paused endpoint of a tenant is not probed again."""
    return endpoint(tenant, endpoint_id) + ":probe"


def proposal(tenant: str, proposal_id: str) -> Key:
    """Return the key of what is known of a proposal to change a preset of a tenant."""
    return PROPOSALS + f"{tenant}:{proposal_id}"


def tries(tenant: str, preset: str, setting: str) -> Key:
    """Return the key of which proposals were tried against a setting of a preset."""
    return PROPOSALS + f"{tenant}:tries:{preset}:{setting}"


def of_tenant(tenant: str) -> tuple[Key, ...]:
    """Return patterns of all keys that belong to a tenant, without its audit log."""
    alone = (
        *(LIST, LINE, LEARNT, TRUST, WATCHERS, ENDPOINTS, PRESETS, PROPOSALS, PROVIDER_KEYS),
        SIGNATURES,
    )
    followed = (
        *(LIST, IDEMPOTENCY, PROMPT_NONCE, LEARNT, PROPOSALS),
        *(REQUESTS, SPENT, PARKED_OF, ENDPOINTS, STATISTICS + ":*:"),
    )
    return (
        *(prefix + tenant for prefix in alone),
        *(prefix + f"{tenant}:*" for prefix in followed),
        LIMIT + f"endpoint:*#{tenant}@*",
    )


def following(name: bytes, start: Key) -> str:
    """Return what follows the beginning of a key in its name, however Redis has it."""
    return name.decode().partition(start.removeprefix(PREFIX[:-1]))[2]


Word = str | bytes | int | float

OF_RQ = "rq:"
NAMING = (b'key":"', b'listed_in":"')
SHARDED = {"PUBLISH": "SPUBLISH", "SUBSCRIBE": "SSUBSCRIBE", "UNSUBSCRIBE": "SUNSUBSCRIBE"}
IN_SCRIPTS = {"'PUBLISH'": "'SPUBLISH'", "'NUMSUB'": "'SHARDNUMSUB'"}
NO_SCRIPTS: Mapping[str, str] = {}


class KeyedJson(bytes):
    """JSON in which members `key` and `listed_in` name keys."""


class Layout:
    """Spells keys: without a tag as they are, with one so that all are in one slot of a cluster.

    `hone:1:due` and `rq:queues` become `hone:{TAG}:due` and `rq:{TAG}:queues`. `scripts` are those
    whose keys it spells: the text of each by its SHA-1.
    """

    def __init__(self, tag: str = "", scripts: Mapping[str, str] = NO_SCRIPTS) -> None:
        self._spelled = {PREFIX: f"hone:{{{tag}}}:", OF_RQ: f"rq:{{{tag}}}:"} if tag else {}
        self._scripts = dict(self._spelled_scripts(scripts))

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

    def _spelled_scripts(self, scripts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the SHA-1 and the text of each script, each with the one to send instead."""
        for sha, plain_text in scripts.items():
            text = plain_text.replace(PREFIX, self.prefix)
            for plain, sharded in IN_SCRIPTS.items():
                text = text.replace(plain, sharded)
            yield plain_text, text
            yield sha, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


PLAIN = Layout()


def script_words(commands: Iterable[Sequence[Word]], layout: Layout = PLAIN) -> list[Word]:
    """Return commands as arguments for `perform` in queue.lua; the layout spells keys of RQ."""
    return [word for command in commands for word in (len(command), *layout.of_rq(command))]
