"""`key_of` inside of a SQL step: only the call itself is replaced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice.content.keys import expand_keys, key_sql
from twice.errors import DefinitionError


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT key_of(a, b) AS k FROM t", f"SELECT {key_sql('a', 'b')} AS k FROM t"),
        ("select KEY_OF (a)", f"select {key_sql('a')}"),
        ("select Key_Of/* why */(a)", f"select {key_sql('a')}"),
        ("select key_of(f(a, 1), b[0])", f"select {key_sql('f(a, 1)', 'b[0]')}"),
        ("select key_of(`a,)`, ')')", f"select {key_sql('`a,)`', chr(39) + ')' + chr(39))}"),
        (
            r"select key_of('it\'s)', b)",
            f"select {key_sql(chr(39) + 'it' + chr(92) + chr(39) + 's)' + chr(39), 'b')}",
        ),
        ("select key_of(a -- first, )\n, b)", f"select {key_sql('a', 'b')}"),
        ("select key_of(:window_start)", f"select {key_sql(':window_start')}"),
        ("select key_of(key_of(a))", f"select {key_sql(key_sql('a'))}"),
        ("select key_of(a), key_of(b)", f"select {key_sql('a')}, {key_sql('b')}"),
    ],
)
def test_a_call_is_replaced(query: str, expected: str) -> None:
    assert expand_keys(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT  a,\tb -- key_of(a)\nFROM t WHERE d >= :window_start AND x RLIKE '[0-9]{4}'",
        "SELECT 'key_of(a)', \"key_of(a)\", `key_of(a)` FROM t",
        r"SELECT 'it\'s key_of(a)', r'\', 1 FROM t",
        "SELECT /* outer /* key_of(a) */ key_of(b) */ 1",
        "SELECT db.key_of(a), my_key_of(a), key_of_mine(a), key_of FROM t",
        "SELECT :key_of (a)",
        "SELECT 'never closed key_of(a)",
        "",
    ],
)
def test_everything_else_stays_as_it_was(query: str) -> None:
    assert expand_keys(query) == query


@given(st.text(alphabet="ab'\"`\\-/*(),.:\n key_of"))
def test_text_without_a_call_is_never_touched(query: str) -> None:
    if "key_of" not in query:
        assert expand_keys(query) == query


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("select key_of()", "at least one column"),
        ("select key_of(a", "never closed"),
        ("select key_of(a,, b)", "empty argument"),
        ("select key_of(*)", "named columns"),
        ("select key_of(t.*)", "named columns"),
        ("select key_of(?)", "named marker"),
    ],
)
def test_a_wrong_call_is_refused(query: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        expand_keys(query)
