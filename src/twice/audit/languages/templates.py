"""Templates in SQL: Jinja of dbt and Airflow, `${x}`, `$(x)`, `%(x)s`, `:'x'`; every line stays where it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from twice.audit.expressions import Expr, Origin, OriginKind
from twice.audit.languages.sql.sources import HOLE, hole_name
from twice.audit.places import Place

LOGICAL_DATES = frozenset(
    {
        "ds", "ds_nodash", "ts", "ts_nodash", "ts_nodash_with_tz", "execution_date", "logical_date", "data_interval_start",
        "data_interval_end", "next_ds", "next_ds_nodash", "prev_ds", "prev_ds_nodash", "tomorrow_ds", "yesterday_ds", "next_execution_date",
        "prev_execution_date", "yesterday_ds_nodash", "tomorrow_ds_nodash", "dag_run", "start_ds", "end_ds", "start_date", "end_date",
        "partition_key", "partition_time_window",
    }
)  # fmt: skip
_OPENS = re.compile(r"\{[#%{]")
# A macro in the place of a whole query: WITH x AS ({{ macro(…) }})
_OPENS_QUERY = re.compile(r"\bas\s*\(\s*$", re.IGNORECASE)
_CLOSES_QUERY = re.compile(r"\s*\)")
_ENDS = {"{#": "#}", "{%": "%}", "{{": "}}"}
_INSIDE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[%}]\}""", re.DOTALL)
_CLOCK = re.compile(
    r"\brun_started_at\b|\b(datetime|date|pytz|pendulum|dbt_date|macros\.datetime)\b[\w.]*\.(now|today|utcnow|yesterday|tomorrow|n_\w+_ago|n_\w+_away)\s*\("
    r"|\bdbt_date\.\w*(now|today|yesterday|tomorrow|_ago|_away)\w*\s*\(|\bdbt_date\.(last|next|this)_\w+\s*\("
    r"|(^|[^\w.])(dbt\.|dbt_utils\.|dbt_date\.)?(current_timestamp|current_timestamp_in_utc|current_timestamp_in_utc_backcompat|current_date|getdate|snapshot_get_time|today|current_timestamp_backcompat)\s*\("
)
# What is given comes first, and a clock behind it is only read if nothing was: var('day', today()), params.day or …
_GIVEN = re.compile(
    r"(var|env_var|dag_run\.conf\.get|params\.get)\s*\(\s*['\"]|(params|dag_run|conf)\b[\w.\[\]'\"]*\s*(or\b|\|)"
)
_DEVELOPMENT = re.compile(
    r"\btarget\.(name|profile_name|schema|database)\b|is_test_run|\bdev\b|\bflags\.|limit_data|is_ci|env_var\(.DBT_(ENV|TARGET)|var\(.(is_test|dev|sample|ci|limit)",
    re.IGNORECASE,
)
# What a run does by default is not limited to development: var('is_test_run', default=true).
_ON_BY_DEFAULT = re.compile(r"var\(\s*['\"]\w+['\"]\s*,\s*(default\s*=\s*)?true\s*\)(\s*==\s*true)?$", re.IGNORECASE)
_PLAIN = re.compile(
    # Each begins with a character, so that one look per character of the text is enough.
    r"\$\{(?:hiveconf:|hivevar:|system:|env:)?([\w.:-]+)\}|\$\((\w+)\)|%\((\w+)\)s|%(?<![\w'%]%)s(?!\w)|:'(\w+)'|:\"(\w+)\"|&(?<=[\s=(,]&)&?(\w+)\.?|&\{(\w+)\}"
)


@dataclass
class Filled:
    """A text whose templates are filled, and what they contained."""

    text: str = ""
    holes: dict[int, Expr] = field(default_factory=dict)
    config: dict[str, ast.expr] = field(default_factory=dict)
    config_line: int = 0
    incremental_lines: list[tuple[int, int]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)  # dbt vars and Airflow names that are used, with their tag
    queries: list[tuple[str, int]] = field(default_factory=list)  # SQL in {% set x %} … and run_query
    is_incremental: bool = False
    logical_dates: bool = False


def fill(text: str, *, this: str = "this", dbt: bool = False, first_hole: int = 0) -> Filled:
    """Fill the templates of a text with names and holes."""
    filler = _Filler(this, dbt=dbt, first_hole=first_hole)
    if "{{" in text or "{%" in text or "{#" in text:
        text = filler.jinja(text)
    if "$" in text or "%" in text or ":'" in text or "&" in text:
        text = filler.plain(text)
    filler.filled.text = text
    return filler.filled


def _tags(text: str) -> Iterator[tuple[int, int]]:
    """Yield where tags begin and end; a quoted `}}` does not end one."""
    position = 0
    while True:
        opens = _OPENS.search(text, position)
        if opens is None:
            return
        start, end = opens.start(), -1
        closing = _ENDS[opens[0]]
        if closing == "#}":
            found = text.find(closing, start)
            end = found + 2 if found >= 0 else -1
        else:
            for match in _INSIDE.finditer(text, start + 2):
                if match[0] == closing:
                    end = match.end()
                    break
        plain = text.find(closing, start)
        if end < 0:
            end = plain + 2 if plain >= 0 else -1
        if end < 0:
            return
        yield start, end
        position = end


class _Filler:
    def __init__(self, this: str, *, dbt: bool, first_hole: int) -> None:
        self.this = this
        self.dbt = dbt
        self.filled = Filled()
        self.sets: dict[str, str | Expr] = {}
        self._next = first_hole

    # tags -------------------------------------------------------------------------------------------------------

    def jinja(self, text: str) -> str:
        out: list[str] = []
        blocks: list[_Block] = []
        position = 0
        line = 1
        for start, end in _tags(text):
            before = text[position:start]
            self._put(out, before, blocks)
            line += before.count("\n")
            tag = text[start:end]
            if tag.startswith("{{"):
                inner = tag[2:-2].strip().strip("-").strip()
                value = self._value(inner, line)
                if HOLE.fullmatch(value) and _OPENS_QUERY.search(before) and _CLOSES_QUERY.match(text, end):
                    value = f"select * from {self._relation(inner) or value}"  # noqa: S608 - only read, never run
                self._put(out, value + "\n" * tag.count("\n"), blocks)
            elif tag.startswith("{%"):
                inner = tag[2:-2].strip().strip("-").strip()
                out.append(self._statement(inner, line, blocks, len(out), out))
                out.append("\n" * tag.count("\n"))
            else:
                out.append("\n" * tag.count("\n"))
            line += tag.count("\n")
            position = end
        self._put(out, text[position:], blocks)
        return "".join(out)

    def _put(self, out: list[str], text: str, blocks: list[_Block]) -> None:
        for block in blocks:
            if block.name == "set":
                block.text += text
        if all(block.live for block in blocks):
            out.append(text)
        else:
            out.append("\n" * text.count("\n"))

    def _statement(self, inner: str, line: int, blocks: list[_Block], _index: int, _out: list[str]) -> str:
        word, _, rest = inner.partition(" ")
        if word == "if":
            blocks.append(self._if(rest, line))
        elif word in {"elif", "else"} and blocks and blocks[-1].name in {"if", "for"}:
            block = blocks[-1]
            if block.name == "for":
                block.live = False
                return ""
            self._leave_incremental(block, line)
            if block.taken:
                block.live = False
            else:
                condition = rest if word == "elif" else ""
                chosen = self._if(condition, line) if condition else _Block("if", live=True, taken=True)
                block.live, block.taken, block.incremental = chosen.live, chosen.live, chosen.incremental
        elif word == "for":
            names = re.match(r"([\w\s,]+?)\s+in\b", rest)
            for name in (names[1] if names else "").split(","):
                self.sets.pop(name.strip(), None)
            blocks.append(_Block("for", live=True, start=line))
        elif word == "set" and "=" not in rest:
            blocks.append(_Block("set", live=False, start=line, variable=rest.strip()))
        elif word == "set":
            name, _, value = rest.partition("=")
            self._set(name.strip(), value.strip(), line)
        elif word in {"macro", "snapshot", "test", "materialization", "raw", "filter", "block", "autoescape", "with"}:
            blocks.append(_Block(word, live=True, start=line))
        elif word.startswith("call"):
            blocks.append(_Block("call", live=True, start=line))
        elif word.startswith("end") and blocks:
            block = blocks.pop()
            self._leave_incremental(block, line)
            if block.name == "set":
                self.sets[block.variable] = block.text.strip()
                self.filled.queries.append((block.text, block.start))
            return ";" if block.name in {"call", "macro"} else ""
        elif word == "do" and "run_query" in rest:
            self._queries_in(rest, line)
        return ""

    def _if(self, condition: str, line: int) -> _Block:
        text = condition.strip()
        if "is_incremental()" in text:
            positive = not re.search(r"\bnot\s+is_incremental\(\)", text)
            self.filled.is_incremental = True
            return _Block("if", live=positive, taken=positive, start=line, incremental=positive)
        if "loop.last" in text or "loop.first" in text:
            return _Block("if", live=False, taken=True, start=line)
        if text in {"execute", "not execute"}:
            return _Block("if", live=text == "execute", taken=text == "execute", start=line)
        if _DEVELOPMENT.search(text) and not _ON_BY_DEFAULT.match(text):
            return _Block("if", live=False, taken=False, start=line)
        return _Block("if", live=True, taken=True, start=line)

    def _leave_incremental(self, block: _Block, line: int) -> None:
        if block.incremental and block.live:
            self.filled.incremental_lines.append((block.start, line))

    # values -----------------------------------------------------------------------------------------------------

    def _set(self, name: str, value: str, line: int) -> None:
        if _CLOCK.search(value):
            self.sets[name] = self._origin_expr("clock", value, line)
            return
        if (
            "run_query" in value
            or "get_single_value" in value
            or "get_column_values" in value
            or "max(" in value.lower()
        ):
            self._queries_in(value, line)
            match = re.search(r"max\s*\(\s*([\w.]+)", value, re.IGNORECASE)
            source = next(
                (self.sets[word] for word in re.findall(r"\w+", value) if isinstance(self.sets.get(word), str)), ""
            )
            if not match and isinstance(source, str):
                match = re.search(r"max\s*\(\s*([\w.]+)", source, re.IGNORECASE)
            if match:
                reads_this = re.search(r"\bthis\b", value + (source if isinstance(source, str) else ""))
                table = self.this if reads_this else ""
                if not table and isinstance(source, str):
                    from_ = re.search(rf"\bfrom\s+({re.escape(self.this)})\b", source, re.IGNORECASE)
                    table = from_[1] if from_ else ""
                place = Place(line)
                self.sets[name] = Expr(
                    "python",
                    name,
                    place=place,
                    origins=frozenset({Origin("watermark", f"MAX({match[1]})", place, table=table)}),
                )
                return
        chained = next(
            (self.sets[word] for word in re.findall(r"\w+", value) if isinstance(self.sets.get(word), Expr)), None
        )
        if isinstance(chained, Expr) and chained.origins:
            self.sets[name] = chained
            return
        tree = _tree(value)
        if isinstance(tree, ast.Constant) and isinstance(tree.value, (str, int)):
            self.sets[name] = str(tree.value)
        elif re.match(r"var\s*\(|env_var\s*\(", value):
            filled = self._value(value, line)
            match = HOLE.search(filled)
            self.sets[name] = self.filled.holes[int(match[1])] if match else filled
        else:
            self.sets.pop(name, None)
            if re.search(r"\bthis\b", value) and tree is not None and isinstance(tree, ast.Name):
                self.sets[name] = self.this

    def _queries_in(self, value: str, line: int) -> None:
        for match in re.finditer(r"""(["'])(.*?)\1""", value, re.DOTALL):
            if re.match(r"\s*(select|with|insert|delete|update|merge|truncate)\b", match[2], re.IGNORECASE):
                self.filled.queries.append((match[2], line + value[: match.start()].count("\n")))

    def _hole(self, expr: Expr) -> str:
        number = self._next
        self._next += 1
        self.filled.holes[number] = expr
        return hole_name(number)

    def _origin_expr(self, kind: OriginKind, name: str, line: int, *, fallback: bool = False) -> Expr:
        place = Place(line)
        return Expr("python", name, place=place, origins=frozenset({Origin(kind, name, place, fallback=fallback)}))

    def _value(self, inner: str, line: int) -> str:
        """Return what stands for `{{ inner }}`."""
        name = re.match(r"[\w.]+", inner)
        word = name[0] if name else ""
        if word == "config" or word.endswith(".config"):
            self._config(inner, line)
            return ""
        tree = _tree(inner.split("|", maxsplit=1)[0].strip())
        if word in {"ref", "source", "builtins.ref"} and isinstance(tree, ast.Call):
            texts = [arg.value for arg in tree.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if texts:
                return ".".join(_identifier(text) for text in (texts if word == "source" else texts[-1:]))
        if inner == "this" or word in {"this.identifier", "this.name", "this.table"}:
            return self.this
        if inner in self.sets:
            value = self.sets[inner]
            if isinstance(value, Expr):
                return self._hole(value)
            return value.replace("\n", " ") if len(value) < 5000 else ""
        surrogate = self._macro(word, tree, line)
        if surrogate is not None:
            return surrogate
        if _CLOCK.search(inner):
            shown = inner.split("|", maxsplit=1)[0].strip()
            return self._hole(self._origin_expr("clock", shown, line, fallback=bool(_GIVEN.match(inner))))
        base = word.split(".")[0]
        if base in LOGICAL_DATES or (base == "macros" and re.search(r"\b(" + "|".join(LOGICAL_DATES) + r")\b", inner)):
            self.filled.logical_dates = True
            self.filled.variables.setdefault(base, "logical date")
            return self._hole(
                Expr("param", inner, place=Place(line), origins=frozenset({Origin("parameter", inner, Place(line))}))
            )
        if word == "var" or base in {"params", "var", "dag_run"}:
            given = (
                [arg.value for arg in tree.args if isinstance(arg, ast.Constant)] if isinstance(tree, ast.Call) else []
            )
            shown = str(given[0]) if given else inner
            if base == "var" and re.match(r"var\.(value|json)", word):
                return self._hole(self._origin_expr("state", inner, line))
            self.filled.variables.setdefault(shown, "var")
            return self._hole(
                Expr("param", shown, place=Place(line), origins=frozenset({Origin("parameter", shown, Place(line))}))
            )
        if word == "env_var":
            return self._hole(self._origin_expr("environment", inner, line))
        if base in {"ti", "task_instance"} and "xcom_pull" in inner:
            return self._hole(self._origin_expr("state", inner, line))
        if word.endswith(("star", "get_filtered_columns_in_relation")):
            return "*"
        for variable in re.findall(r"\w+", inner):
            chained = self.sets.get(variable)
            if isinstance(chained, Expr):
                return self._hole(chained)
        return self._hole(Expr("python", inner[:80], place=Place(line)))

    def _macro(self, word: str, tree: ast.expr | None, line: int) -> str | None:
        last = word.rsplit(".", 1)[-1]
        if not isinstance(tree, ast.Call):
            return None
        texts = [str(arg.value) if isinstance(arg, ast.Constant) else ast.unparse(arg) for arg in tree.args]
        if last in {"generate_surrogate_key", "surrogate_key", "hash_key", "generate_hash_key"}:
            first = tree.args[0] if tree.args else None
            items = first.elts if isinstance(first, (ast.List, ast.Tuple)) else tree.args
            names = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            return f"tw_surrogate_key({', '.join(names)})"
        if last == "deduplicate":
            return self._deduplicated(tree, line)
        if word.startswith(("dbt.", "dbt_utils.")):
            if last == "dateadd" and len(texts) == 3:
                return f"dateadd({texts[0]}, {texts[1]}, {self._inner(texts[2], line)})"
            if last == "date_trunc" and len(texts) == 2:
                return f"date_trunc('{texts[0]}', {self._inner(texts[1], line)})"
            if last == "datediff" and len(texts) == 3:
                return f"datediff({self._inner(texts[0], line)}, {self._inner(texts[1], line)})"
            if last in {"safe_cast", "cast"} and texts:
                return f"cast({self._inner(texts[0], line)} as text)"
        return None

    def _relation(self, inner: str) -> str:
        """Return the table that a macro is handed which stands for a whole query."""
        tree = _tree(inner)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"ref", "source"}:
                return self._value(ast.unparse(node), 1)
            if isinstance(node, ast.keyword) and node.arg in {"relation", "from"}:
                return next(texts_of(node.value), "")
        return ""

    def _deduplicated(self, tree: ast.Call, line: int) -> str | None:
        """Write dbt_utils.deduplicate(…) as the query that it stands for."""
        given = dict(zip(("relation", "partition_by", "order_by"), tree.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in tree.keywords if keyword.arg}
        relation = given.get("relation")
        by, order = (next(texts_of(given.get(name)), "") for name in ("partition_by", "order_by"))
        table = next(texts_of(relation), "") or (self._value(ast.unparse(relation), line) if relation else "")
        if not table or not by:
            return None
        ordered = f" order by {order}" if order else ""
        numbered = f"select *, row_number() over (partition by {by}{ordered}) as tw_rn from {table}"  # noqa: S608 - only read
        return f"select * from ({numbered}) where tw_rn = 1"  # noqa: S608 - only read, never run

    def _inner(self, text: str, line: int) -> str:
        """A macro's argument: SQL text, or a call of another macro."""
        return (
            self._value(text, line)
            if re.match(r"(dbt|dbt_utils|dbt_date)\.|current_timestamp\(|run_started_at|var\(", text)
            else text
        )

    def _config(self, inner: str, line: int) -> None:
        tree = _tree(inner)
        if isinstance(tree, ast.Call):
            self.filled.config_line = self.filled.config_line or line
            for given in tree.args:  # config({"materialized": "incremental", …})
                if isinstance(given, ast.Dict):
                    for key, value in zip(given.keys, given.values, strict=True):
                        if isinstance(key, ast.Constant) and isinstance(key.value, str):
                            self.filled.config[key.value] = value
            for keyword in tree.keywords:
                if keyword.arg:
                    self.filled.config[keyword.arg] = keyword.value

    # other templates ----------------------------------------------------------------------------------------------

    def plain(self, text: str) -> str:
        line, counted = 1, 0

        def change(match: re.Match[str]) -> str:
            nonlocal line, counted
            name = next((group for group in match.groups() if group), "?")
            line, counted = line + text.count("\n", counted, match.start()), match.start()
            place = Place(line)
            return self._hole(Expr("param", name, place=place, origins=frozenset({Origin("parameter", name, place)})))

        return _PLAIN.sub(change, text)


@dataclass
class _Block:
    name: str
    live: bool = True
    taken: bool = True
    start: int = 0
    incremental: bool = False
    variable: str = ""
    text: str = ""


def _identifier(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f'"{text}"'


def _tree(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        try:
            return ast.parse(_jinja_words(text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _jinja_words(text: str) -> str:
    """Jinja writes true, none and ~ where Python writes True, None and +."""
    text = re.sub(r"\btrue\b", "True", text)
    text = re.sub(r"\bfalse\b", "False", text)
    return re.sub(r"\bnone\b", "None", text).replace(" ~ ", " + ")


def texts_of(node: ast.expr | None) -> Iterator[str]:
    """Yield the texts of a literal: a text, or a list of texts."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bool, int)):
        yield str(node.value)
    elif isinstance(node, (ast.List, ast.Tuple)):
        for item in node.elts:
            yield from texts_of(item)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"var", "env_var"}:
        yield from texts_of(node.args[1] if len(node.args) > 1 else None)  # the default
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "field":
                yield from texts_of(value)
