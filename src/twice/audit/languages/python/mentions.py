"""How a file mentions one of its functions: as something that it calls, or that it hands over to something else."""

from __future__ import annotations

import re

_CALL = re.compile(r"\s*(?:\.(?:submit|map|override|partial|expand|delay|with_options|remote|apply_async))?\s*\(")
_OWN_CALL = re.compile(r"\s*\(")
_ARGUMENT = re.compile(r"\s*[,)]")
_OWNERS = ("self.", "cls.")


def mentions(text: str, name: str) -> tuple[bool, bool]:
    r"""Return whether a function is an argument of a call, and whether it is called.

    >>> mentions("def a(): ...\\nstream.foreachBatch(a)", "a"), mentions("x = a.submit(1)\\nself.b()", "a")
    ((True, False), (False, True))
    """
    handed_over = called = False
    at = text.find(name) if name else -1
    # Few words of a file are the name: to look for those first is much quicker than to try a pattern everywhere.
    while at >= 0 and not (handed_over and called):
        end = at + len(name)
        owner = next((one for one in _OWNERS if text.endswith(one, 0, at)), "")
        start = at - len(owner)
        handed_over = handed_over or (_opens(text, start) and _ARGUMENT.match(text, end) is not None)
        called = called or (
            _begins(text, start, owner) and (_OWN_CALL if owner else _CALL).match(text, end) is not None
        )
        at = text.find(name, end)
    return handed_over, called


def _opens(text: str, start: int) -> bool:
    """Return whether what stands before is what arguments stand behind."""
    while start and text[start - 1].isspace():
        start -= 1
    return start > 0 and text[start - 1] in "(,="


def _begins(text: str, start: int, owner: str) -> bool:
    """Return whether a name begins here, and not its definition."""
    before = text[start - 1] if start else " "
    if before.isalnum() or before == "_":
        return False
    return bool(owner) or (before != "." and not text.endswith("def ", 0, start))
