"""Read a Python file, or an exported notebook, into the statement model."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import PurePath

from twice.audit.languages.building import JobBuilder
from twice.audit.languages.exported import exported
from twice.audit.languages.magics import has_magic
from twice.audit.languages.python.broken import read_broken
from twice.audit.languages.python.interpreter import Interpreter
from twice.audit.languages.python.scopes import TooMuch
from twice.audit.languages.python.values import Text
from twice.audit.languages.sql.dialects import DIALECTS
from twice.audit.model import Job, Problem, Write
from twice.audit.places import Place

_LONGEST = 2_000_000
# A file without any of these words cannot hold anything that the rules look at.
_WORTH = re.compile(
    r"spark|\bwrite|insert|delete|merge|truncate|update|select|to_sql|to_gbq|execute|\.sql\b|airflow|dagster|prefect|requests|httpx|urlopen|post\(|send|publish|produce|\bnow\(|today\(|uuid|stripe|slack|smtp|DAG\(|dynamic_frame|to_parquet|to_csv|save|foreach|payment|\bcopy|\bdump\(|_item\("
    r"|bigquery|\bboto|sqlalchemy|peewee|\.objects\.|elasticsearch|opensearch|mongo|kafka|redis|put_object|put_record|upload|utcnow|telegram"
    r"|deltalake|iceberg|awswrangler|\bdlt\b|\bdbt\b|pyspark\.pipelines|twilio|braintree|adyen|razorpay|mollie|gspread|supabase|clickhouse",
    re.IGNORECASE,
)
# INSERT … WHERE NOT EXISTS (…), NOT IN (…), an anti join.
_CHECKS_FIRST = re.compile(
    r"\s*insert\s+into\b.*\bselect\b.*(\bnot\s+(in|exists)\s*\(\s*select\b|\banti\s+join\b|\bleft\s+(outer\s+)?join\b.*\bis\s+null\b)",
    re.IGNORECASE | re.DOTALL,
)
_SPARK = re.compile(r"pyspark|\bspark\b")
_DEEPEST_NEIGHBOUR = 2
# Helpers are few and small; what is more is a library, and nothing is won by following it.
_MOST_NEIGHBOURS = 10
_LONGEST_NEIGHBOUR = 100_000
_ELSEWHERE = sys.stdlib_module_names | {
    "pyspark", "pandas", "numpy", "airflow", "dagster", "prefect", "sqlalchemy", "requests", "boto3", "delta", "psycopg2", "google", "click", "yaml",
}  # fmt: skip


def parse(text: str) -> ast.Module:
    """Parse Python, with the warnings of its strings kept away."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def read_python(path: str, text: str, dialect: str, neighbour: Callable[[str], str | None]) -> Job:
    """Read one Python file."""
    job = Job(path, "python", text, dialect=DIALECTS.get(dialect, dialect))
    builder = JobBuilder(job)
    if len(text) > _LONGEST:
        job.problems.append(Problem("is longer than 2 MB", Place(1), whole_file=True))
        return job
    source = text
    if "# COMMAND ----------" in text or "# MAGIC" in text:
        source = exported(text)
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        found = _with_magic(text)
        if found is None:
            line = getattr(error, "lineno", None) or 1
            reason = getattr(error, "msg", None) or type(error).__name__
            job.problems.append(Problem(f"cannot be parsed as Python: {reason}", Place(max(1, line)), whole_file=True))
            read_broken(builder, source)
            return builder.finish()
        tree, source = found
    if not _WORTH.search(text):
        return job
    run(builder, tree, source, neighbour)
    return builder.finish()


def _with_magic(text: str) -> tuple[ast.Module, str] | None:
    """Read a file that is only Python once the magic commands of a notebook are taken out."""
    if not has_magic(text):
        return None
    source = exported(text)
    try:
        return parse(source), source
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def run(builder: JobBuilder, tree: ast.Module, source: str, neighbour: Callable[[str], str | None]) -> None:
    """Run a module symbolically."""
    interpreter = Interpreter(builder, tree, source, _Neighbours(neighbour, builder.job.dialect).load)
    interpreter.spark = "SparkSession" in source or ("spark" in source and bool(_SPARK.search(source)))
    try:
        interpreter.run()
        if not builder.job.writes:
            _read_constants(interpreter, tree)
    except RecursionError:
        builder.job.problems.append(Problem("is nested too deep to be followed", Place(1)))
    _order_by_tasks(builder.job)


class _Neighbours:
    """The modules beside a file that it imports, run for their definitions."""

    def __init__(self, read: Callable[[str], str | None], dialect: str) -> None:
        self._read = read
        self._dialect = dialect
        self._loaded: dict[str, Interpreter | None] = {}

    def load(self, name: str, depth: int = 0) -> Interpreter | None:
        """Return a module by the name that the first file would import it by, if it is beside it."""
        loaded = self._loaded
        if name in loaded or depth > _DEEPEST_NEIGHBOUR or name.split(".", maxsplit=1)[0] in _ELSEWHERE:
            return loaded.get(name)
        loaded[name] = None
        if sum(one is not None for one in loaded.values()) >= _MOST_NEIGHBOURS:
            return None
        for candidate in _paths(name):
            text = self._read(candidate)
            if text is None or len(text) > _LONGEST_NEIGHBOUR:
                continue
            try:
                tree = parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
            quiet = JobBuilder(Job(candidate, "python", text, dialect=self._dialect))
            inner = Interpreter(quiet, tree, text, lambda other: self.load(_relative(name, other), depth + 1))
            inner.quiet = True
            try:
                inner.block([one for one in tree.body if not isinstance(one, ast.If)])
            except (TooMuch, RecursionError):
                return None
            loaded[name] = inner
            return inner
        return None


def _read_constants(interpreter: Interpreter, tree: ast.Module) -> None:
    """Read the statements of a module that only keeps SQL for other modules.

    The caller may empty a table first, so only those count that look up existing rows themselves.
    """
    from twice.audit.languages.python import databases

    if any(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(tree)):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, (ast.Constant, ast.JoinedStr)):
            value = interpreter.eval(node.value)
            if isinstance(value, Text) and _CHECKS_FIRST.match(value.shown):
                databases.run(interpreter, value, node.value)


def _paths(name: str) -> list[str]:
    dots = len(name) - len(name.lstrip("."))
    parts = name.lstrip(".").replace(".", "/")
    up = "../" * max(0, dots - 1)
    if not parts:
        return [f"{up}__init__.py"]
    found = [f"{up}{parts}.py", f"{up}{parts}/__init__.py"]
    if not dots:  # an absolute import of the same tree: the folder may be the package itself, or below it
        found.extend(f"{'../' * level}{parts}.py" for level in (1, 2, 3))
    return found


def _relative(module: str, other: str) -> str:
    """Name what a neighbour imports as seen from the first file."""
    if not other.startswith("."):
        return other
    parent = module.rpartition(".")[0]
    rest = other[1:]
    return (
        f"{parent}.{rest}"
        if parent and not module.startswith(".")
        else f"{'.' if module.startswith('.') else ''}{parent.lstrip('.')}{'.' if parent.strip('.') else ''}{rest}"
    )


def _order_by_tasks(job: Job) -> None:
    """Put the writes of tasks into the order in which the tasks run."""
    tasks = {task.name: task for task in job.orchestration.tasks}
    if not any(task.upstream for task in tasks.values()):
        return
    ranks: dict[str, int] = {}

    def rank(name: str, seen: frozenset[str] = frozenset()) -> int:
        if name in ranks:
            return ranks[name]
        task = tasks.get(name)
        if task is None or name in seen:
            return 0
        ranks[name] = 1 + max((rank(one, seen | {name}) for one in task.upstream), default=0)
        return ranks[name]

    for name in tasks:
        rank(name)
    ordered: list[Write] = sorted(job.writes, key=lambda write: (ranks.get(write.task, 0), write.order))
    for index, write in enumerate(ordered, start=1):
        write.order = index
    job.writes[:] = ordered


def stem(path: str) -> str:
    """Return a file's name without its ending."""
    return PurePath(path).stem
