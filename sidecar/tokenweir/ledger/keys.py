"""
The ledger's keys in Redis.

    {tw:017}:f              format of all of these, if it is not the first: a number
    {tw:017}:e              epoch of the tag, in ms
    {tw:017}:b:<limit>      bucket: "level as_of reserved rate capacity"
    {tw:017}:s:<limit>      slots: sorted set of hold ids by expiry, in ms
    {tw:017}:d:<limit>      median time that a slot was held, in ms
    {tw:017}:w:<start>:<limit>  budget in the window that starts then (ms):
                            "spent reserved told end"
    {tw:017}:c:<limit>      moment that the last refused caller was told, in ms;
                            of a limit that tenants share: <limit>|<queue>
    {tw:017}:h:<hold id>    hold or tombstone: hash
    {tw:017}:x              holds: sorted set of ids by expiry, in ms
    {tw:017}:r              output rates by model: hash
    {tw:017}:u              usage records: stream
    {tw:017}:a              hours that have rollups: sorted set
    {tw:017}:a:<hour>       rollups of an hour: hash
    {tw:017}:n:<hour>       rollups of an hour by end user: hash
    {tw:017}:p:<day>        what parts of prompts that repeat cost on a day: hash
    {tw:017}:pt:<digest>    how such a part begins, if the policy lets it be kept
    {tw:017}:l:<tenant>     how far its estimates of tokens are off: hash
    {tw:sweeper}:lease      which processor sweeps
    {tw:rebuild}:lease      who puts counters of budgets right
    {twg}:<name>            newest version that was published as "policy" or "keys"
    {twg}:<name>:<version>  a version: signed envelope
    {twg}:<name>:versions   versions that are kept: sorted set

What is in braces is the Cluster hash tag: a call touches keys of one tag only, all of
which lie in one slot. While a slot moves to another node its keys are partly here and
partly there; a script is told only what they begin with, and so it could not know. See
`guard`. All
that the Redis user of a processor needs is `ACCESS`; what is published it only reads.
"""

from __future__ import annotations

# For ACL SETUSER: no key of anybody else's, nothing that lists, flushes or configures.
ACCESS = (
    "~{tw:*",
    "%R~{twg}*",  # known from Redis 7.0 on
    "-@all",
    "+@connection",
    *("+cluster|slots", "+asking"),
    "+info",  # to see what the server does when its memory is full
    *("+eval", "+evalsha", "+script|load", "+time"),
    *("+mget", "+getrange"),
    *("+get", "+getex", "+set", "+del", "+pexpire", "+pttl", "+scan"),
    *("+hget", "+hgetall", "+hset", "+hincrby", "+xadd", "+xrange"),
    *("+zadd", "+zrem", "+zcard", "+zmscore", "+zrange"),
    *("+zrangebyscore", "+zremrangebyscore"),
)

# What is written here is understood by all versions that know this format. A version
# that writes otherwise has the next one, and says so under each tag, in the script that
# writes there first: from then on older ones leave that tag alone.
FORMAT = 1

SWEEPER_LEASE = "{tw:sweeper}:lease"
REBUILD_LEASE = "{tw:rebuild}:lease"
# What SCAN finds the counters of budgets by, under all tags.
COUNTERS = "{tw:*}:w:*"
# What SCAN finds what is learned of estimates by, and what stands before the tenant.
LEARNED = "{tw:*}:l:*"
LEARNED_OF = ":l:"
GOVERNANCE = "{twg}"

# How long keys are kept after they were last written. None is kept for ever.
DAY_MS = 86_400_000
# Beyond the time until full: a bucket that is only just full is soon used again.
BUCKET_GRACE_MS = 60_000
# Beyond the moment that was told: it means nothing then, but clocks may differ.
CURSOR_GRACE_MS = 60_000
# Holds that nobody reaps because nobody runs: a day, then the levels are full anyway.
HOLD_KEPT_MS = DAY_MS
# Epochs, durations and output rates outlive the longest holidays.
EPOCH_KEPT_MS = 30 * DAY_MS
LEARNED_KEPT_MS = 30 * DAY_MS
# The stream is for exporters and for rebuilding counters; who is a week behind is gone.
RECORD_KEPT_MS = 7 * DAY_MS
# Thirteen months, so that a month can be compared with the same one a year ago.
ROLLUP_KEPT_MS = 400 * DAY_MS
# What one person did is kept for as long as it takes to bill a month, and no longer.
USERS_KEPT_MS = 35 * DAY_MS

# So that a month can be looked at as a whole.
PROMPT_KEPT_MS = 35 * DAY_MS


def root(tag: str) -> str:
    """Return what all keys of *tag* begin with."""
    return f"{{{tag}}}"


def guard(root: str) -> str:
    """
    Return a second key of a script whose keys all begin with *root*.

    A Cluster refuses a call (TRYAGAIN) about several keys that are not all in the same
    place, and no key has the name of a *root*. So while a slot moves nothing is changed
    in it, neither where it was nor where it will be; and no level is taken for unknown.
    """
    return f"{root}:e"


def form(root: str) -> str:
    """Return the key of the format of what is under *root*."""
    return f"{root}:f"


def epoch(tag: str) -> str:
    """Return the key of the tag's epoch."""
    return f"{root(tag)}:e"


def records(tag: str) -> str:
    """Return the key of the tag's stream of usage records."""
    return f"{root(tag)}:u"


def holds(tag: str) -> str:
    """Return the key of the tag's holds by expiry."""
    return f"{root(tag)}:x"


def hold(tag: str, hold_id: str) -> str:
    """Return the key of one hold or tombstone."""
    return f"{root(tag)}:h:{hold_id}"


def hours(tag: str) -> str:
    """Return the key of the hours that the tag has rollups of."""
    return f"{root(tag)}:a"


def rollup(tag: str, hour: int) -> str:
    """Return the key of the tag's rollups of one *hour* since 1970."""
    return f"{root(tag)}:a:{hour}"


def user_rollup(tag: str, hour: int) -> str:
    """Return the key of the tag's rollups by end user of one *hour* since 1970."""
    return f"{root(tag)}:n:{hour}"


def published(name: str, version: int | None = None) -> str:
    """Return the key of a *version* that was published as *name*; None: the newest's."""
    newest = f"{GOVERNANCE}:{name}"
    return newest if version is None else f"{newest}:{version}"


def published_versions(name: str) -> str:
    """Return the key of the versions that are kept of *name*."""
    return f"{GOVERNANCE}:{name}:versions"


def prompts(tag: str, day: int) -> str:
    """Return the key of what prompts' parts cost on a *day* since 1970."""
    return f"{root(tag)}:p:{day}"


def prompt_text(tag: str, digest: str) -> str:
    """Return the key of what is kept of a prompt's part."""
    return f"{root(tag)}:pt:{digest}"


def learned(tag: str, tenant: str) -> str:
    """Return the key of what is learned of *tenant*'s estimates."""
    return f"{root(tag)}{LEARNED_OF}{tenant}"
