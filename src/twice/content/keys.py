"""The surrogate key of `twice.model.keys` as a Spark column and as Spark SQL text.

A column has no type before Spark analyses it, so the expression asks `typeof` and holds a branch for
every kind; the optimiser folds `typeof` and keeps one branch. No Python runs per row.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twice.content.calls import expand_calls
from twice.errors import DefinitionError
from twice.model.keys import NULL
from twice.model.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TEXTS = ("string", "varchar", "char")
_SUPPORTED = ("void", *_TEXTS, "boolean", *_INTEGERS, "decimal", "date", "timestamp", "binary")
# Only JSON renders timestamps in a given zone, and binary at all, without knowing the type.
_JSON_OPTIONS = {"timeZone": "UTC", "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
_TRAILING_ZEROS = "[.]0+$|([.][0-9]*[1-9])0+$"
_NO_COLUMN = re.compile(r"(^|\.)\s*\*\s*$|^\s*(distinct|all)\s", re.IGNORECASE)
_REFUSED = (
    "key_of cannot make a key of a column of type ",
    (
        ": use strings, booleans, integers, decimals, dates, timestamps or binary. "
        "Cast float and double to decimal; cast timestamp_ntz to string"
    ),
)


def key_of(*columns: str | Column) -> Column:
    """Give the surrogate key of the columns as a Spark column: 32 hexadecimal characters, never null.

        orders.withColumn("revenue_sk", key_of("order_date", "region"))

    `key_hash` gives the same key for the same values in plain Python. Integers and decimals of any
    width agree, a string never equals a number or a date, null differs from the empty string.
    """
    from pyspark.sql import functions as F

    if not columns:
        raise DefinitionError('a key needs at least one column: key_of("order_date", "region")')
    for column in columns:
        _require_column(column)
    names = [column for column in columns if isinstance(column, str) and all(map(str.isidentifier, column.split(".")))]
    if len(names) == len(columns):
        # One text for Spark to read costs less than the many calls that build the same expression.
        return F.expr(key_sql(*(".".join(map(quote, name.split("."))) for name in names)))
    parts = (_part(F.col(column) if isinstance(column, str) else column) for column in columns)
    return F.substring(F.sha2(F.concat(*parts), 256), 1, 32)


def _require_column(given: object) -> None:
    from pyspark.sql import Column

    if not isinstance(given, (str, Column)) or (isinstance(given, str) and given.strip().endswith("*")):
        raise DefinitionError(f"a key is made of named columns, not of {given!r}. Use key_hash for plain values")


def _part(value: Column) -> Column:
    from pyspark.sql import functions as F

    kind = F.substring_index(F.substring_index(F.typeof(value), "(", 1), " ", 1)
    text = value.cast("string")
    json = F.to_json(F.struct(value.alias("v")), _JSON_OPTIONS)
    unquoted = json.substr(F.lit(7), F.length(json) - 8)
    exponent = F.substring_index(text, "E-", -1).cast("int")
    plain = F.when(~F.contains(text, F.lit("E")), text).otherwise(
        F.concat(
            F.when(F.startswith(text, F.lit("-")), "-0.").otherwise("0."),
            F.call_function("repeat", F.lit("0"), exponent - 1),
            F.translate(F.substring_index(text, "E", 1), "-.", ""),
        )
    )

    def tagged(letter: str, content: Column) -> Column:
        return F.concat(F.lit(letter), F.octet_length(content).cast("string"), F.lit(":"), content)

    refused = F.concat(F.lit(_REFUSED[0]), F.typeof(value), F.lit(_REFUSED[1]))
    return (
        F.when(~kind.isin(*_SUPPORTED), F.raise_error(refused).cast("string"))
        .when(value.isNull(), F.lit(NULL))
        .when(kind.isin(*_TEXTS), tagged("s", text))
        .when(kind.isin(*_INTEGERS), tagged("n", text))
        .when(kind == "decimal", tagged("n", F.regexp_replace(plain, _TRAILING_ZEROS, "$1")))
        .when(kind == "date", tagged("d", text))
        .when(kind == "timestamp", tagged("t", unquoted))
        .when(kind == "boolean", tagged("b", text))
        .otherwise(tagged("x", unquoted))
    )


def key_sql(*expressions: str) -> str:
    """Give the Spark SQL text of the key over SQL expressions.

    >>> from twice import key_sql
    >>> key_sql("order_date", "region").startswith("substring(sha2(concat(CASE WHEN")
    True
    """
    if not expressions:
        raise DefinitionError("a key needs at least one column: key_of(order_date, region)")
    for expression in expressions:
        if not expression.strip():
            raise DefinitionError("a key has an empty argument: key_of(order_date, region)")
        if _NO_COLUMN.search(expression):
            raise DefinitionError(f"a key is made of named columns: key_of({expression.strip()}) names none")
    return f"substring(sha2(concat({', '.join(map(_part_sql, expressions))}), 256), 1, 32)"


def _part_sql(expression: str) -> str:
    value = f"({expression.strip()})"
    kind = f"substring_index(substring_index(typeof({value}), '(', 1), ' ', 1)"
    text = f"CAST({value} AS STRING)"
    # Neither quotes nor backslashes inside of the literals: sessions differ in how they read those.
    options = ", ".join(f"'{name}', '{option}'" for name, option in _JSON_OPTIONS.items())
    json = f"to_json(named_struct('v', {value}), map({options}))"
    unquoted = f"substring({json}, 7, length({json}) - 8)"
    plain = (
        f"CASE WHEN NOT contains({text}, 'E') THEN {text} ELSE concat("
        f"CASE WHEN startswith({text}, '-') THEN '-0.' ELSE '0.' END, "
        f"repeat('0', CAST(substring_index({text}, 'E-', -1) AS INT) - 1), "
        f"translate(substring_index({text}, 'E', 1), '-.', '')) END"
    )

    def tagged(letter: str, content: str) -> str:
        return f"concat('{letter}', CAST(octet_length({content}) AS STRING), ':', {content})"

    def among(kinds: tuple[str, ...]) -> str:
        return ", ".join(f"'{name}'" for name in kinds)

    refused = f"concat('{_REFUSED[0]}', typeof({value}), '{_REFUSED[1]}')"
    decimal = f"regexp_replace({plain}, '{_TRAILING_ZEROS}', '$1')"
    return (
        f"CASE WHEN {kind} NOT IN ({among(_SUPPORTED)}) THEN CAST(raise_error({refused}) AS STRING)"
        f" WHEN {value} IS NULL THEN '{NULL}'"
        f" WHEN {kind} IN ({among(_TEXTS)}) THEN {tagged('s', text)}"
        f" WHEN {kind} IN ({among(_INTEGERS)}) THEN {tagged('n', text)}"
        f" WHEN {kind} = 'decimal' THEN {tagged('n', decimal)}"
        f" WHEN {kind} = 'date' THEN {tagged('d', text)}"
        f" WHEN {kind} = 'timestamp' THEN {tagged('t', unquoted)}"
        f" WHEN {kind} = 'boolean' THEN {tagged('b', text)}"
        f" ELSE {tagged('x', unquoted)} END"
    )


def expand_keys(query: str) -> str:
    """Replace each call of `key_of(…)` in a Spark SQL query by its expression, and nothing else.

    >>> expand_keys("SELECT 'key_of(a)' FROM t WHERE d >= :window_start")
    "SELECT 'key_of(a)' FROM t WHERE d >= :window_start"
    """
    return expand_calls(query, "key_of", key_sql)
