"""Many partitions, files and tenants: how long `twice` takes to plan, list, run and report them.

On real tables, in one Spark with two cores:

- plan: a backfill of 10,000 hourly partitions of an Iceberg table is planned, against the files that are there;
- files: a scope of 20,000 data files (a day of 20,000 tenants in Iceberg) is found fresh, and then replaced by a few;
- tenants: a day of 100,000 tenants is written to a SQL database, as a whole run;
- status: `twice status` lists 100,000 partitions of a ledger, in a process of its own.

Making the tables does not count; most of their files are further names of one, which Spark would take minutes to
write. Each is measured twice, by stores that have not looked at the tables before; the better time counts.
`driver_mb` is the largest growth of the Python driver's memory during one of them.

    python bench/scale.py [--partitions 10000] [--files 20000] [--tenants 100000] [--listed 100000]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice import Pipeline
    from twice.engine.run import RunResult, Runtime
    from twice.ledger import Ledger
    from twice.model.steps import Step

START = datetime(2014, 1, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
CHUNK = 500
MODULE = """
from twice import Day, Hour, Overwrite, Pipeline, Table

scale = Pipeline("scale", grain=Hour)
raw = Table("lake.raw.events", partition=Hour("hour"), key=["id"], write=Overwrite())
facts = Table("lake.core.events", partition=Hour("hour"), key=["id"], write=Overwrite())

@scale.extract(writes=raw)
def land(window):
    yield {"id": 1, "hour": window.start}

@scale.step(reads={"raw": raw}, writes=facts)
def clean(raw):
    return raw

landed = Table("lake.raw.tenants", partition=Day("day"))
contract = {"partition": Day("day"), "dimensions": ["tenant"], "key": ["tenant"], "write": Overwrite()}
lake, serving = Pipeline("lake", grain=Day), Pipeline("serving", grain=Day)
for pipeline, name in ((lake, "lake.core.tenants"), (serving, "serving.main.tenants")):
    pipeline.sql("tenants", reads={"raw": landed}, writes=Table(name, **contract), query="select * from raw")
"""
TOML = """
[pipelines]
scale = "scale_jobs:scale"
[ledger]
url = "sqlite:///ledger.db"
[stores.lake]
type = "iceberg"
warehouse = "warehouse"
catalog = "sqlite:///catalog.db"
[stores.serving]
type = "sql"
url = "sqlite:///serving.db"
[profiles.default.spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "3g"
"spark.sql.shuffle.partitions" = "4"
"""
# Adds files to a table by one commit: rows of a partition are where the files say, whatever lies in them.
LINKS = """
package bench;

public class Links {
    public void append(org.apache.iceberg.Table table, long size, String text) {
        org.apache.iceberg.PartitionSpec spec = table.spec();
        org.apache.iceberg.types.Types.StructType type = spec.partitionType();
        org.apache.iceberg.AppendFiles append = table.newFastAppend();
        String[] lines = text.split("\\n");
        for (int i = 0; i < lines.length; i++) {
            String[] parts = lines[i].split("\\t");
            org.apache.iceberg.PartitionData values = new org.apache.iceberg.PartitionData(type);
            for (int j = 1; j < parts.length; j++) {
                org.apache.iceberg.types.Types.NestedField field =
                    (org.apache.iceberg.types.Types.NestedField) type.fields().get(j - 1);
                values.set(j - 1, org.apache.iceberg.SingleValueParser.fromJson(field.type(), parts[j]));
            }
            append.appendFile(org.apache.iceberg.DataFiles.builder(spec).withPath(parts[0]).withPartition(values)
                .withFileSizeInBytes(size).withRecordCount(1L).build());
        }
        append.commit();
    }
}
"""


def project(folder: Path) -> None:
    """Write the pipelines and the configuration."""
    (folder / "scale_jobs.py").write_text(MODULE)
    (folder / "twice.toml").write_text(TOML)


def fill(folder: Path, partitions: int) -> None:
    """Fill a project's ledger as chunked runs do: that many partitions, half of them of each step, all of them done."""
    from twice import config as configuration
    from twice.ledger import open_ledger
    from twice.loading import find_pipeline

    config = configuration.load(folder / "twice.toml")
    pipeline = find_pipeline(config, "scale")
    ledger = open_ledger(config.ledger)
    for step in pipeline.ordered():
        record(ledger, step, [f"{number:016x}" for number in range(partitions // 2)])


def record(ledger: Ledger, step: Step, files: list[str]) -> None:
    """Record one output for each hour, with its files, in chunks of runs."""
    from twice.engine.attempt.fingerprint import fingerprint
    from twice.ledger import InputRecord, Output
    from twice.model.scopes import Scope
    from twice.model.windows import Window

    table, code = step.writes.name, fingerprint(step)
    numbers = iter(range(len(files)))
    while chunk := list(islice(numbers, CHUNK)):
        whole = Scope(Window(START + chunk[0] * HOUR, START + (chunk[-1] + 1) * HOUR))
        run = ledger.runs.start("scale", whole, command="bench")
        row = ledger.attempts.start(run, step.name, table, 1, whole, code=code)
        claim = ledger.leases.claim(table, [whole], ttl=timedelta(minutes=1), run=run)
        outputs = []
        for number in chunk:
            start = START + number * HOUR
            read = InputRecord(
                "raw", "lake.raw.events", "window", "7", {start.isoformat(): f"digest:{_digest(number)}"}
            )
            scope, inputs = Scope(Window(start, start + HOUR)), (read,) if step.reads else ()
            held = Output(table, scope, 1, _digest(number), files[number], "7", "scale", step.name, code, inputs)
            outputs.append(held)
        ledger.outputs.record(claim, row, outputs)
        ledger.runs.finish(run, "done")


def _digest(number: int) -> str:
    return f"1-{number:032x}-{number * 7:032x}-0123456789abcdef"


def listed(partitions: int) -> dict[str, float]:
    """List a ledger by the command line; return seconds and the peak of memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project(folder)
        subprocess.run([sys.executable, __file__, "--fill", name, "--listed", str(partitions)], check=True)
        best = float("inf")
        for _ in range(2):
            started = time.monotonic()
            command = [sys.executable, "-m", "twice", "status", "scale"]
            with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
                said = process.stdout.read() if process.stdout else ""
                _, state, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(state)
            best = min(best, time.monotonic() - started)
            if process.returncode or " done" not in said:
                raise SystemExit(f"twice status failed: {said}")
    return {"status_100k_s": best, "status_peak_mb": usage.ru_maxrss / 1024}


class Bench:
    """One project on real tables, and what was measured on it."""

    def __init__(self, folder: Path) -> None:
        from twice import config as configuration
        from twice.engine.spark import session

        project(folder)
        sys.path.insert(0, str(folder))
        self.config = configuration.load(folder / "twice.toml")
        self.spark: SparkSession = session.start(self.config)
        self.seconds: dict[str, float] = {}
        self.driver_mb: dict[str, float] = {}
        for space in ("raw", "core"):
            self.spark.sql(f"create namespace if not exists lake.{space}")

    def measure(self, name: str, task: Callable[[Runtime], object]) -> None:
        """Time a task with stores that have not seen anything yet; the better time counts, and the larger memory."""
        from twice.api import runtime

        with runtime(self.config, spark=self.spark) as shared:
            before = _memory("VmRSS")
            with suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            started = time.monotonic()
            task(shared)
            seconds = time.monotonic() - started
        grown = max(0.0, _memory("VmHWM") - before)
        self.seconds[name] = min(seconds, self.seconds.get(name, float("inf")))
        self.driver_mb[name] = max(grown, self.driver_mb.get(name, 0.0))
        self.note(f"{name}: {seconds:.2f} s, driver +{grown:.1f} MB")

    def note(self, text: str) -> None:
        """Say what happens, beside the result."""
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def run(self, shared: Runtime, name: str, day: date, *, skip_fresh: bool = False) -> RunResult:
        """Run a pipeline for one day."""
        from twice.engine.plan import plan
        from twice.engine.run import execute

        pipeline: Pipeline = getattr(__import__("scale_jobs"), name)
        window = pipeline.grain.unit(day.isoformat(), pipeline.zone)
        result = execute(shared, pipeline, plan(pipeline, window), skip_fresh=skip_fresh)
        if result.error:
            raise result.error
        return result

    def land(self, day: date, tenants: int) -> None:
        """Land a day of as many tenants, in the place of what was there."""
        from pyspark.sql import functions as F

        rows = self.spark.range(0, tenants, 1, 4).select(
            F.lit(day).alias("day"), F.format_string("t%06d", "id").alias("tenant"), F.col("id").alias("amount")
        )
        rows.writeTo("lake.raw.tenants").overwritePartitions()

    def link(self, name: str, places: list[list[str]]) -> None:
        """Give a table a file for each place: further names of one of its files, which Spark would need minutes for."""
        from twice.content.java import compiled
        from twice.model.names import TableName
        from twice.store.iceberg import jvm

        table = jvm.load(self.spark, TableName.parse(name))
        assert table is not None  # noqa: S101 - it was created before
        location, size = self.spark.sql(f"select file_path, file_size_in_bytes from {name}.files limit 1").collect()[0]
        first = Path(location.removeprefix("file:"))
        folder = first.parent / f"links_{len(places)}_{time.monotonic_ns()}"
        folder.mkdir()
        lines = []
        for number, place in enumerate(places):
            file = folder / f"{number:06}{first.suffix}"
            file.hardlink_to(first)
            lines.append("\t".join([str(file), *map(json.dumps, place)]))
        compiled(self.spark, lambda: table, "bench.Links", LINKS).append(table, size, "\n".join(lines))


def plans(bench: Bench, partitions: int) -> None:
    """Plan a backfill of a table of many partitions, whose files are the recorded ones."""
    from scale_jobs import scale  # type: ignore[import-not-found]

    from twice.api import runtime
    from twice.backfills.api import Project
    from twice.backfills.request import Request
    from twice.engine.status.table_state import TableState
    from twice.model.scopes import Scope
    from twice.model.targets import Target
    from twice.model.windows import Window

    bench.note(f"linking {partitions:,} partitions …")
    bench.spark.sql("create table lake.raw.events (hour timestamp, id bigint) using iceberg partitioned by (hour)")
    bench.spark.sql(f"insert into lake.raw.events select timestamp_seconds({int(START.timestamp())}), 1L")
    bench.link("lake.raw.events", [[(START + n * HOUR).isoformat()] for n in range(1, partitions)])
    window = Window(START, START + partitions * HOUR)
    request = Request("scale", window, only=("all",), refetch=True)
    with runtime(bench.config, spark=bench.spark) as shared:
        target = Target.of(scale.steps["land"].writes, Scope(window), scale.zone)
        record(shared.ledger, scale.steps["land"], list(TableState(shared).outputs(target).values()))

    def plan(shared: Runtime) -> None:
        made = Project(shared, scale).planner(request).plan()
        counts = [(step.counts, sum(len(stage.target.partitions) for stage in step.chunks)) for step in made.steps]
        if counts != [({"done": partitions}, partitions), ({"missing": partitions}, partitions)]:
            raise SystemExit(f"the plan makes {counts} partitions")

    for _ in range(2):
        bench.measure("plan_10k_s", plan)


def files(bench: Bench, count: int) -> None:
    """Find a scope of many files fresh, and replace it by another one."""
    from scale_jobs import lake

    from twice.api import runtime
    from twice.engine.status.table_state import TableState
    from twice.model.scopes import Scope
    from twice.model.targets import Target

    day, few = date(2026, 4, 25), 10
    table = lake.steps["tenants"].writes
    target = Target.of(table, Scope(lake.grain.unit(day.isoformat(), lake.zone)), lake.zone)

    def ends(status: str, *, skip_fresh: bool) -> Callable[[Runtime], None]:
        def run(shared: Runtime) -> None:
            statuses = [step.status for step in bench.run(shared, "lake", day, skip_fresh=skip_fresh).steps]
            if statuses != [status]:
                raise SystemExit(f"the run ended as {statuses}")

        return run

    for _ in range(2):
        bench.land(day, few)
        with runtime(bench.config, spark=bench.spark) as shared:
            bench.run(shared, "lake", day)
            bench.note(f"linking {count:,} files …")
            bench.link("lake.core.tenants", [[day.isoformat(), f"u{n:06}"] for n in range(few, count)])
            # As maintenance does: other files, of content that is taken for the same
            shared.ledger.outputs.rerecord(table.name, TableState(shared).outputs(target), None)
        found = bench.spark.sql("select count(*) from lake.core.tenants.files").collect()[0][0]
        if found != count:
            raise SystemExit(f"there are {found} files")
        bench.measure("fresh_20k_s", ends("fresh", skip_fresh=True))
        bench.land(day, few + 1)
        bench.measure("replace_20k_s", ends("published", skip_fresh=False))
    bench.seconds["files_20k_s"] = bench.seconds["fresh_20k_s"] + bench.seconds["replace_20k_s"]


def tenants(bench: Bench, count: int) -> None:
    """Write a day of many tenants to a SQL database."""
    days: Iterator[date] = (date(2026, 5, 1) + timedelta(days=number) for number in range(3))
    for number, day in enumerate(days):
        bench.land(day, count if number else 10)

        def write(shared: Runtime, day: date = day, count: int = count if number else 10) -> None:
            rows = [step.rows for step in bench.run(shared, "serving", day).steps]
            if rows != [count]:
                raise SystemExit(f"the run wrote {rows} rows")

        if number:
            bench.measure("tenants_100k_s", write)
        else:  # creates the table
            from twice.api import runtime

            with runtime(bench.config, spark=bench.spark) as shared:
                write(shared)


def _memory(name: str) -> float:
    """Return the memory of this process in megabytes: now, or at its peak."""
    with suppress(OSError):
        found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if found:
            return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000, help="partitions that are planned")
    parser.add_argument("--files", type=int, default=20_000, help="files of one scope")
    parser.add_argument("--tenants", type=int, default=100_000, help="tenants of one day")
    parser.add_argument("--listed", type=int, default=100_000, help="partitions that `twice status` lists")
    parser.add_argument("--fill", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill(Path(options.fill), options.listed)
        return
    found = listed(options.listed)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        bench.spark.sql(
            "create table lake.raw.tenants (day date, tenant string, amount bigint) using iceberg partitioned by (day)"
        )
        tenants(bench, options.tenants)
        plans(bench, options.partitions)
        files(bench, options.files)
        bench.spark.stop()
    print(
        json.dumps(
            {
                "bench": "scale",
                **{name: round(value, 2) for name, value in sorted(bench.seconds.items())},
                **{name: round(value, 2) for name, value in found.items()},
                "driver_mb": round(max(bench.driver_mb.values()), 1),
                **{f"{name.removesuffix('_s')}_mb": round(value, 1) for name, value in bench.driver_mb.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
