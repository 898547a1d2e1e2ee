"""One file, as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from twice.audit.expressions import Expr, OriginKind
from twice.audit.keeping import kept
from twice.audit.model.plans import DbtModel, Orchestration, Parameter
from twice.audit.model.uses import Call, Effect, Use
from twice.audit.model.writes import Mode, Write, same_table
from twice.audit.places import Place
from twice.audit.queries import Query

T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """Why a file, or a statement in it, could not be read."""

    message: str
    place: Place
    whole_file: bool = False
    harmless: bool = False  # none of its words writes


@dataclass
class Job:
    """One file, as the rules see it."""

    path: str
    language: Literal["python", "sql", "dbt", "notebook"]
    text: str
    dialect: str = ""
    is_test: bool = False  # test code is not judged
    writes: list[Write] = field(default_factory=list)  # in the order in which they run
    queries: list[Query] = field(default_factory=list)  # every outermost query, also those that are written
    uses: list[Use] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    orchestration: Orchestration = field(default_factory=Orchestration)
    dbt: DbtModel | None = None
    problems: list[Problem] = field(default_factory=list)
    imports: frozenset[str] = frozenset()  # modules that a Python file imports
    calls: list[Call] = field(default_factory=list)  # every Python call, resolved, for what the model does not hold
    sets_iterated: list[Expr] = field(default_factory=list)  # `for x in set(…)` whose items reach output
    settings: dict[str, str] = field(default_factory=dict)  # spark.conf.set and SET statements, lower case
    finished: bool = False  # nothing is added any more
    checks_uniqueness: bool = False  # the file checks keys: a constraint, a count of duplicates, an assert
    _answers: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    @kept
    def lines(self) -> list[str]:
        """The source lines."""
        return self.text.split("\n")

    @kept
    def lowered(self) -> str:
        """The text in lower case: a word that is not in it spares a search for what it is part of."""
        return self.text.lower()

    def line(self, number: int) -> str:
        """Return a source line, counted from 1."""
        lines = self.lines
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def used(self, kind: OriginKind, *contexts: str) -> Iterator[Use]:
        """Yield the uses of a kind, in some contexts or in all."""
        for use in self.uses:
            if use.kind == kind and (not contexts or use.context in contexts):
                yield use

    def remembered(self, ask: Callable[[Job], T]) -> T:
        """Return what a question about the whole file gives; once nothing is added any more it is asked only once."""
        if not self.finished:
            return ask(self)
        if ask not in self._answers:
            self._answers[ask] = ask(self)
        answer: T = self._answers[ask]
        return answer

    def earlier(self, write: Write) -> Iterator[Write]:
        """Yield the statements on the same target that run before, nearest first."""
        for other in reversed(self.writes_to(write.target.name)):
            if other.order < write.order and other is not write:
                yield other

    def later(self, write: Write) -> Iterator[Write]:
        """Yield the statements on the same target that run after, nearest first."""
        for other in self.writes_to(write.target.name):
            if other.order > write.order and other is not write:
                yield other

    def writes_to(self, name: str) -> list[Write]:
        """Return the statements on a table, in the order in which they run."""
        groups = self.remembered(_no_groups)
        if name not in groups:
            groups[name] = [other for other in self._in_order() if same_table(other.target.name, name)]
        return groups[name]

    def _in_order(self) -> list[Write]:
        """Return the writes as they run: once the job is finished they stand so."""
        return self.writes if self.finished else sorted(self.writes, key=_order)

    def cleared_by(self, write: Write) -> Write | None:
        """Return the earlier statement that removes what the last run wrote, if there is one.

        A delete, truncate, drop or re-creation of the same target; appends in between do not matter.
        """
        for other in self.earlier(write):
            if other.mode in _CLEARS and not (other.mode is Mode.CREATE and other.if_not_exists):
                return other
        return None

    def all_queries(self) -> Iterator[tuple[Query, Write | None]]:
        """Yield every query at every depth, each once, with the write it feeds (None: only read)."""
        return iter(self.remembered(Job._all_queries))

    def _all_queries(self) -> list[tuple[Query, Write | None]]:
        found: list[tuple[Query, Write | None]] = []
        seen: set[int] = set()
        for write in self.writes:
            if write.query is not None:
                for query in write.query.walk():
                    if id(query) not in seen:
                        seen.add(id(query))
                        found.append((query, write))
        for top in self.queries:
            for query in top.walk():
                if id(query) not in seen:
                    seen.add(id(query))
                    found.append((query, None))
        return found

    def windowed(self, write: Write) -> bool:
        """Return whether what is written is cut to a window: a filter with a parameter or a clock on some column."""
        return any(
            node.kind in {"param", "python"} or bool(node.origins)
            for filter_ in write.filters()
            for node in filter_.walk()
        )

    def has_date_parameter(self) -> Parameter | None:
        """Return the first parameter that is a date."""
        return next((parameter for parameter in self.parameters if parameter.is_date), None)


def _order(write: Write) -> int:
    return write.order


def _no_groups(_job: Job) -> dict[str, list[Write]]:
    return {}


_CLEARS = frozenset({Mode.DELETE, Mode.TRUNCATE, Mode.DROP, Mode.DROP_PARTITION, Mode.OVERWRITE, Mode.CREATE})
