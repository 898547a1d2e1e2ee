"""Pipelines: the graph of steps, derived from what they read and write."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from twice.errors import DefinitionError, UsageError
from twice.model.declaring import Inputs, check_declared, check_name, folder_of, module_of, named_reads, read_query
from twice.model.durations import Duration
from twice.model.effects import Effect, OnChange, OnUnknown, Target
from twice.model.grains import Grain, zone_of
from twice.model.graph import check_grain, check_own_past, in_order, writer_of
from twice.model.rates import Rate
from twice.model.steps import Retry, Step, check_named_after_tables, check_signature
from twice.model.streams import Dedup, Stream, StreamSource
from twice.model.tables import Table

Function = TypeVar("Function", bound=Callable[..., Any])

STEP_ATTRIBUTE = "__twice_step__"


class Pipeline:
    """The steps that bring a set of tables up to date, one grain unit at a time.

    >>> from twice import Day, Overwrite, Pipeline, Table
    >>> shop = Pipeline("shop", grain=Day)
    >>> orders = Table("lake.raw.orders", partition=Day("order_date"))
    >>> sales = Table("lake.mart.sales", partition=Day("order_date"), write=Overwrite())
    >>> @shop.step(reads={"orders": orders}, writes=sales)
    ... def count_sales(orders):
    ...     return orders.groupBy("order_date").count()
    >>> [step.name for step in shop.ordered()]
    ['count_sales']
    """

    def __init__(self, name: str, *, grain: Grain, time_zone: str = "UTC", description: str = "") -> None:
        if not isinstance(grain, Grain):
            raise DefinitionError(f'Pipeline("{name}"): grain must be QuarterHour, Hour, Day, Week or Month')
        check_name("pipeline", name)
        self.name = name
        self.module = module_of(inspect.currentframe())
        self.grain = grain
        self.zone: ZoneInfo = zone_of(time_zone)
        self.description = description
        self.steps: dict[str, Step] = {}
        self.effects: dict[str, Effect] = {}
        self.streams: dict[str, Stream] = {}

    def __repr__(self) -> str:
        return f"Pipeline({self.name}, {len(self.steps)} steps)"

    def step(
        self,
        *,
        reads: Inputs,
        writes: Table,
        name: str | None = None,
        version: str = "",
        nondeterministic: str = "",
        depends_on_past: bool = False,
        separable: bool | None = None,
        transient: tuple[type[BaseException], ...] = (),
        retry: Retry | None = None,
    ) -> Callable[[Function], Function]:
        """Declare a function from DataFrames to one DataFrame as a step; it stays a plain function.

        `reads={"orders": lake_orders}` names the input of each argument. With `reads=[orders, customers]` each input
        is named after its table, so the arguments have the last part of the tables' names.
        """

        def declare(function: Function) -> Function:
            found = named_reads(reads)
            if not isinstance(reads, Mapping):
                check_named_after_tables(name or _name_of(function), function, found)
            step = Step(
                name=name or _name_of(function),
                pipeline=self.name,
                kind="python",
                reads=found,
                writes=writes,
                function=function,
                version=version,
                nondeterministic=nondeterministic,
                depends_on_past=depends_on_past,
                separable=separable,
                transient=transient,
                retry=retry or Retry(),
                declared_in=self,
            )
            return self._keep(step, function)

        return declare

    def extract(
        self,
        *,
        writes: Table,
        name: str | None = None,
        version: str = "",
        nondeterministic: str = "",
        transient: tuple[type[BaseException], ...] = (),
        retry: Retry | None = None,
        rate: str | None = None,
        parallel: int | None = None,
    ) -> Callable[[Function], Function]:
        """Declare a function that fetches a window from outside: rows as mappings, or a DataFrame.

        `rate="5/s"` spreads the calls of the source over all processes that share the ledger: a function that takes
        `pace` calls it before each call, else each fetch counts as one. `parallel` limits the fetches of a backfill
        that run at once.
        """
        if parallel is not None and (isinstance(parallel, bool) or parallel < 1):
            raise DefinitionError(f"parallel={parallel!r}: give the number of fetches at once, 1 or more")

        def declare(function: Function) -> Function:
            step = Step(
                name=name or _name_of(function),
                pipeline=self.name,
                kind="extract",
                reads={},
                writes=writes,
                function=function,
                version=version,
                nondeterministic=nondeterministic,
                transient=transient,
                retry=retry or Retry(),
                rate=Rate.parse(rate) if rate is not None else None,
                parallel=parallel,
                declared_in=self,
            )
            return self._keep(step, function)

        return declare

    def sql(
        self,
        name: str,
        *,
        reads: Inputs,
        writes: Table,
        query: str | Path,
        version: str = "",
        nondeterministic: str = "",
        depends_on_past: bool = False,
        separable: bool | None = None,
        retry: Retry | None = None,
    ) -> Step:
        """Declare a SQL query as a step: a text, or a file such as `query=Path("revenue.sql")`.

        Inputs are views under their names, or with `reads=[orders]` under the last part of their tables' names; the
        window is given as the parameter markers `:window_start` and `:window_end`. A relative path is relative to the
        file that declares the step, and in a notebook to the working directory. The file is read now: changing the
        query changes the step's code.
        """
        if isinstance(query, Path):
            query = read_query(name, query, folder_of(inspect.currentframe()))
        if not isinstance(query, str):
            raise DefinitionError(f"step {name}: the query must be a text or a Path, not {query!r}")
        if not query.strip():
            raise DefinitionError(f"step {name}: the query is empty")
        found = named_reads(reads)
        if len({view.lower() for view in found}) < len(found):
            raise DefinitionError(
                f"step {name}: {', '.join(found)} differ in upper and lower case only, "
                "which SQL does not see: rename one"
            )
        step = Step(
            name=name,
            pipeline=self.name,
            kind="sql",
            reads=found,
            writes=writes,
            query=query,
            version=version,
            nondeterministic=nondeterministic,
            depends_on_past=depends_on_past,
            separable=separable,
            retry=retry or Retry(),
            declared_in=self,
        )
        self._add(step)
        return step

    def effect(
        self,
        *,
        after: Table,
        on_unknown: OnUnknown,
        on_change: OnChange = "keep",
        key: str | Sequence[str] = (),
        to: Target | None = None,
        name: str | None = None,
        in_backfill: bool = False,
        rate: str | None = None,
        parallel: int = 4,
        attempts: int = 4,
        timeout: float = 30.0,
    ) -> Callable[[Function], Function]:
        """Declare a call to the outside world that is owed once the scope of a table is published.

        With `to=` the function returns what is sent there, or None for nothing; without it the function makes the
        call itself, with `key` as the provider's idempotency key, and its answer is stored. It takes any of `rows`,
        `window`, `key` and `business_key`. It is called once per partition, or once per value of the columns in `key=`:
        up to `parallel` calls at the same time, and no faster than `rate="5/s"`.
        """

        def declare(function: Function) -> Function:
            columns = (key,) if isinstance(key, str) else tuple(key)
            effect = Effect(
                name=name or _name_of(function),
                pipeline=self.name,
                after=after,
                function=function,
                on_unknown=on_unknown,
                on_change=on_change,
                key=columns,
                to=to,
                in_backfill=in_backfill,
                rate=Rate.parse(rate) if rate is not None else None,
                parallel=parallel,
                attempts=attempts,
                timeout=timeout,
            )
            self._add_effect(effect)
            return function

        return declare

    def stream(
        self,
        *,
        reads: StreamSource,
        writes: Table,
        dedup: Dedup,
        name: str | None = None,
        options: Mapping[str, str] | None = None,
        every: Duration | None = None,
        version: str = "",
        nondeterministic: str = "",
        transient: tuple[type[BaseException], ...] = (),
        retry: Retry | None = None,
    ) -> Callable[[Function], Function]:
        """Declare a function from a batch's events to the rows of a table as a stream; `dedup` keeps repeats out.

        `options` go to Spark's reader; `every` is the minimum time between the starts of two batches.
        """

        def declare(function: Function) -> Function:
            stream = Stream(
                name=name or _name_of(function),
                pipeline=self.name,
                reads=reads,
                writes=writes,
                dedup=dedup,
                function=function,
                options=dict(options or {}),
                every=every,
                version=version,
                nondeterministic=nondeterministic,
                transient=transient,
                retry=retry or Retry(),
            )
            self._add_stream(stream)
            return function

        return declare

    def effects_after(self, table: Table) -> list[Effect]:
        """Return the effects that are owed when a table is published."""
        return [effect for effect in self.effects.values() if effect.after.id == table.id]

    def ordered(self) -> list[Step]:
        """Return the steps, each after the steps whose tables it reads."""
        return in_order(self.name, list(self.steps.values()))

    def find(self, name: str) -> Step:
        """Return the step of that name."""
        if name not in self.steps:
            known = ", ".join(self.steps) or "none"
            raise UsageError(f"pipeline {self.name} has no step {name!r}; its steps are: {known}")
        return self.steps[name]

    def producer(self, table: Table) -> Step | None:
        """Return the step that writes the table, if one of this pipeline does."""
        return writer_of(table, self.steps.values())

    @property
    def dimensions(self) -> frozenset[str]:
        """All scope dimensions of the tables that the pipeline writes."""
        return frozenset(name for step in self.steps.values() for name in step.writes.dimensions)

    def written(self) -> Iterator[Table]:
        """Yield every table that a step or a stream of the pipeline writes."""
        yield from (step.writes for step in self.ordered())
        yield from (table for stream in self.streams.values() for table in stream.tables)

    def tables(self) -> Iterator[Table]:
        """Yield every table that the pipeline reads or writes, once."""
        found: dict[object, Table] = {}
        for step in self.ordered():
            for table in (*(read.table for read in step.reads.values()), step.writes):
                found.setdefault(table.id, table)
        for stream in self.streams.values():
            for each in (stream.reads, stream.writes):
                if isinstance(each, Table):
                    found.setdefault(each.id, each)
        yield from found.values()

    def _keep(self, step: Step, function: Function) -> Function:
        check_signature(step)
        self._add(step)
        setattr(function, STEP_ATTRIBUTE, step)
        return function

    def _add(self, step: Step) -> None:
        check_name("step", step.name)
        if step.name in self.steps:
            raise DefinitionError(
                f"pipeline {self.name} already has a step {step.name}; give one of them another name="
            )
        check_declared(step)
        self._require_one_producer(step.name, step.writes)
        check_grain(step, self.grain, self.zone)
        check_own_past(step, self.grain)
        in_order(self.name, [*self.steps.values(), step])  # refuses a cycle
        self.steps[step.name] = step

    def _add_stream(self, stream: Stream) -> None:
        check_name("stream", stream.name)
        if stream.name in self.streams or stream.name in self.steps:
            kind = "stream" if stream.name in self.streams else "step"
            raise DefinitionError(f"pipeline {self.name} already has a {kind} {stream.name}; give one another name=")
        self._require_one_producer(stream.name, stream.writes)
        self.streams[stream.name] = stream

    def find_stream(self, name: str | None) -> Stream:
        """Return the stream of that name; None: the only one."""
        if name is None and len(self.streams) == 1:
            return next(iter(self.streams.values()))
        known = ", ".join(self.streams) or "none"
        if name is None:
            raise UsageError(f"pipeline {self.name} has {len(self.streams)} streams: name one of {known}")
        if name not in self.streams:
            raise UsageError(f"pipeline {self.name} has no stream {name!r}; its streams are: {known}")
        return self.streams[name]

    def _require_one_producer(self, name: str, table: Table) -> None:
        stream = next((each for each in self.streams.values() if each.writes.id == table.id), None)
        step = self.producer(table)
        if stream is not None or step is not None:
            other = f"stream {stream.name}" if stream is not None else f"step {step.name if step else ''}"
            raise DefinitionError(
                f"{table.name} is already written by the {other}: one table has one producer. Let {name} write a "
                "table of its own, or union the two results in one step"
            )

    def _add_effect(self, effect: Effect) -> None:
        check_name("effect", effect.name)
        if effect.name in self.effects:
            raise DefinitionError(f"pipeline {self.name} already has an effect {effect.name}; give one another name=")
        if self.producer(effect.after) is None:
            raise DefinitionError(
                f"effect {effect.name}: no step of {self.name} writes {effect.after.name}: declare the effect after "
                "the step, in the pipeline that writes the table"
            )
        self.effects[effect.name] = effect


def step_of(step: object) -> Step:
    """Return a step as it is, or that of a function which is decorated as one."""
    found = step if isinstance(step, Step) else getattr(step, STEP_ATTRIBUTE, None)
    if not isinstance(found, Step):
        raise UsageError(f"{getattr(step, '__name__', step)} is not a step: decorate it with @pipeline.step(…)")
    return found


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
