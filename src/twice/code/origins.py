"""Python names whose result differs from run to run."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Kind = Literal["clock", "random", "hash", "environment", "listing", "file"]

_CLOCKS = re.compile(
    r"""(?: datetime\.datetime\.(?:now|utcnow|today) | datetime\.date\.today | date\.today
    | datetime\.(?:now|utcnow|today) | time\.(?:time|time_ns|ctime|localtime|gmtime|strftime|asctime)
    | pendulum\.(?:now|today|yesterday|tomorrow) | pandas\.(?:Timestamp|datetime)\.(?:now|today|utcnow)
    | arrow\.(?:now|utcnow) | django\.utils\.timezone\.now | airflow\.utils\.timezone\.(?:utcnow|now)
    | airflow\.utils\.dates\.days_ago | .*\bdays_ago | whenever\.\w+\.now(?:_in_system_tz)? | maya\.now
    | delorean\.utcnow | .*\.utcnow )$""",
    re.VERBOSE,
)
_READS_MOMENT = frozenset({"pandas.to_datetime", "numpy.datetime64", "pandas.Timestamp", "dateparser.parse"})
_CLOCK_TAKES_MOMENT = frozenset({"time.ctime", "time.localtime", "time.gmtime", "time.asctime"})
_RANDOM = re.compile(
    r"""(?: uuid\.uuid[1467]
    | random\.(?:random|randint|choice|choices|sample|shuffle|uniform|randrange|randbytes|getrandbits|gauss|triangular
        |betavariate|binomialvariate|expovariate|gammavariate|lognormvariate|normalvariate|paretovariate
        |vonmisesvariate|weibullvariate)
    | secrets\.\w+ | os\.urandom | shortuuid\.uuid | ulid\.(?:new|ULID) | nanoid\.generate
    | numpy\.random\.(?:rand|randn|randint|random|choice|uniform|normal|permutation|shuffle)
    | ksuid\.\w+ | bson\.ObjectId | cuid\.\w+ )$""",
    re.VERBOSE,
)
_ENVIRONMENT = re.compile(
    r"""(?: os\.(?:getcwd|uname|getlogin) | socket\.(?:gethostname|getfqdn) | platform\.node | getpass\.getuser
    | pathlib\.Path\.(?:cwd|home) )$""",
    re.VERBOSE,
)
_LISTING = re.compile(
    r"""(?: os\.(?:listdir|scandir|walk) | glob\.i?glob | pathlib\.Path\.(?:glob|rglob|iterdir)
    | (?:dbutils|mssparkutils)\.fs\.ls )$""",
    re.VERBOSE,
)
_FILE_TIME = re.compile(r"(?:os\.path\.(?:getmtime|getctime|getatime)|os\.stat)$")
_KINDS: dict[Kind, re.Pattern[str]] = {
    "clock": _CLOCKS,
    "random": _RANDOM,
    "hash": re.compile(r"hash$"),
    "environment": _ENVIRONMENT,
    "listing": _LISTING,
    "file": _FILE_TIME,
}
_CLOCK_STRINGS = frozenset({"now", "today"})


def origin_of(name: str, arguments: int, first: str = "") -> Kind | None:
    """Return what kind of origin a call of that full name is, if it is one.

    >>> origin_of("datetime.datetime.now", 0), origin_of("uuid.uuid5", 2), origin_of("time.localtime", 1)
    ('clock', None, None)
    """
    found = _kind_of(name)
    if found == "clock":
        if name in _CLOCK_TAKES_MOMENT and arguments:
            return None
        return None if name == "time.strftime" and arguments > 1 else "clock"
    if name in _READS_MOMENT and first.lower() in _CLOCK_STRINGS:
        return "clock"
    return found


@lru_cache(maxsize=4096)
def _kind_of(name: str) -> Kind | None:
    return next((kind for kind, names in _KINDS.items() if names.match(name)), None)
