"""Keep passwords out of what is stored and shown."""

from __future__ import annotations

import re

# user:password@host, as in every database URL; the bound keeps long texts from costing quadratic time.
_IN_AUTHORITY = re.compile(r"(?P<before>[A-Za-z][A-Za-z0-9+.\-]{0,40}://[^\s/:@]*:)[^\s/@]+(?:@[^\s/@]+)*(?=@)")
# password=…, as in JDBC URLs, query strings and connection strings.
_AS_PARAMETER = re.compile(r"(?i)\b(?P<name>password|passwd|pwd|sslpassword|secret)=[^&;,\s'\"]+")


def redact(text: str) -> str:
    """Replace every password in a text.

    >>> redact("postgresql://ana:s3cret@db/ledger?password=s3cret")
    'postgresql://ana:***@db/ledger?password=***'
    """
    return _AS_PARAMETER.sub(r"\g<name>=***", _IN_AUTHORITY.sub(r"\g<before>***", text))
