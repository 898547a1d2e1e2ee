"""Keep passwords, tokens and keys out of what is stored and shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

_HIDDEN = "***"
# What a secret name ends in: db_password, AWS_SECRET_ACCESS_KEY, accessToken, fs.s3a.secret.key, X-Amz-Signature.
_NAME = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token|signature|credentials?"
    r"|(?:api|access|account|auth|encryption|private|secret|shared|signing)[_.\-]?key"
    r"|(?<![a-z])(?:sig|jwt|sas))[\d_]*"
)
_SECRET_NAME = re.compile(rf"{_NAME}$", re.IGNORECASE)
# user:password@host, as in every database URL; the bound keeps long texts from costing quadratic time.
_IN_AUTHORITY = re.compile(
    r"(?P<before>[A-Za-z][A-Za-z0-9+.\-]{0,40}://[^\s/:@]*:)(?P<value>[^\s/@]+(?:@[^\s/@]+)*)(?=@)"
)
# password="a b", "password": "a b" and, inside another text, \"password\": \"a b\".
_IN_QUOTES = re.compile(
    rf"(?P<before>{_NAME}\s*(?:\\?[\"']\s*:|=)\s*(?P<quote>\\?[\"']))(?:(?!(?P=quote)).)+", re.IGNORECASE | re.DOTALL
)
# password=…, as in JDBC URLs, query strings and connection strings.
_AS_PARAMETER = re.compile(rf"(?P<before>(?P<name>{_NAME})=)(?P<value>[^&;,\s'\"\\]+)", re.IGNORECASE)
# A shell's word in quotes: --set 'api_key=a b'.
_AS_WORD = re.compile(rf"(?P<before>(?P<quote>['\"])[\w.\-]{{0,80}}?{_NAME}=)[^'\"]+(?=(?P=quote))", re.IGNORECASE)
_AS_HEADER = re.compile(
    r"(?P<before>\b(?:(?:proxy-)?authorization|x-api-key|x-auth-token|api-key)\\?[\"']?\s*[:=]\s*\\?[\"']?"
    r"(?:(?:basic|bearer|digest|token|apikey)\s+)?|\bbearer\s+(?=[\w.~+/\-]{16}))[^\s'\"\\,]+",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Replace every password, token and key in a text.

    >>> redact("postgresql://ana:s3cret@db/ledger?password=s3cret")
    'postgresql://ana:***@db/ledger?password=***'
    >>> redact("Authorization: Bearer eyJhbGciOi")
    'Authorization: Bearer ***'
    """
    text = _IN_AUTHORITY.sub(rf"\g<before>{_HIDDEN}", text)
    text = _AS_HEADER.sub(rf"\g<before>{_HIDDEN}", text)
    text = _AS_WORD.sub(rf"\g<before>{_HIDDEN}", text)
    text = _IN_QUOTES.sub(rf"\g<before>{_HIDDEN}", text)
    return _AS_PARAMETER.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    # token=7 is the number of a claim.
    is_claim = found["name"].lower() == "token" and found["value"].isdigit()
    return found[0] if is_claim else found["before"] + _HIDDEN


def is_secret_name(name: str) -> bool:
    """Return whether a name is that of a secret.

    >>> is_secret_name("AWS_SECRET_ACCESS_KEY"), is_secret_name("api_key"), is_secret_name("sort_key")
    (True, True, False)
    """
    return bool(_SECRET_NAME.search(name))


def redacted_pairs(pairs: Mapping[str, str], secrets: Sequence[str] = ()) -> dict[str, str]:
    """Return the pairs with each secret hidden: its name marks it as one, or the value is or holds one."""
    return {name: _value(name, value, secrets) for name, value in pairs.items()}


def secrets_in(settings: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the secrets among settings: the values of secret names, and the passwords in URLs."""
    found: dict[str, None] = {}
    for name, value in settings:
        if is_secret_name(name) and value:
            found[value] = None
        found |= dict.fromkeys(match["value"] for match in _IN_AUTHORITY.finditer(value))
    return tuple(sorted(found, key=len, reverse=True))


def redacted_command(arguments: Sequence[str], secrets: Sequence[str] = ()) -> str:
    """Return a command line without the values of secret names, and without the known secrets.

    >>> redacted_command(["twice", "run", "--set", "api_key=a b", "--tag", "by=hunter2"], ["hunter2"])
    "twice run --set 'api_key=***' --tag 'by=***'"
    """
    return shlex.join(_argument(argument, secrets) for argument in arguments)


def _argument(argument: str, secrets: Sequence[str]) -> str:
    name, equals, value = argument.rpartition("=") if argument.startswith("--") else argument.partition("=")
    return f"{name}={_value(name, value, secrets)}" if equals else _value("", argument, secrets)


def _value(name: str, value: str, secrets: Sequence[str]) -> str:
    if is_secret_name(name) or value in secrets:
        return _HIDDEN
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            value = value.replace(secret, _HIDDEN)
    return redact(value)


# A shorter secret is hidden only where it is a whole value: "ab" also stands inside other words.
_SHORTEST = 6
