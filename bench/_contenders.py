"""Who takes part in bench/peers.py: each with a project, the commands that a user runs, and its environment."""

from __future__ import annotations

import os
import shutil
import string
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from _processes import ROOT, TWICE, seconds_of

from twice import config as configuration
from twice.engine.spark import session

PROJECTS = Path(__file__).parent / "peers"
ENVIRONMENTS = ROOT / ".venv-peers"
# Spark's defaults that twice changes for its own sake; the peers keep Spark's.
_ONLY_TWICE = ("spark.sql.shuffle.orderIndependentChecksum", "spark.log.level")


@dataclass(frozen=True)
class Project:
    """A contender's project: where it is, the namespace that it writes, the table that it reads, its first day."""

    folder: Path
    space: str
    raw: str
    start: date
    days: int
    state: Mapping[str, str] = field(default_factory=dict)

    @property
    def last(self) -> date:
        """The last day."""
        return self.start + timedelta(days=self.days - 1)

    def write(self, template: Path) -> None:
        """Copy a template's files, with the project's own names in them."""
        names = {"folder": str(self.folder), "space": self.space, "raw": self.raw, "last": self.last.isoformat()}
        names |= {"start": self.start.isoformat(), "raw_name": self.raw.rpartition(".")[2], **self.state}
        for file in (path for path in template.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            target = self.folder / file.relative_to(template)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(string.Template(file.read_text()).substitute(names))


class Contender(ABC):
    """What is the same for all: a template for each kind of project, and seconds for commands."""

    name = ""
    # Why some work is not measured; empty when all of it is.
    cannot_restate = ""
    cannot_merge = ""
    # What lets two commands run on one machine as they would on two.
    side_by_side: Mapping[str, str] = {}

    def project(self, kind: str, lake: Path, project: Project) -> Project:
        """Write a project of a kind; return it."""
        project.write(PROJECTS / self.name / kind)
        return project

    def missing(self) -> str:
        """Return why the contender cannot take part; empty when it can."""
        return ""

    def environment(self, project: Project) -> dict[str, str]:
        """Return what its commands find in their environment."""
        return {}

    @abstractmethod
    def whole(self, project: Project) -> list[str]:
        """Return the command that makes all days for the first time."""

    @abstractmethod
    def again(self, project: Project, first: date, last: date) -> list[str]:
        """Return the command that makes some days again, because what they are made from changed."""

    def emptied(self, project: Project, day: date) -> list[str]:
        """Return the command that makes a day again whose input became empty."""
        return self.again(project, day, day)

    def nothing(self, project: Project) -> tuple[list[list[str]], str]:
        """Return the commands of a run that has nothing to do, and what the last one prints then."""
        raise AssertionError(self.cannot_restate)

    def before_nothing(self, project: Project) -> float:
        """Do what a run with nothing to do needs from an earlier run; return its seconds, which do not count."""
        return 0.0

    def merge(self, project: Project, day: date) -> list[str]:
        """Return the command that merges what arrived on a day."""
        raise AssertionError(self.cannot_merge)

    def seconds(self, project: Project, *commands: list[str], expected: str = "") -> float:
        """Run commands, one after the other; return the seconds of all; the last one prints what is expected."""
        took = 0.0
        for number, command in enumerate(commands, 1):
            wanted = expected if number == len(commands) else ""
            took += seconds_of(command, project.folder, expected=wanted, environment=self.environment(project))
        return took


class Twice(Contender):
    """The package of this repository."""

    name = "twice"

    def whole(self, project: Project) -> list[str]:
        return self._backfill(project.start, project.last)

    def again(self, project: Project, first: date, last: date) -> list[str]:
        return self.merge(project, first) if first == last else self._backfill(first, last)

    def emptied(self, project: Project, day: date) -> list[str]:
        # The pipeline has a gate against empty days; this is how a user lets one pass.
        return [*self.again(project, day, day), "--accept", "row count at least 1", "--because", "the input is empty"]

    def nothing(self, project: Project) -> tuple[list[list[str]], str]:
        return [self.whole(project)], ""

    def merge(self, project: Project, day: date) -> list[str]:
        return [*TWICE, "run", "bench", "--for", day.isoformat()]

    def environment(self, project: Project) -> dict[str, str]:
        places = (ROOT, Path(__file__).parent, project.folder)
        return {"PYTHONPATH": os.pathsep.join(map(str, places))}

    def _backfill(self, first: date, last: date) -> list[str]:
        after = last + timedelta(days=1)
        return [*TWICE, "backfill", "bench", "--from", first.isoformat(), "--to", after.isoformat()]


class Peer(Contender):
    """A tool in a virtual environment of its own, with Spark's settings in a file."""

    without = _ONLY_TWICE

    def missing(self) -> str:
        installed = (ENVIRONMENTS / self.name / ".installed").is_file()
        return "" if installed else f"not installed: scripts/setup-peers makes {ENVIRONMENTS.name}/{self.name}"

    def project(self, kind: str, lake: Path, project: Project) -> Project:
        settings = session.settings(configuration.load(lake / "twice.toml")) | {"spark.sql.defaultCatalog": "lake"}
        chosen = {name: value for name, value in settings.items() if not name.startswith(self.without)}
        found = super().project(kind, lake, project)
        (found.folder / "conf").mkdir()
        lines = [f"{name} {value}\n" for name, value in chosen.items()]
        (found.folder / "conf" / "spark-defaults.conf").write_text("".join(lines))
        return found

    def environment(self, project: Project) -> dict[str, str]:
        commands = ENVIRONMENTS / self.name / "bin"
        return {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": "",
            "PYSPARK_PYTHON": str(commands / "python"),
            "PYSPARK_DRIVER_PYTHON": str(commands / "python"),
            "SPARK_CONF_DIR": str(project.folder / "conf"),
        }

    def program(self, name: str) -> str:
        """Return the path of one of its commands: the PATH that counts is that of the child."""
        return str(ENVIRONMENTS / self.name / "bin" / name)


class SQLMesh(Peer):
    """Models by time range; what is done is in its state."""

    name = "sqlmesh"

    def whole(self, project: Project) -> list[str]:
        return [self.program("sqlmesh"), "plan", "--auto-apply", "--no-prompts"]

    def again(self, project: Project, first: date, last: date) -> list[str]:
        days = ["--start", first.isoformat(), "--end", last.isoformat()]
        return [*self.whole(project), "--restate-model", f"lake.{project.space}.facts", *days]

    def nothing(self, project: Project) -> tuple[list[list[str]], str]:
        return [[self.program("sqlmesh"), "run"]], "No models are ready to run"

    def merge(self, project: Project, day: date) -> list[str]:
        if day == project.start:
            return [*self.whole(project), "--execution-time", (day + timedelta(days=1)).isoformat()]
        return [self.program("sqlmesh"), "run", "--ignore-cron", "--end", day.isoformat()]


class Dbt(Peer):
    """Incremental models that are given their days as variables."""

    name = "dbt"

    def whole(self, project: Project) -> list[str]:
        return self.again(project, project.start, project.last)

    def again(self, project: Project, first: date, last: date) -> list[str]:
        return [self.program("dbt"), "run", *self._days(first, last)]

    def nothing(self, project: Project) -> tuple[list[list[str]], str]:
        days = self._days(project.start, project.last)
        newer = ["run", "--select", "source_status:fresher+", "--state", "state", *days]
        asked = [self.program("dbt"), "source", "freshness", *days]
        return [asked, [self.program("dbt"), *newer]], "Nothing to do"

    def before_nothing(self, project: Project) -> float:
        seconds = self.seconds(project, self.nothing(project)[0][0])
        shutil.copytree(project.folder / "target", project.folder / "state")
        return seconds

    def merge(self, project: Project, day: date) -> list[str]:
        return self.again(project, day, day)

    @staticmethod
    def _days(first: date, last: date) -> list[str]:
        return ["--vars", f"{{first: '{first}', last: '{last}'}}"]


class Declarative(Peer):
    """Spark Declarative Pipelines: materialized views, always computed from everything."""

    name = "sdp"
    cannot_restate = "cannot express: a run computes each materialized view from all of its input"
    cannot_merge = "cannot express: a pipeline has no merge by key"
    without = (*_ONLY_TWICE, "spark.master")  # what --remote names
    # Every local run listens on port 15002, except in Spark's own tests, which take a free one.
    side_by_side: Mapping[str, str] = {"SPARK_TESTING": "1"}

    def whole(self, project: Project) -> list[str]:
        return [self.program("spark-pipelines"), "run", "--remote", "local[2]"]

    def again(self, project: Project, first: date, last: date) -> list[str]:
        return self.whole(project)


EVERYONE: dict[str, Contender] = {each.name: each for each in (Twice(), SQLMesh(), Dbt(), Declarative())}
