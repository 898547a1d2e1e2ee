"""Names from anywhere: read, refused and quoted so that Spark reads the same back."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twice.errors import DefinitionError
from twice.model.names import TableName, check_identifier, quote, quote_text

odd = st.sampled_from(
    ["`", "``", '"', "'", ".", " ", "$", "{", "}", "\\", "%", "--", ";", "ü", "日本", "😀", "a", "Z9_"]
)
texts = st.one_of(
    st.lists(odd, max_size=8).map("".join),
    st.text(st.characters(codec="utf-8", max_codepoint=0x2FF), max_size=12),
)


def is_part(text: str) -> bool:
    try:
        TableName(("lake", text, "t"))
    except DefinitionError:
        return False
    return True


parts = texts.filter(is_part)


def read_identifier(sql: str) -> str:
    """Read a quoted identifier as Spark does: everything between backticks, two of them mean one."""
    assert re.fullmatch(r"`(?:[^`]|``)*`", sql)
    return sql[1:-1].replace("``", "`")


SIMPLE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def read_literal(sql: str) -> str:
    """Read a string literal as Spark does: first `${…}` is filled in, then escapes are read."""
    assert "${" not in sql, "Spark would fill in a variable"
    assert sql[0] == sql[-1] == "'"
    body, out, at = sql[1:-1], [], 0
    while at < len(body):
        char = body[at]
        assert char != "'", "the literal would end here"
        if char != "\\":
            out.append(char)
            at += 1
        elif number := re.compile(r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})").match(body, at):
            out.append(chr(int(number[1] or number[2], 16)))
            at = number.end()
        elif octal := re.compile(r"\\([01][0-7]{2})").match(body, at):
            out.append(chr(int(octal[1], 8)))
            at = octal.end()
        else:
            assert at + 1 < len(body), "the closing quote would be escaped"
            following = body[at + 1]
            # % and _ keep their backslash, for LIKE.
            out.append("\\" + following if following in "%_" else SIMPLE.get(following, following))
            at += 2
    return "".join(out)


@settings(deadline=None)
@given(texts)
@example("\\u0041")
@example("\\\\u0041'")
@example("${env:HOME} ${spark.secret}")
@example("'; drop table x; --")
@example("\\")
@example("a\nb\0c\x7f\\%\\_\\101")
def test_a_quoted_text_reads_back_as_itself(text):
    assert read_literal(quote_text(text)) == text
    assert not any(ord(char) < 0x20 for char in quote_text(text))


@settings(deadline=None)
@given(texts)
def test_a_quoted_name_reads_back_as_itself(text):
    assert read_identifier(quote(text)) == text


@settings(deadline=None)
@given(st.lists(parts, min_size=2, max_size=4))
def test_a_table_name_reads_back_as_itself(rest):
    name = TableName(("lake", *rest))
    assert TableName.parse(str(name)) == name
    assert TableName.parse(name.sql) == name
    assert (name.store, name.namespace, name.parts[-1]) == ("lake", tuple(rest[:-1]), rest[-1])


def test_plain_names_stay_plain():
    name = TableName.parse("lake.core.fct_orders")
    assert str(name) == "lake.core.fct_orders"
    assert name.sql == "`lake`.`core`.`fct_orders`"
    assert str(TableName.parse("lake.`my space`.`o``r.d`")) == "lake.`my space`.`o``r.d`"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is not a table name: write store.namespace.table"),
        ("orders", "is not a full table name: write store.namespace.table"),
        ("core.orders", "where the store is one of [stores.*] in twice.toml"),
        ("lake..orders", "is not a table name: write store.namespace.table"),
        ("lake.core.", "is not a table name"),
        (".core.orders", "is not a table name"),
        ("lake.core.`orders", "is not a table name"),
        ("lake.core.or`ders`", "is not a table name"),
        ("lake.core.``", "is not a table name"),
        ("lake. .orders", "is empty or has spaces at an end"),
        ("lake.core.` orders`", "is empty or has spaces at an end"),
        ("lake.`..`.orders", "'..' cannot be a part of a table name: it is a path"),
        ("lake.`.`.orders", "cannot be a part of a table name: it is a path"),
        ("lake.`a/../../b`.orders", "it is a path"),
        ("lake.`a\\b`.orders", "it is a path"),
        ("lake.core.or\nders", "holds a control character: 'or\\nders'"),
        ("lake.core.or\x00ders", "holds a control character"),
        ("lake.core.`${env:HOME}`", "which Spark SQL replaces by a variable"),
        ("lake.core.\ud800", "is not valid unicode"),
        ("`my lake`.core.orders", "store 'my lake': use letters, digits and underscores"),
        ("1lake.core.orders", "store '1lake'"),
        (None, "None is not a table name: write store.namespace.table"),
        (5, "5 is not a table name"),
    ],
)
def test_what_is_no_table_name_is_refused(text, sentence):
    with pytest.raises(DefinitionError) as caught:
        TableName.parse(text)
    assert sentence in caught.value.message


@settings(deadline=None)
@given(st.text(alphabet="lake.`/\\ ü\n$", max_size=12))
def test_any_text_is_either_a_name_or_a_clear_sentence(text):
    try:
        name = TableName.parse(text)
    except DefinitionError:
        return
    assert TableName.parse(str(name)) == name


@pytest.mark.parametrize("name", ["order date", "größe", "a.b", "it's", 'x"y', "a`b", "日本", "$x"])
def test_odd_column_names_are_fine(name):
    check_identifier(name, "a column")
