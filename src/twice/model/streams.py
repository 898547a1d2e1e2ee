"""Streams: a source that delivers at least once, and how its repeats are kept out of a table."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twice.errors import DefinitionError
from twice.model.durations import Duration
from twice.model.gates import RowCountChange
from twice.model.names import TableName, check_identifier
from twice.model.patterns import InsertOnly, Merge
from twice.model.steps import Retry, Step
from twice.model.tables import Table

# The table property under which a commit leaves its `StreamMark`.
STREAM_MARK = "twice.stream"
# What the function of a stream may ask for besides the rows.
_OFFERED = ("spark",)


@dataclass(frozen=True)
class StreamMark:
    """What a batch leaves with its table, in the commit of its rows: the query and the number of the batch.

    >>> StreamMark.read(StreamMark("shop.clicks", "9f1c", 41).text).batch
    41
    """

    stream: str
    query: str
    batch: int

    @classmethod
    def read(cls, text: str | None) -> StreamMark | None:
        """Read what a table holds; None if no stream has written it."""
        return cls(**json.loads(text)) if text else None

    @property
    def text(self) -> str:
        """The mark as a table keeps it."""
        return json.dumps(self.__dict__)

    def covers(self, query: str, batch: int) -> bool:
        """Return whether a batch of a query is in the table."""
        return self.query == query and self.batch >= batch


def _columns(what: str, key: str | Sequence[str]) -> tuple[str, ...]:
    found = (key,) if isinstance(key, str) else tuple(key)
    if not found:
        raise DefinitionError(f"{what}: name the columns of the event key")
    for name in found:
        check_identifier(name, f"{what}: a column name")
    return found


@dataclass(frozen=True)
class Process:
    """Keep every event key in a table of its own, and give the function only events whose key is new.

    Of the events of one batch with the same key the one with the lowest `order` is kept, then the one with the lowest
    hash of its content.

    >>> Process("event_id", order="received_at").key
    ('event_id',)
    """

    key: str | Sequence[str]
    order: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _columns("Process", self.key))

    @property
    def text(self) -> str:
        """The level in words, for contracts."""
        return f"process each {', '.join(self.key)} once"


@dataclass(frozen=True)
class Write:
    """Compare the rows with the table by its key: InsertOnly() writes a key once, Merge() its newest version.

    >>> Write(["tenant", "event_id"]).key
    ('tenant', 'event_id')
    """

    key: str | Sequence[str]
    order: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _columns("Write", self.key))

    @property
    def text(self) -> str:
        """The level in words, for contracts."""
        return f"write each {', '.join(self.key)} once"


@dataclass(frozen=True)
class Windowed:
    """Remember event keys for a while, in Spark's own state: neither the table nor a table of keys is read.

    An event that is older than the newest one by more than `within` is late: it is counted and left out, or landed in
    the table `late`. Of the events of one batch with the same key the one with the lowest `order` is kept, then the one
    with the lowest hash of its content.
    """

    key: str | Sequence[str]
    within: Duration
    event_time: str | None = None
    late: Table | None = None
    order: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _columns("Windowed", self.key))
        within: object = self.within
        if not isinstance(within, Duration) or not within:
            raise DefinitionError(f"Windowed(within={self.within!r}) must be a duration such as hours(24)")
        late: object = self.late
        if late is not None and not (isinstance(late, Table) and isinstance(late.write, InsertOnly)):
            raise DefinitionError("Windowed(late=…) must be a Table with write=InsertOnly()")

    @property
    def seconds(self) -> int:
        """How long a key is remembered."""
        return self.within.days * 86_400 + int(self.within.exact.total_seconds())

    @property
    def text(self) -> str:
        """The level in words, for contracts."""
        aside = f"landed in {self.late.name}" if self.late is not None else "counted"
        return f"remember each {', '.join(self.key)} for {self.within} of {self.event_time}; late events are {aside}"


Dedup = Process | Write | Windowed


@dataclass(frozen=True)
class KafkaSource:
    """Topics of a Kafka cluster; Spark needs a connector, which the project names under `packages`.

    With `schema` the value is read as JSON into those columns, beside `kafka_topic`, `kafka_partition`, `kafka_offset`
    and `kafka_timestamp`; without it the rows are the connector's own.
    """

    servers: str
    topics: str | Sequence[str]
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", (self.topics,) if isinstance(self.topics, str) else tuple(self.topics))
        if not self.servers or not self.topics:
            raise DefinitionError('KafkaSource needs servers and topics: KafkaSource("broker:9092", "clicks")')

    @property
    def text(self) -> str:
        """The source in words; a change of it is another source."""
        return f"kafka {', '.join(sorted(self.topics))}"


@dataclass(frozen=True)
class RateSource:
    """Spark's own generator of rows `timestamp`, `value`, for demonstrations."""

    rows_per_second: int = 10

    def __post_init__(self) -> None:
        if isinstance(self.rows_per_second, bool) or self.rows_per_second < 1:
            raise DefinitionError(f"RateSource(rows_per_second={self.rows_per_second!r}) must be 1 or more")

    @property
    def text(self) -> str:
        """The source in words."""
        return "rate"


StreamSource = Table | KafkaSource | RateSource


@dataclass(frozen=True, eq=False)
class Stream:
    """A guarded Structured Streaming query: one source, one table, no duplicates."""

    name: str
    pipeline: str
    reads: StreamSource
    writes: Table
    dedup: Dedup
    function: Callable[..., Any]
    options: Mapping[str, str] = field(default_factory=dict)
    every: Duration | None = None
    version: str = ""
    nondeterministic: str = ""
    transient: tuple[type[BaseException], ...] = ()
    retry: Retry = field(default_factory=Retry)

    def __repr__(self) -> str:
        return f"Stream({self.pipeline}.{self.name})"

    @property
    def full_name(self) -> str:
        """The stream's name in the ledger and in the table."""
        return f"{self.pipeline}.{self.name}"

    @property
    def source_text(self) -> str:
        """The source in words; a change of it is another source."""
        return f"table {self.reads.name}" if isinstance(self.reads, Table) else self.reads.text

    @property
    def text(self) -> str:
        """The stream in words, for contracts."""
        return f"{self.name} from {self.source_text}; {self.dedup.text}"

    @property
    def seen(self) -> Table | None:
        """The table of the keys that were seen, where the stream keeps one."""
        if not isinstance(self.dedup, Process):
            return None
        target, key = self.writes, tuple(self.dedup.key)
        return Table(
            str(TableName((*target.id.parts[:-1], f"{target.id.parts[-1]}__seen"))),
            key=key,
            write=InsertOnly(on_conflict="keep"),
            personal=[column for column in key if column in target.personal],
            owner=target.owner,
            description=f"The event keys that the stream {self.full_name} has seen.",
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table that the stream writes."""
        late = self.dedup.late if isinstance(self.dedup, Windowed) else None
        return tuple(table for table in (self.writes, self.seen, late) if table is not None)

    @property
    def parameter(self) -> str:
        """What the function calls its rows."""
        return next(name for name in inspect.signature(self.function).parameters if name not in _OFFERED)

    @property
    def step(self) -> Step:
        """The stream as a step that makes a batch's rows from a batch's events."""
        return Step(
            name=self.name,
            pipeline=self.pipeline,
            kind="python",
            reads={},
            writes=self.writes,
            function=self.function,
            version=self.version,
            nondeterministic=self.nondeterministic,
            transient=self.transient,
            retry=self.retry,
        )

    def __post_init__(self) -> None:
        what = f"stream {self.name}"
        self._check_function(what)
        if not isinstance(self.dedup, Process | Write | Windowed):
            raise DefinitionError(
                f'{what}: dedup={self.dedup!r} must be Process("event_id"), Write("event_id") or '
                'Windowed("event_id", hours(24))'
            )
        if self.every is not None and not isinstance(self.every, Duration):
            raise DefinitionError(f"{what}: every={self.every!r} must be a duration such as minutes(1)")
        self._check_source(what)
        self._check_table(what)
        self._check_key(what)

    def _check_function(self, what: str) -> None:
        if not inspect.isfunction(self.function):
            raise DefinitionError(f"{what}: {self.function!r} must be a plain function")
        taken = [name for name in inspect.signature(self.function).parameters if name not in _OFFERED]
        if len(taken) != 1:
            raise DefinitionError(
                f"{what}: its function takes {', '.join(taken) or 'nothing'}; it must take the batch's rows, and may "
                f"take {', '.join(_OFFERED)}: def {self.function.__name__}(rows)"
            )

    def _check_source(self, what: str) -> None:
        if isinstance(self.reads, KafkaSource | RateSource):
            return
        if not isinstance(self.reads, Table):
            raise DefinitionError(f"{what}: reads={self.reads!r} must be a Table, a KafkaSource or a RateSource")
        self.check_added_to(self.reads)
        if self.reads.id == self.writes.id:
            raise DefinitionError(f"{what} reads the table that it writes, {self.writes.name}")

    def check_added_to(self, source: Table) -> None:
        """Refuse a source whose writer replaces rows: a stream reads only rows that are added."""
        if source.write is not None and not isinstance(source.write, InsertOnly):
            raise DefinitionError(
                f"stream {self.name}: {source.name} is written with {type(source.write).__name__}(), and a stream "
                "reads only rows that are added to a table. Read the table in a step instead: twice backfill --only "
                "stale rebuilds the partitions whose inputs changed"
            )

    def _check_table(self, what: str) -> None:
        table: object = self.writes
        if not isinstance(table, Table):
            raise DefinitionError(f"{what}: writes= must be a Table, got {table!r}")
        if not isinstance(table.write, InsertOnly | Merge):
            raise DefinitionError(
                f"{what}: {table.name} must be written with InsertOnly() or Merge(version=…): a batch holds a few rows "
                "of many partitions, and would replace what other batches wrote"
            )
        if any(isinstance(gate, RowCountChange) for gate in table.gates):
            raise DefinitionError(
                f"{what}: gates of {table.name} judge one batch at a time, so a row count cannot be compared with "
                "earlier ones: leave gates.row_count_change out"
            )

    def _check_key(self, what: str) -> None:
        key, table = self.dedup.key, self.writes
        if isinstance(self.dedup, Write) and set(key) != set(table.key):
            raise DefinitionError(
                f"{what}: Write compares rows with {table.name} by its key, which is {', '.join(table.key)}, not "
                f"{', '.join(key)}"
            )
        if absent := [name for name in key if name not in table.key]:
            raise DefinitionError(
                f"{what}: {', '.join(absent)} is not in the key of {table.name} ({', '.join(table.key)}): events with "
                "different keys could make rows with the same one"
            )
        if isinstance(self.dedup, Windowed):
            if isinstance(table.write, Merge):
                raise DefinitionError(
                    f"{what}: Windowed does not look at {table.name}, so no version can win: use Write, or InsertOnly()"
                )
            if self.dedup.event_time is None:
                raise DefinitionError(
                    f"{what}: Windowed needs the column that says when an event happened: "
                    'Windowed(…, event_time="happened_at")'
                )
