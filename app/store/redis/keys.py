"""Every Redis key and channel. All start with `hone:1:`, where 1 is the version of the format.

hone:1:format                   the release whose records these are; written at the first start
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
                                `delivered_at`; `attempt`, `command`, the last of each; `url`,
                                if it is registered
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
hone:1:requests:TENANT:MINUTE   requests of a tenant in a minute since 1970; for two minutes
hone:1:spent:TENANT:DAY         hash: `tokens` and `cost_usd` of a tenant in a day since 1970, and
                                `=WORKER` -> number of its last report; for three days
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
share a key. Redis Cluster is not supported: scripts compute key
names.
"""

import hashlib
from datetime import date

PREFIX = "hone:1:"

FORMAT = f"{PREFIX}format"

SUMMARY = f"{PREFIX}refinement:"
JOURNAL = f"{PREFIX}journal:"
REQUEST = f"{PREFIX}request:"
PROMPTS = f"{PREFIX}prompts:"
GIVEN = f"{PREFIX}given:"
ERASED = f"{PREFIX}erased:"
ERASURES = f"{PREFIX}erasures"
DUE = f"{PREFIX}due"
WAITING = f"{PREFIX}waiting"
DEADLINES = f"{PREFIX}deadlines"
TO_PACK = f"{PREFIX}to_pack"
TO_COUNT = f"{PREFIX}to_count"
TO_ARCHIVE = f"{PREFIX}to_archive"
EXPIRING = f"{PREFIX}expiring"
TO_ERASE = f"{PREFIX}to_erase"
ARCHIVE = f"{PREFIX}archive"
ARCHIVE_SWEPT = f"{PREFIX}archive_swept"
PARKED = f"{PREFIX}parked"
PARKED_OF = f"{PREFIX}parked_of:"
ASIDE = f"{PREFIX}aside"
OUTBOX = f"{PREFIX}outbox"
DELIVERIES = f"{PREFIX}deliveries:"
ENDPOINTS = f"{PREFIX}endpoints:"
BATCH = f"{PREFIX}batch:"
BATCH_ITEMS = f"{PREFIX}batch_items:"
BATCH_LIVE = f"{PREFIX}batch_live:"
BATCHES = f"{PREFIX}batches"
LINE = f"{PREFIX}line:"
TURNS = f"{PREFIX}turns"
LOW_PRIORITY = f"{PREFIX}low_priority"
SLOTS = f"{PREFIX}slots"
OVERTAKEN = f"{PREFIX}overtaken"
WORKERS = f"{PREFIX}workers"
HELD = f"{PREFIX}held:"
NEWS = f"{PREFIX}news:"
UP = f"{PREFIX}up"
PLAYABLE = f"{PREFIX}playable"
UNPLAYABLE = f"{PREFIX}unplayable"
LIST = f"{PREFIX}list:"
IDEMPOTENCY = f"{PREFIX}idempotency:"
PROMPT_NONCE = f"{PREFIX}prompt_nonce:"
SIGNATURES = f"{PREFIX}signatures:"
STATISTICS = f"{PREFIX}statistics"
LEARNT = f"{PREFIX}learnt:"
TRUST = f"{PREFIX}trust:"
LIMIT = f"{PREFIX}limit:"
LIMITS = f"{PREFIX}limits"
REJECTED = f"{PREFIX}rejected:"
ACCESS = f"{PREFIX}access"
API_KEYS = f"{PREFIX}api_keys"
KEY_USES = f"{PREFIX}key_uses"
ENDED_SESSIONS = f"{PREFIX}ended_sessions"
TENANTS = f"{PREFIX}tenants"
AUDIT = f"{PREFIX}audit:"
COUNTED = f"{PREFIX}counted:"
COUNTING = f"{PREFIX}counting:"
PRESETS = f"{PREFIX}presets:"
PROVIDER_KEYS = f"{PREFIX}provider_keys:"
REQUESTS = f"{PREFIX}requests:"
STORED = f"{PREFIX}stored"
SPENT = f"{PREFIX}spent:"
WATCHERS = f"{PREFIX}watchers:"
PROBE = f"{PREFIX}probe"
ENTRIES = f"{PREFIX}entries"
ENTRIES_OF = f"{PREFIX}entries:"
COMMANDS = f"{PREFIX}commands"
WATCHED = f"{PREFIX}watched"
TEXTS = f"{PREFIX}texts"

BY_STATUS = ":status:"
BY_METADATA = ":meta:"
BY_BATCH = ":batch:"
ALL_BATCHES = ":batches"

LUA = {
    "SUMMARY": SUMMARY,
    "JOURNAL": JOURNAL,
    "REQUEST": REQUEST,
    "PROMPTS": PROMPTS,
    "GIVEN": GIVEN,
    "ERASED": ERASED,
    "ERASURES": ERASURES,
    "DUE": DUE,
    "WAITING": WAITING,
    "DEADLINES": DEADLINES,
    "TO_PACK": TO_PACK,
    "TO_COUNT": TO_COUNT,
    "TO_ARCHIVE": TO_ARCHIVE,
    "EXPIRING": EXPIRING,
    "TO_ERASE": TO_ERASE,
    "ARCHIVE": ARCHIVE,
    "PARKED": PARKED,
    "PARKED_OF": PARKED_OF,
    "ASIDE": ASIDE,
    "OUTBOX": OUTBOX,
    "DELIVERIES": DELIVERIES,
    "ENDPOINTS": ENDPOINTS,
    "BATCH": BATCH,
    "BATCH_ITEMS": BATCH_ITEMS,
    "BATCH_LIVE": BATCH_LIVE,
    "BATCHES": BATCHES,
    "LINE": LINE,
    "TURNS": TURNS,
    "LOW_PRIORITY": LOW_PRIORITY,
    "SLOTS": SLOTS,
    "OVERTAKEN": OVERTAKEN,
    "WORKERS": WORKERS,
    "HELD": HELD,
    "NEWS": NEWS,
    "UP": UP,
    "PLAYABLE": PLAYABLE,
    "UNPLAYABLE": UNPLAYABLE,
    "LIST": LIST,
    "PROMPT_NONCE": PROMPT_NONCE,
    "SIGNATURES": SIGNATURES,
    "STATISTICS": STATISTICS,
    "LIMIT": LIMIT,
    "LIMITS": LIMITS,
    "ACCESS": ACCESS,
    "API_KEYS": API_KEYS,
    "COUNTED": COUNTED,
    "COUNTING": COUNTING,
    "ENTRIES_OF": ENTRIES_OF,
    "FORMAT": FORMAT,
    "TENANTS": TENANTS,
    "WATCHERS": WATCHERS,
    "SPENT": SPENT,
    "STORED": STORED,
    "COMMANDS": COMMANDS,
    "BY_STATUS": BY_STATUS,
    "BY_METADATA": BY_METADATA,
    "BY_BATCH": BY_BATCH,
    "ALL_BATCHES": ALL_BATCHES,
}


def entries(refinement_id: str) -> str:
    """Return the channel of what is appended to a journal."""
    return f"{ENTRIES_OF}{refinement_id}"


def refinement_list(tenant: str) -> str:
    """Return the key of the list of all refinements of a tenant."""
    return f"{LIST}{tenant}"


def listed_by_status(tenant: str, status: str) -> str:
    """Return the key of the list of a tenant's refinements in one status."""
    return f"{LIST}{tenant}{BY_STATUS}{status}"


def listed_by_metadata(tenant: str, key: str, value: str) -> str:
    """Return the key of the list of a tenant's refinements with a metadata pair.

    `key` must not contain `=`.
    """
    return f"{LIST}{tenant}{BY_METADATA}{key}={value}"


def listed_by_batch(tenant: str, batch_id: str) -> str:
    """Return the key of the list of a tenant's refinements that a batch has begun."""
    return f"{LIST}{tenant}{BY_BATCH}{batch_id}"


def listed_batches(tenant: str) -> str:
    """Return the key of the list of a tenant's batches."""
    return f"{LIST}{tenant}{ALL_BATCHES}"


def idempotency(tenant: str, key: str) -> str:
    """Return the key of the record of an `Idempotency-Key`, which may be of any length."""
    return f"{IDEMPOTENCY}{tenant}:{hashlib.sha256(key.encode()).hexdigest()}"


def statistics(of: str, tenant: str, day: date) -> str:
    """Return the key of sums over a tenant's refinements that ended on a day."""
    return f"{STATISTICS}:{of}:{tenant}:{(day - date(1970, 1, 1)).days}"


def all_learnt(tenant: str) -> str:
    """Return the key of the list of what was learnt for a tenant."""
    return f"{LEARNT}{tenant}"


def learnt(tenant: str, name: str) -> str:
    """Return the key of the sums over the refinements of a kind."""
    return f"{LEARNT}{tenant}:{name}"


def trust(tenant: str) -> str:
    """Return the key of how the tenant's critics agree with people and validators."""
    return f"{TRUST}{tenant}"


def requests_in(tenant: str, minute: int) -> str:
    """Return the key of the number of requests of a tenant in a minute since 1970."""
    return f"{REQUESTS}{tenant}:{minute}"


def spent_on(tenant: str, day: int) -> str:
    """Return the key of what a tenant has spent on a day since 1970."""
    return f"{SPENT}{tenant}:{day}"


def endpoint(tenant: str, endpoint_id: str) -> str:
    """Return the key of what is known of a tenant's endpoint."""
    return f"{ENDPOINTS}{tenant}:{endpoint_id}"


def probe(tenant: str, endpoint_id: str) -> str:
    """Return the key that holds while a paused endpoint of a tenant is not probed again."""
    return f"{endpoint(tenant, endpoint_id)}:probe"


def of_tenant(tenant: str) -> tuple[str, ...]:
    """Return patterns of all keys that belong to a tenant, without its audit log."""
    alone = (
        *(LIST, LINE, LEARNT, TRUST, WATCHERS, ENDPOINTS, PRESETS, PROVIDER_KEYS),
        SIGNATURES,
    )
    followed = (
        *(LIST, IDEMPOTENCY, PROMPT_NONCE, LEARNT),
        *(REQUESTS, SPENT, PARKED_OF, ENDPOINTS, f"{STATISTICS}:*:"),
    )
    return (
        *(f"{prefix}{tenant}" for prefix in alone),
        *(f"{prefix}{tenant}:*" for prefix in followed),
    )
