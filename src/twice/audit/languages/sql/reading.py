"""Read a SQL text: tokens, statements, parse each, and fall back to tokens for the one that cannot be parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from twice.audit.expressions import Expr
from twice.audit.languages.sql.convert import Converter
from twice.audit.languages.sql.cursors import Cursors
from twice.audit.languages.sql.dynamic import Texts
from twice.audit.languages.sql.fallback import read_by_tokens
from twice.audit.languages.sql.items import Control, Item, Read
from twice.audit.languages.sql.parsing import GO, parsed, text_of_chunk, tokenized
from twice.audit.languages.sql.rewriting import COMPOUND, expanded, inserts_of
from twice.audit.languages.sql.scripts import is_javascript, statements_in
from twice.audit.languages.sql.sources import HOLE, SqlText
from twice.audit.languages.sql.splitting import STARTERS, is_procedural, split
from twice.audit.languages.sql.statements import StatementReader
from twice.audit.model import Mode, Problem, Target, Write
from twice.audit.places import Place

_KEYWORDS = frozenset({"INSERT", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "COPY", "LOAD", "DROP", "CREATE", "REPLACE"})
_WRITING = _KEYWORDS | {"UNLOAD", "EXPORT", "OVERWRITE", "EXEC", "EXECUTE", "CALL"}
_SKIPPED = frozenset({"GO", "ELSE", "END", "THEN", "LOOP", "PRINT", "RETURN", "RAISE", "RAISERROR", "THROW", "EXCEPTION", "OPEN", "FETCH", "CLOSE", "DEALLOCATE", "USE", "TRY", "VACUUM", "ANALYZE", "OPTIMIZE", "REFRESH", "GRANT", "REVOKE", "COMMENT", "EXPLAIN", "DESCRIBE", "SHOW", "MSCK", "UNLOAD", "PERFORM", "CALL", "EXEC", "EXECUTE", "EXIT", "WHENEVER", "PROMPT", "SPOOL", "REM", "PRAGMA", "PREPARE", "ATTACH", "DETACH", "INSTALL", "UNSET", "LOCK", "PUT", "REMOVE", "LIST", "ADD", "SAVE", "NULL", "DELIMITER", "HELP"})  # fmt: skip
_LONGEST_TEXT = 3_000_000
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
    """Read a text in a dialect (sqlglot's name); what cannot be parsed is reported and read by its tokens."""
    reading = SqlReading()
    if len(source.text) > _LONGEST_TEXT:
        reading.problems.append(
            Problem(f"is longer than {_LONGEST_TEXT // 1_000_000} MB", source.place(1), whole_file=True)
        )
        return reading
    tokens = tokenized(source.text, dialect)
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
    batches = [match.start() for match in GO.finditer(source.text)]
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
            reading.items.extend(read_by_tokens(source, text_of_chunk(source, chunk), chunk[0].line))
        except Exception as error:  # noqa: BLE001 - one strange statement must not hide the rest
            message = f"the statement that starts with {_start(chunk)} cannot be followed ({type(error).__name__})"
            reading.problems.append(Problem(message, place, harmless=not _WRITING & set(_upper(chunk))))
            reading.items.extend(read_by_tokens(source, text_of_chunk(source, chunk), chunk[0].line))
        if len(reading.items) == begun and len(reading.problems) == told and _writes_after_all(chunk):
            message = f"the statement that starts with {_start(chunk)} cannot be read"
            reading.problems.append(Problem(message, place))
            reading.items.extend(read_by_tokens(source, text_of_chunk(source, chunk), chunk[0].line))
        _belong(reading.items[begun:], reading.routine)
    return reading


def _belong(items: Sequence[Item], routine: str) -> None:
    """Note the routine in whose body statements stand."""
    for item in items:
        if isinstance(item, Write) and routine and not item.function:
            item.function = routine


_FORBIDS = frozenset({"GRANT", "REVOKE", "EXPLAIN", "COMMENT", "PRINT", "RAISERROR", "RAISE", "DECLARE", "SET", "IF", "WHILE", "HELP", "PROMPT", "REM"})  # fmt: skip


def _writes_after_all(chunk: Sequence[Token]) -> bool:
    """Return whether a statement of which nothing was read writes, by its words."""
    words = _upper(chunk)
    if words[0].split(" ", maxsplit=1)[0] in _FORBIDS or _routine(words[:6]):
        return False
    return any(
        token.token_type not in _QUOTED and (token.text.upper(), after) in _PAIRS
        for token, after in zip(chunk, words[1:], strict=False)
    )


_PAIRS = frozenset({("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("DELETE", "FROM"), ("MERGE", "INTO")})
_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER, TokenType.NATIONAL_STRING})


def _rough_statements(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    for part in text.split(";"):
        yield part, line
        line += part.count("\n")


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
    if head == "WHILE" and procedural:  # a loop runs until its work is done: that is not a check for an earlier run
        reading.items.append(Control("other", place))
        return
    if head == "IF" and len(chunk) > 1 and procedural:
        reading.items.append(Control("guard", place, value=text_of_chunk(source, chunk)[:300]))
        return
    if head == "END":
        reading.items.append(Control("end", place))
        return
    if _routine(words) or (head == "DROP" and any(word in _ROUTINES for word in words[1:3])):
        reading.items.append(Control("other", place))  # what an IF before it was about
    if _routine(words):
        _first_variable(source, dialect, chunk, reading, place)
        said = text_of_chunk(source, chunk)
        script = is_javascript(said)
        for token in chunk:
            body_token = token.token_type in {TokenType.HEREDOC_STRING, TokenType.RAW_STRING}
            if body_token and (script or not _BODY.search(said)):
                held = statements_in(token.text) if script else token.text
                body = "\n" * (_first_line(source, token) - 1) + held
                inner = read_sql(SqlText(body, source.lines, source.column, source.holes), dialect)
                in_one = dialect in {"postgres", "redshift", ""} and not script
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
            reading.items.extend(read_by_tokens(source, text_of_chunk(source, chunk), chunk[0].line))
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
    tokens = tokenized(inner.text, dialect)
    node = parsed(inner, dialect, tokens) if tokens else None
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
    """Return the word that says what a statement does, where it is expected."""
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
    node = parsed(source, dialect, chunk)
    if node is None or (isinstance(node, exp.Command) and keyword.text.upper() == "CREATE"):
        # Two statements with nothing between them: each may be readable by itself.
        parts = list(split(chunk, procedural=True))
        if len(parts) > 1 and all(_reads_alone(parsed(source, dialect, part), node) for part in parts):
            for part in parts:
                _read_chunk(source, dialect, part, reading, procedural=False)
            return
    if node is None or isinstance(node, exp.Command):
        found = list(read_by_tokens(source, text_of_chunk(source, chunk), chunk[0].line))
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
    reader = StatementReader(Converter(source, place, chunk), place, reading.constraints)
    for item in reader.read(node):
        if isinstance(item, Write) and item.api == "SELECT INTO" and item.target.name in reading.variables:
            expr = Expr("query", query=item.query, place=item.place)
            reading.items.append(Control("assign", item.place, item.target.name, expr=expr))
        elif not (isinstance(item, Read) and reading.cursors.take(item.query)):
            if isinstance(item, Write):
                reading.cursors.attach(item)
            reading.items.append(item)


def _reads_alone(part: exp.Expression | None, whole: exp.Expression | None) -> bool:
    """Return whether a part is a statement by itself; of what was taken as a mere command, no part may be one again."""
    return part is not None and (whole is None or not isinstance(part, exp.Command))


def _merge_inside(chunk: list[Token]) -> list[Token]:
    """Return the tokens of a MERGE whose output another statement inserts, as T-SQL allows."""
    if chunk[0].text.upper() != "INSERT":
        return []
    for index in range(1, len(chunk)):
        if chunk[index - 1].token_type is TokenType.L_PAREN and chunk[index].text.upper() == "MERGE":
            depth = 1
            for end in range(index, len(chunk)):
                depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(chunk[end].token_type, 0)
                if depth == 0:
                    return chunk[index:end]
    return []


def _query_is_given(chunk: Sequence[Token]) -> bool:
    """Return whether the query of an INSERT is handed in as a whole: `INSERT INTO {table} {query}`."""
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
    """Read `DECLARE v date := …`, `LET v := …` and `v := …`; return whether it was one of them."""
    head = chunk[0].text.upper().partition(" ")[0]
    begins = head in STARTERS or head in _SKIPPED or head in _KEYWORDS
    reading.declaring = head == "DECLARE" or (reading.declaring and not begins)
    if begins and head not in {"DECLARE", "LET"}:
        return False
    text = text_of_chunk(source, chunk)
    given = _ASSIGNED.match(text)
    if given is None:
        declared = _DECLARED.match(text) if reading.declaring else None
        if declared is not None:
            reading.variables.add(declared[1].lower())
        return declared is not None
    reading.variables.add(given[1].lower())
    line = _first_line(source, chunk[0]) + text[: given.start(2)].count("\n")
    inner = SqlText("\n" * (line - 1) + "SELECT " + given[2], source.lines, source.column, source.holes)
    tokens = tokenized(inner.text, dialect)
    node = parsed(inner, dialect, tokens) if tokens else None
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
