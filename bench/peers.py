"""The same pipeline by twice, SQLMesh, dbt and Spark Declarative Pipelines: seconds, and what goes wrong.

The wide workload of bench/backfill.py: 90 days of landed orders into a fact table and a daily customer summary, in
Iceberg tables of one catalog. Every contender has the same jars, the same local Spark and a project as its
documentation recommends; each command is a process of its own, with Spark's start, and the contenders are
interleaved. Four pieces of work: all days for the first time (`wide`), ten days whose input changed (`restated`), one
day whose input changed (`day`), and a run that finds nothing to do (`nothing`). At the end the tables of all
contenders are compared with each other and with what the input says. twice checks its gates and keys on the way and
records digests; the peers run without tests or audits.

Then the probes, each on a table of a few rows: a day whose input became empty, a merge whose source holds a key twice,
kill -9 during a write, and the same command twice at once. `vs_sqlmesh` and `vs_dbt` are the seconds of the peer
divided by those of twice, for `wide`; above 1 the peer takes longer.

    python bench/peers.py [--wide-days 90] [--wide-orders 3000000] [--rounds 3] [--peers sqlmesh,dbt,sdp]
                          [--probes all|none|empty,merge,kill,both]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import _probes
import _wide
import backfill
import sqlalchemy as sa
from _contenders import EVERYONE, Contender, Project
from _processes import interleaved, seconds_of

from tests.support import servers
from twice import config as configuration
from twice.engine.spark import session

RAW = "lake.raw.wide"
_RESTATED = 10
WORKS = ("wide", "restated", "day", "nothing")


@dataclass(frozen=True)
class Bench:
    """The lake that all contenders write to, and the projects of the measured rounds."""

    lake: Path
    projects: dict[str, list[Project]]
    days: int

    def window(self, work: str) -> tuple[date, date]:
        """Return the first and the last day that a piece of work makes again."""
        if work == "day":
            return self._day(self.days - 1), self._day(self.days - 1)
        count = min(_RESTATED, self.days - 1)
        first = (self.days - 1 - count) // 2
        return self._day(first), self._day(first + count - 1)

    def here(self, work: str, *words: str) -> None:
        """Do some work on the raw table in a process of its own."""
        program = [sys.executable, str(Path(__file__).resolve()), f"--work={work}", f"--folder={self.lake}"]
        seconds_of([*program, f"--wide-days={self.days}", *words], self.lake)

    @staticmethod
    def _day(number: int) -> date:
        return backfill.START + timedelta(days=number)


def work(options: argparse.Namespace) -> None:
    """Land, correct or check in this process."""
    spark = session.start(configuration.load(options.folder / "twice.toml"))
    if options.work == "land":
        backfill.land(spark, RAW, options.wide_days, options.wide_orders)
        for space in filter(None, options.spaces.split(",")):
            spark.sql(f"create namespace if not exists lake.{space}")
    elif options.work == "correct":
        first, last, version = options.correct.split(",")
        _wide.correct(spark, RAW, date.fromisoformat(first), date.fromisoformat(last), int(version))
    else:
        wanted = _wide.content(spark, RAW)
        for space in options.spaces.split(","):
            found = _wide.content(spark, RAW, space.removesuffix("!"))
            # With "!": made before the input of some days changed; only the other days are compared.
            old = {name for name in wanted if name.split()[1] in options.correct.split(",")} if "!" in space else set()
            wrong = sorted(name for name in {*wanted, *found} - old if wanted.get(name) != found.get(name))
            if wrong:
                raise AssertionError(f"{space} differs: {wrong[0]}: {found.get(wrong[0])}, not {wanted.get(wrong[0])}")
    spark.stop()


def measure(bench: Bench, chosen: dict[str, Contender], rounds: int, orders: int) -> dict[str, float]:
    """Time every piece of work by every contender that can express it; return the medians."""
    spaces = [project.space for each in bench.projects.values() for project in each]
    bench.here("land", f"--wide-orders={orders}", f"--spaces={','.join(spaces)}")
    found: dict[str, float] = {}
    for version, what in enumerate(WORKS, 2):
        if what in {"restated", "day"}:
            first, last = bench.window(what)
            bench.here("correct", f"--correct={first},{last},{version}")
        sides: dict[str, Callable[[int], float]] = {
            name: partial(timed, bench, contender, what)
            for name, contender in chosen.items()
            if what == "wide" or not contender.cannot_restate
        }
        middle = interleaved(sides, rounds, title=f"{what:8} ")
        found |= {f"{what}_{name}_s": round(seconds, 2) for name, seconds in middle.items()}
    marked = [
        f"{project.space}!" if chosen[name].cannot_restate else project.space
        for name, each in bench.projects.items()
        for project in each
    ]
    windows = [bench.window(what) for what in ("restated", "day")]
    old = [first + timedelta(days=n) for first, last in windows for n in range((last - first).days + 1)]
    bench.here("check", f"--spaces={','.join(marked)}", f"--correct={','.join(map(str, old))}")
    return found


def timed(bench: Bench, contender: Contender, what: str, number: int) -> float:
    """Do one piece of work by one contender in one round; return its seconds."""
    project = bench.projects[contender.name][number]
    if what == "wide":
        return contender.seconds(project, contender.whole(project))
    if what == "nothing":
        contender.before_nothing(project)
        commands, expected = contender.nothing(project)
        return contender.seconds(project, *commands, expected=expected)
    return contender.seconds(project, contender.again(project, *bench.window(what)))


def main() -> None:
    """Measure and probe, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wide-days", type=int, default=90)
    parser.add_argument("--wide-orders", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="0 measures nothing and leaves only the probes")
    parser.add_argument("--peers", default="sqlmesh,dbt,sdp")
    parser.add_argument("--probes", default="all")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--spaces", default="", help=argparse.SUPPRESS)
    parser.add_argument("--correct", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    names = ["twice", *filter(None, options.peers.split(","))]
    absent = {name: EVERYONE[name].missing() for name in names if EVERYONE[name].missing()}
    chosen = {name: EVERYONE[name] for name in names if name not in absent}
    for name, reason in absent.items():
        print(f"{name} takes no part: {reason}", file=sys.stderr)
    result: dict[str, object] = {"bench": "peers", "vs_sqlmesh": None, "vs_dbt": None}
    result |= {
        "absent": absent,
        "cannot": {name: each.cannot_restate for name, each in chosen.items() if each.cannot_restate},
    }
    with ExitStack() as stack:
        lake = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (lake / "twice.toml").write_text(backfill.TOML)
        state = state_of(stack.enter_context(servers.running(servers.PostgresServer))) if "sqlmesh" in chosen else dict
        make = partial(made, lake, state)
        if options.rounds:
            template = Project(lake, "", RAW, backfill.START, options.wide_days)
            projects = {
                name: [make(each, "wide", replace(template, space=f"{name}_{n}")) for n in range(options.rounds)]
                for name, each in chosen.items()
            }
            seconds = measure(Bench(lake, projects, options.wide_days), chosen, options.rounds, options.wide_orders)
            for name in {"sqlmesh", "dbt"} & set(chosen):
                result[f"vs_{name}"] = round(seconds[f"wide_{name}_s"] / seconds["wide_twice_s"], 2)
            result |= seconds
        wanted = _probes.NAMES if options.probes == "all" else options.probes.replace("none", "").split(",")
        result["probes"] = _probes.run(lake, chosen, make, [each for each in wanted if each])
    print(json.dumps(result))


def state_of(server: servers.PostgresServer) -> Callable[[], dict[str, str]]:
    """Return what gives each project a database of its own for its state."""

    def names() -> dict[str, str]:
        url = sa.make_url(server.database())
        parts = {"host": url.host, "port": url.port, "user": url.username, "password": url.password}
        return {f"state_{name}": str(value) for name, value in {**parts, "database": url.database}.items()}

    return names


def made(lake: Path, state: Callable[[], dict[str, str]], contender: Contender, kind: str, project: Project) -> Project:
    """Write a contender's project of a kind into a folder of its own."""
    folder = lake / f"project_{project.space}"
    mine = state() if contender.name == "sqlmesh" else {}
    return contender.project(kind, lake, replace(project, folder=folder, state=mine))


if __name__ == "__main__":
    main()
