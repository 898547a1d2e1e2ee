"""Texts that a report shows: with the tables' names in production, and without passwords or control characters."""

from __future__ import annotations

import re

from twice.redaction import redact
from twice.verify.sources import INPUTS

# What `sandbox.py` calls the twins of a store: one namespace for each case, or one database file for each case.
_NAMESPACE = re.compile(r"(`?)\bverify_(\w+)\1\.(`?)c\d+(?:x[0-9a-f]+)?_")
_FILE = re.compile(r"\bverify_c\d+(?:x[0-9a-f]+)?_(?=\w)")
_COPY = re.compile(rf"`?\b{INPUTS}\b`?\.")
# Characters that XML cannot hold, and those that control a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def plain(text: str) -> str:
    r"""Return a text as a report shows it.

    >>> plain("verify_lake.c12_core.facts is not twice_inputs.lake.raw.orders\x1b")
    'lake.core.facts is not lake.raw.orders\ufffd'
    """
    text = _NAMESPACE.sub(r"\1\2\1.\3", text)
    return _CONTROL.sub("\ufffd", redact(_COPY.sub("", _FILE.sub("", text))))
