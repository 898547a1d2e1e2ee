"""Functions of all dialects whose result differs from run to run."""

from __future__ import annotations

from twice.audit.expressions import OriginKind

# Called without an argument that says which moment is meant.
CLOCKS = frozenset(
    {
        "current_date", "current_timestamp", "current_time", "current_datetime", "localtime", "localtimestamp", "now",
        "today", "yesterday", "getdate", "getutcdate", "get_date", "sysdate", "sysdatetime", "sysutcdatetime", "systimestamp",
        "sysdatetimeoffset", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "curdate",
        "curtime", "utc_date", "utc_time", "utc_timestamp", "now64", "get_current_timestamp", "get_current_time",
        "currentdate", "currenttimestamp", "current_timestamp_ltz", "current_timestamp_l_t_z", "current_timestamp_tz", "current_timestamp_t_z", "current_timezone_timestamp", "date_now",
        "current_timestamp_backcompat", "dateutc", "current_timestamp_in_utc", "current_unix_timestamp", "unix_seconds_now",
        "convert_timezone_now", "getutcdatetime", "currentdatetime",
    }
)  # fmt: skip
CLOCKS_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp", "to_unix_timestamp", "from_unixtime", "date", "datetime", "time", "unixepoch", "julianday"})  # fmt: skip
# Clocks that dialects write like a column.
CLOCK_COLUMNS = frozenset({"sysdate", "systimestamp", "current_date", "current_timestamp", "localtimestamp", "getdate"})
NOW_LITERALS = frozenset({"now", "today", "yesterday", "tomorrow"})
# Functions that read the literal 'now' as the clock.
READS_NOW = frozenset({"date", "datetime", "time", "julianday", "unixepoch", "strftime", "timediff", "timestamp", "to_date", "to_timestamp"})  # fmt: skip

RANDOM = frozenset(
    {
        "rand", "random", "randn", "uuid", "generate_uuid", "gen_random_uuid", "newid", "uuid_string", "generateuuidv4",
        "uuid_generate_v1", "uuid_generate_v4", "uuidv4", "uuidv7", "sys_guid", "newsequentialid", "randstr", "uniform",
        "shuffle", "rand_str", "randomblob", "random_uuid", "uuid7", "dbms_random", "rand_cs_prng", "randomstring",
    }
)  # fmt: skip
# With a seed they give the same again (as far as the input lies the same).
SEEDABLE = frozenset({"rand", "randn", "random", "uniform"})
COUNTERS = frozenset({"monotonically_increasing_id", "monotonicallyincreasingid", "zipwithindex", "zipwithuniqueid"})
SEQUENCES = frozenset({"nextval", "next_val", "currval", "seq4", "seq8", "identity", "lastval", "autoincrement"})


def origin_kind(name: str, arguments: int) -> OriginKind | None:
    """Return what kind of origin a SQL function is, if it is one.

    >>> origin_kind("current_date", 0), origin_kind("unix_timestamp", 1), origin_kind("rand", 1), origin_kind("abs", 1)
    ('clock', None, None, None)
    """
    name = name.lower()
    if name in CLOCKS or (name in CLOCKS_WITHOUT_ARGUMENTS and arguments == 0):
        return "clock"
    if name in RANDOM:
        return None if arguments and name in SEEDABLE else "random"
    if name in COUNTERS:
        return "counter"
    if name in SEQUENCES:
        return "sequence"
    return None
