"""Read a SQL text: tokens, statements, parse each, and fall back to tokens for the one that cannot be parsed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from twice.audit.expressions import Expr
from twice.audit.functions import CLOCKS, RANDOM
from twice.audit.languages.sql.convert import Converter
from twice.audit.languages.sql.cursors import Cursors
from twice.audit.languages.sql.dynamic import Texts
from twice.audit.languages.sql.fallback import read_by_tokens
from twice.audit.languages.sql.rewriting import COMPOUND, expanded, inserts_of
from twice.audit.languages.sql.sources import HOLE, SqlText
from twice.audit.languages.sql.splitting import STARTERS, is_procedural, split
from twice.audit.languages.sql.statements import Control, Item, Read, StatementReader
from twice.audit.model import Mode, Problem, Target, Write
from twice.audit.places import Place

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

_KEYWORDS = frozenset({"INSERT", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "COPY", "LOAD", "DROP", "CREATE", "REPLACE"})
_WRITING = _KEYWORDS | {"UNLOAD", "EXPORT", "OVERWRITE", "EXEC", "EXECUTE", "CALL"}
_SKIPPED = frozenset({"GO", "ELSE", "END", "THEN", "LOOP", "PRINT", "RETURN", "RAISE", "RAISERROR", "THROW", "EXCEPTION", "OPEN", "FETCH", "CLOSE", "DEALLOCATE", "USE", "TRY", "VACUUM", "ANALYZE", "OPTIMIZE", "REFRESH", "GRANT", "REVOKE", "COMMENT", "EXPLAIN", "DESCRIBE", "SHOW", "MSCK", "UNLOAD", "PERFORM", "CALL", "EXEC", "EXECUTE", "EXIT", "WHENEVER", "PROMPT", "SPOOL", "REM", "PRAGMA", "PREPARE", "ATTACH", "DETACH", "INSTALL", "UNSET", "LOCK", "PUT", "REMOVE", "LIST", "ADD", "SAVE", "NULL", "DELIMITER", "HELP"})  # fmt: skip
_OTHERS = ("", "postgres", "snowflake", "databricks", "tsql", "bigquery")
_LONGEST_STATEMENT = 150_000
_LONGEST_TEXT = 3_000_000
_MOST_TOKENS = 60_000
_UNSTEADY = CLOCKS | RANDOM
_BODY = re.compile(r"\bLANGUAGE\s+'?(javascript|python|java|scala|c|plv8|plpython\w*)\b", re.IGNORECASE)


@dataclass
class SqlReading:
    """What a SQL text does."""

    items: list[Item] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    constraints: dict[str, set[str]] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)  # of a PL/pgSQL, PL/SQL or Snowflake block
    declaring: bool = False
    cursors: Cursors = field(default_factory=Cursors)
    texts: Texts = field(default_factory=Texts)
    routine: str = ""  # the procedure, function or trigger whose body is being read


def read_sql(source: SqlText, dialect: str) -> SqlReading:
    """Read a text in a dialect (sqlglot's name); what cannot be parsed is told and read by its tokens."""
    reading = SqlReading()
    if len(source.text) > _LONGEST_TEXT:
        reading.problems.append(
            Problem(f"is longer than {_LONGEST_TEXT // 1_000_000} MB", source.place(1), whole_file=True)
        )
        return reading
    tokens = _tokenize(source.text, dialect)
    if tokens is None:
        reading.problems.append(
            Problem("cannot be cut into words: a quote or comment does not end", source.place(1), whole_file=True)
        )
        for part, line in _rough_statements(source.text):
            reading.items.extend(read_by_tokens(source, part, line))
        return reading
    if COMPOUND.search(source.text):
        tokens = list(expanded(tokens))
    procedural = is_procedural(source.text, dialect)
    batches = [match.start() for match in _GO.finditer(source.text)]
    for chunk in split(tokens, procedural=procedural):
        if batches and batches[0] < chunk[0].start:  # GO ends the body of a routine
            reading.routine = ""
            batches = [start for start in batches if start >= chunk[0].start]
        begun, told = len(reading.items), len(reading.problems)
        place = source.place(chunk[0].line, 1)
        try:
            _read_chunk(source, dialect, chunk, reading, procedural=procedural)
        except RecursionError:
            reading.problems.append(Problem("is nested too deep to be read", place))
            reading.items.extend(read_by_tokens(source, _text_of(source, chunk), chunk[0].line))
        except Exception as error:  # noqa: BLE001 - one strange statement must not hide the others
            message = f"the statement that starts with {_start(chunk)} cannot be followed ({type(error).__name__})"
            reading.problems.append(Problem(message, place, harmless=not _WRITING & set(_upper(chunk))))
            reading.items.extend(read_by_tokens(source, _text_of(source, chunk), chunk[0].line))
        if len(reading.items) == begun and len(reading.problems) == told and _writes_after_all(chunk):
            message = f"the statement that starts with {_start(chunk)} cannot be read"
            reading.problems.append(Problem(message, place))
            reading.items.extend(read_by_tokens(source, _text_of(source, chunk), chunk[0].line))
        _belong(reading.items[begun:], reading.routine)
    return reading


def _belong(items: Sequence[Item], routine: str) -> None:
    """Note the routine in whose body statements stand."""
    for item in items:
        if isinstance(item, Write) and routine and not item.function:
            item.function = routine


_FORBIDS = frozenset({"GRANT", "REVOKE", "EXPLAIN", "COMMENT", "PRINT", "RAISERROR", "RAISE", "DECLARE", "SET", "IF", "WHILE", "HELP", "PROMPT", "REM"})  # fmt: skip


def _writes_after_all(chunk: Sequence[Token]) -> bool:
    """Tell whether the words of a statement of which nothing was read say that it writes."""
    words = _upper(chunk)
    if words[0].split(" ", maxsplit=1)[0] in _FORBIDS or _routine(words[:6]):
        return False
    return any(
        token.token_type not in _QUOTED and (token.text.upper(), after) in _PAIRS
        for token, after in zip(chunk, words[1:], strict=False)
    )


_PAIRS = frozenset({("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("DELETE", "FROM"), ("MERGE", "INTO")})
_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER, TokenType.NATIONAL_STRING})
_END = re.compile(r";(\s*)(?=END\b)", re.IGNORECASE)
_GO = re.compile(r"^([ \t]*)GO([ \t]*)$", re.IGNORECASE | re.MULTILINE)


@lru_cache(maxsize=64)
def _dialect(name: str) -> Dialect:
    return Dialect.get_or_raise(name)


def _tokenize(text: str, dialect: str) -> list[Token] | None:
    # sqlglot reads all that follows GO, or an END behind a semicolon, as one text.
    text = _GO.sub(r"\1; \2", text)
    if dialect == "tsql":
        text = _END.sub(r" \1", text)
    for name in (dialect, "", "tsql", "snowflake"):
        try:
            tokens = list(_dialect(name).tokenize(text))
            return list(_without_raw_commands(tokens, name)) if _has_raw_command(tokens) else tokens
        except (SqlglotError, ValueError, IndexError, RecursionError):
            continue
    return None


_RAW = frozenset({"FETCH", "CALL", "BEGIN", "DO", "PREPARE", "DECLARE", "EXEC", "EXECUTE"})


def _has_raw_command(tokens: Sequence[Token]) -> bool:
    strings = [index for index, token in enumerate(tokens) if token.token_type is TokenType.STRING]
    return any(index and tokens[index - 1].text.upper() in _RAW for index in strings)


_CURSOR = re.compile(r"\bCURSOR\b", re.IGNORECASE)


def _without_raw_commands(tokens: list[Token], dialect: str) -> Iterator[Token]:
    """Cut CALL …, BEGIN …, EXECUTE IMMEDIATE … and DECLARE c CURSOR … into words: sqlglot takes all up to the semicolon as one text."""
    commands = _dialect(dialect).tokenizer_class.COMMANDS
    before, command = "", False
    for token in tokens:
        raw = before in {"FETCH", "CALL", "BEGIN", "DO", "PREPARE"} or (
            before == "DECLARE" and bool(_CURSOR.search(token.text))
        )
        raw = raw or (before in {"EXEC", "EXECUTE"} and (command or token.text[:9].upper() == "IMMEDIATE"))
        before, command = token.text.upper(), token.token_type in commands
        if token.token_type is not TokenType.STRING or not raw:
            yield token
            continue
        for one in _dialect(dialect).tokenize(token.text):
            # A string token is placed at its end.
            line = token.line - token.text.count("\n") + one.line - 1
            start = token.end - len(token.text) + 1 + one.start
            yield Token(one.token_type, one.text, line, one.col, start, start + one.end - one.start)


def _rough_statements(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    for part in text.split(";"):
        yield part, line
        line += part.count("\n")


def _text_of(source: SqlText, chunk: Sequence[Token]) -> str:
    return source.text[chunk[0].start : chunk[-1].end + 1]


def _read_chunk(source: SqlText, dialect: str, chunk: list[Token], reading: SqlReading, *, procedural: bool) -> None:
    words = [
        *(chunk[0].text.upper().split() or [""]),
        *(token.text.upper() for token in chunk[1:6]),
    ]  # BEGIN TRANSACTION is one
    head = words[0]
    place = source.place(chunk[0].line, chunk[0].col - len(chunk[0].text) + 1)
    if head in {"BEGIN", "GO"} and len(chunk) > 1 and words[1] in _KEYWORDS | {"SELECT", "WITH", "SET", "DECLARE"}:
        if head == "BEGIN":
            reading.items.append(Control("block", place))
        _read_chunk(source, dialect, chunk[1:], reading, procedural=procedural)
        return
    inserts = inserts_of(chunk)
    if inserts:
        for part in inserts:
            _parse_chunk(source, dialect, part, reading)
        return
    if head in _HOLDS or (procedural and head not in _KEYWORDS):
        reading.texts.note(source, chunk)
    if procedural:
        query = reading.cursors.opened(chunk, _upper(chunk) if head in _LOOPS else words)
        if query is not None:
            if query:
                _parse_chunk(source, dialect, query, reading)
            return
    if procedural and dialect != "tsql" and _assigned(source, dialect, chunk, reading, place):
        return
    if head in {"COMMIT", "ROLLBACK", "BEGIN", "START"}:
        _control(words, chunk, dialect, place, reading, procedural=procedural)
        return
    if head == "WHILE" and procedural:  # a loop goes on until its work is done: that is no question for an earlier run
        reading.items.append(Control("other", place))
        return
    if head == "IF" and len(chunk) > 1 and procedural:
        reading.items.append(Control("guard", place, value=_text_of(source, chunk)[:300]))
        return
    if head == "END":
        reading.items.append(Control("end", place))
        return
    if _routine(words) or (head == "DROP" and any(word in _ROUTINES for word in words[1:3])):
        reading.items.append(Control("other", place))  # what an IF before it was about
    if _routine(words):
        _first_variable(source, dialect, chunk, reading, place)
        for token in chunk:
            if token.token_type in {TokenType.HEREDOC_STRING, TokenType.RAW_STRING} and not _BODY.search(
                _text_of(source, chunk)
            ):
                body = "\n" * (_first_line(source, token) - 1) + token.text
                inner = read_sql(SqlText(body, source.lines, source.column, source.holes), dialect)
                in_one = dialect in {"postgres", "redshift", ""}
                if in_one:
                    reading.items.append(Control("begin", place))
                _belong(inner.items, _routine_name(chunk))
                reading.items.extend(inner.items)
                if in_one:
                    reading.items.append(Control("commit", place))
                break
        else:
            # There a body is always a string; a trigger only names its function.
            reading.routine = "" if dialect in {"postgres", "redshift"} else _routine_name(chunk)
        return
    if head in _SKIPPED or HOLE.fullmatch(chunk[0].text):
        if len(chunk) > 2 and HOLE.fullmatch(chunk[0].text):
            reading.items.extend(read_by_tokens(source, _text_of(source, chunk), chunk[0].line))
        elif head in {"EXEC", "EXECUTE"}:
            _dynamic(source, dialect, chunk, reading)
        if head in {"CALL", "EXEC", "EXECUTE"}:
            _called(source, dialect, chunk, reading, place)
        return
    if head == "CREATE" and len(words) > 2 and words[1] in _OBJECTS and words[2] != "IF":
        name = _routine_name(chunk, _OBJECTS)
        reading.items.append(Write(Target(name, "unknown"), Mode.CREATE, place, api=f"CREATE {words[1]}"))
    _parse_chunk(source, dialect, chunk, reading)


def _upper(chunk: Sequence[Token]) -> list[str]:
    return [token.text.upper() for token in chunk]


_HOLDS = frozenset({"SET", "DECLARE", "LET", "PREPARE", "SELECT"})
_LOOPS = frozenset({"FOR", "FETCH"})
_OBJECTS = frozenset({"TASK", "STREAM", "PIPE"})
_ROUTINES = frozenset({"FUNCTION", "PROCEDURE", "PROC", "TRIGGER"})


def _routine(words: Sequence[str]) -> bool:
    if words[0] in {"DO", "PROCEDURE", "FUNCTION"}:  # the latter two in the body of a package
        return True
    return words[0] in {"CREATE", "ALTER"} and any(word in _ROUTINES for word in words[1:5])


def _routine_name(chunk: Sequence[Token], kinds: frozenset[str] = _ROUTINES) -> str:
    """Return the name behind PROCEDURE, FUNCTION or TRIGGER, without its schema."""
    name = ""
    for before, token in pairwise(chunk):
        if (not name and before.text.upper() in kinds) or (name and before.token_type is TokenType.DOT):
            name = token.text.lower()
        elif name and token.token_type is not TokenType.DOT:
            break
    return name


def _first_line(source: SqlText, token: Token) -> int:
    return source.text.count("\n", 0, token.start) + 1


def _dynamic(source: SqlText, dialect: str, chunk: list[Token], reading: SqlReading) -> None:
    """EXECUTE IMMEDIATE 'TRUNCATE TABLE t', EXEC('…') and EXEC (@sql): SQL in a string."""
    body = reading.texts.run(source, chunk)
    if body is not None:
        inner = read_sql(body, dialect)
        reading.items.extend(inner.items)
        reading.problems.extend(inner.problems)


def _called(source: SqlText, dialect: str, chunk: list[Token], reading: SqlReading, place: Place) -> None:
    """Read what a procedure is handed: CALL load(CURRENT_DATE), EXEC load @day."""
    index = 1
    while index + 1 < len(chunk) and chunk[index + 1].token_type is TokenType.DOT:
        index += 2
    if index + 1 >= len(chunk):
        return
    rest = source.text[chunk[index + 1].start : chunk[-1].end + 1]
    start = chunk[index + 1].start
    if rest.startswith("("):
        start, rest = start + 1, rest[1:].rstrip().removesuffix(")")
    line = chunk[index + 1].line
    before = "SELECT handed("
    margin = " " * (start - source.text.rfind("\n", 0, start) - 1 - len(before))  # so that columns stay where they are
    inner = SqlText("\n" * (line - 1) + f"{margin}{before}{rest})", source.lines, source.column, source.holes)
    tokens = _tokenize(inner.text, dialect)
    node = _parse(inner, dialect, tokens) if tokens else None
    if isinstance(node, exp.Select) and len(node.expressions) == 1:
        expr = Converter(inner, inner.place(line)).expr(node.expressions[0], inner.place(line))
        reading.items.append(Control("call", place, chunk[index].text.lower(), expr=expr))


def _control(
    words: Sequence[str], chunk: list[Token], dialect: str, place: Place, reading: SqlReading, *, procedural: bool
) -> None:
    head = words[0]
    if head == "START" and "TRANSACTION" not in words[:2]:
        return
    if head == "BEGIN":
        named = len(words) > 1 and words[1] in {"TRAN", "TRANSACTION", "WORK"}
        if not named and (
            len(chunk) > 1
            or (procedural and dialect in {"tsql", "oracle", "mysql", "snowflake", "bigquery", "databricks"})
        ):
            reading.items.append(Control("block", place))
            return
    kinds = {"COMMIT": "commit", "ROLLBACK": "rollback"}
    reading.items.append(Control(kinds.get(head, "begin"), place))  # type: ignore[arg-type]


def _keyword(chunk: Sequence[Token]) -> Token:
    """Return the word that says what a statement does, where it is told to stand."""
    first = chunk[0].text.upper()
    if first in _KEYWORDS:
        return chunk[0]
    found = next(
        (
            token
            for token in chunk
            if token.text.upper() in _KEYWORDS and token.token_type not in {TokenType.STRING, TokenType.IDENTIFIER}
        ),
        chunk[0],
    )
    asks = first in {"SELECT", "SET", "DECLARE", "WITH"}
    return chunk[0] if asks and found.text.upper() in _PARTS else found


_PARTS = frozenset({"UPDATE", "REPLACE", "DROP", "CREATE", "COPY", "LOAD", "TRUNCATE"})


def _parse_chunk(source: SqlText, dialect: str, chunk: list[Token], reading: SqlReading) -> None:
    keyword = _keyword(chunk)
    place = source.place(keyword.line, keyword.col - len(keyword.text) + 1)
    inner = _merge_inside(chunk)
    if inner:  # INSERT … FROM (MERGE … OUTPUT …): the merge says what is done to the table
        chunk = inner
        place = source.place(inner[0].line, inner[0].col - len(inner[0].text) + 1)
    node = _parse(source, dialect, chunk)
    if node is None:
        # Two statements with nothing between them: each may be readable by itself.
        parts = list(split(chunk, procedural=True))
        if len(parts) > 1 and all(_parse(source, dialect, part) is not None for part in parts):
            for part in parts:
                _read_chunk(source, dialect, part, reading, procedural=False)
            return
    if node is None or isinstance(node, exp.Command):
        found = list(read_by_tokens(source, _text_of(source, chunk), chunk[0].line))
        if isinstance(node, exp.Command) and not any(isinstance(item, Write) for item in found):
            return
        reading.items.extend(found)
        known = any(isinstance(item, Write) and item.api for item in found)  # BULK INSERT and LOAD DATA are understood
        known = known or (bool(found) and chunk[-1].text.upper() == "VALUES")  # the driver brings the rows
        known = known or (bool(found) and _query_is_given(chunk))
        if node is None and len(chunk) > 3 and not known:
            message = f"the statement that starts with {_start(chunk)} cannot be parsed"
            reading.problems.append(Problem(message, place, harmless=not _WRITING & set(_upper(chunk))))
        return
    clocks = [
        (token.text.lower(), source.place(token.line, token.col - len(token.text) + 1))
        for token in chunk
        if token.text.lower() in _UNSTEADY
    ]
    reader = StatementReader(Converter(source, place, clocks), place, reading.constraints)
    for item in reader.read(node):
        if isinstance(item, Write) and item.api == "SELECT INTO" and item.target.name in reading.variables:
            expr = Expr("query", query=item.query, place=item.place)
            reading.items.append(Control("assign", item.place, item.target.name, expr=expr))
        elif not (isinstance(item, Read) and reading.cursors.take(item.query)):
            if isinstance(item, Write):
                reading.cursors.attach(item)
            reading.items.append(item)


def _merge_inside(chunk: list[Token]) -> list[Token]:
    """Return the tokens of a MERGE whose output another statement inserts, as T-SQL allows."""
    if chunk[0].text.upper() != "INSERT":
        return []
    for index in range(1, len(chunk)):
        if chunk[index].text.upper() == "MERGE" and chunk[index - 1].token_type is TokenType.L_PAREN:
            depth = 1
            for end in range(index, len(chunk)):
                depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(chunk[end].token_type, 0)
                if depth == 0:
                    return chunk[index:end]
    return []


def _query_is_given(chunk: Sequence[Token]) -> bool:
    """Tell whether the query of an INSERT is handed in as a whole: `INSERT INTO {table} {query}`."""
    named = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN}
    return chunk[0].text.upper() == "INSERT" and any(
        HOLE.fullmatch(token.text) and before.token_type in named for before, token in pairwise(chunk[2:])
    )


def _first_variable(source: SqlText, dialect: str, chunk: list[Token], reading: SqlReading, place: Place) -> None:
    """Read the variable behind `CREATE PROCEDURE p IS`; those after it are statements of their own."""
    depth = 0
    for index, token in enumerate(chunk):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0 and index > 2 and token.text.upper() in {"IS", "AS"} and dialect != "tsql":
            rest = chunk[index + 1 :]
            reading.declaring = True
            if rest and rest[0].text.upper() == "CURSOR":
                _parse_chunk(source, dialect, reading.cursors.opened(rest, _upper(rest)) or rest, reading)
                return
            if rest and rest[0].token_type not in {TokenType.HEREDOC_STRING, TokenType.RAW_STRING, TokenType.STRING}:
                _assigned(source, dialect, rest, reading, place)
                reading.declaring = True
            return


def _assigned(source: SqlText, dialect: str, chunk: list[Token], reading: SqlReading, place: Place) -> bool:
    """Read `DECLARE v date := …`, `LET v := …` and `v := …`; tell whether it was one of them."""
    head = chunk[0].text.upper().partition(" ")[0]
    begins = head in STARTERS or head in _SKIPPED or head in _KEYWORDS
    reading.declaring = head == "DECLARE" or (reading.declaring and not begins)
    if begins and head not in {"DECLARE", "LET"}:
        return False
    text = _text_of(source, chunk)
    given = _ASSIGNED.match(text)
    if given is None:
        declared = _DECLARED.match(text) if reading.declaring else None
        if declared is not None:
            reading.variables.add(declared[1].lower())
        return declared is not None
    reading.variables.add(given[1].lower())
    line = _first_line(source, chunk[0]) + text[: given.start(2)].count("\n")
    inner = SqlText("\n" * (line - 1) + "SELECT " + given[2], source.lines, source.column, source.holes)
    tokens = _tokenize(inner.text, dialect)
    node = _parse(inner, dialect, tokens) if tokens else None
    if isinstance(node, exp.Select) and node.expressions:
        expr = Converter(inner, inner.place(line)).expr(node.expressions[0], inner.place(line))
        reading.items.append(Control("assign", place, given[1].lower(), expr=expr))
    return True


_ASSIGNED = re.compile(r"(?:(?:DECLARE|LET)\s+)?([A-Za-z_]\w*)\b[\w\s().,%\[\]]*?:=\s*(.+)", re.IGNORECASE | re.DOTALL)
# DECLARE x DATE DEFAULT … is read as a statement.
_DECLARED = re.compile(
    r"(?:DECLARE\s+)?([A-Za-z_]\w*)\s+(?!.*\bDEFAULT\b)\w[\w\s().,%\[\]]*$", re.IGNORECASE | re.DOTALL
)


def _start(chunk: Sequence[Token]) -> str:
    return " ".join(token.text for token in chunk[:3])[:60]


def _parse(source: SqlText, dialect: str, chunk: list[Token]) -> exp.Expression | None:
    if len(chunk) > _MOST_TOKENS:
        return None
    node = _try(dialect, chunk, source.text)
    if node is not None:
        return node
    text = _text_of(source, chunk)
    if len(text) > _LONGEST_STATEMENT:
        return None
    padding = "\n" * (chunk[0].line - 1)
    if re.match(r"\s*REPLACE\s+INTO", text, re.IGNORECASE):
        return None
    variants = [text]
    if HOLE.search(text):
        variants.append(_without_odd_holes(text))
    if _NOTHING_ON.search(text):
        variants.append(_NOTHING_ON.sub("ON tw_given", text))
    for variant in variants:
        for name in (dialect, *_OTHERS):
            if variant == text and name == dialect:
                continue
            try:
                tokens = list(_dialect(name).tokenize(padding + variant))
            except (SqlglotError, ValueError, IndexError):
                continue
            found = _try(name, tokens, padding + variant)
            if found is not None and not isinstance(found, exp.Command):
                return found
    return None


# What a loop of the program puts together, and nobody knows: MERGE … ON {conditions} WHEN MATCHED …
_NOTHING_ON = re.compile(r"\bON(?=\s+WHEN\s+(NOT\s+)?MATCHED\b)", re.IGNORECASE)
_LONE_HOLE = re.compile(r"^[ \t]*__tw_hole_\d+__[ \t]*,?[ \t]*$", re.MULTILINE | re.IGNORECASE)
_TRAILING_HOLE = re.compile(r"(?<=[\w)'])([ \t]+__tw_hole_\d+__)(?=[ \t]*(\n|$|\)))", re.IGNORECASE)


def _without_odd_holes(text: str) -> str:
    """Remove holes that stand for whole clauses: alone on their line, or behind a finished condition."""
    return _TRAILING_HOLE.sub("", _LONE_HOLE.sub("", text))


def _try(dialect: str, tokens: list[Token], text: str) -> exp.Expression | None:
    try:
        parsed = _dialect(dialect).parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
    except (SqlglotError, ValueError, IndexError, KeyError, AttributeError, TypeError, AssertionError):
        return None
    found = [node for node in parsed if node is not None]
    return cast("exp.Expression", found[0]) if len(found) == 1 else None


def is_mode(item: Item, mode: Mode) -> bool:
    """Tell whether an item is a write of that mode."""
    return isinstance(item, Write) and item.mode is mode
