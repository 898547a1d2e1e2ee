"""The story of `make demo`: a day run, run again, killed and rerun, beside a job that appends.

Everything lives in one folder (`.twice/demo` by default) and is rebuilt each time.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from examples import chat

# The size must be set before the pipeline is imported: it is read once.
ORDERS = int(os.environ.setdefault("TWICE_SHOP_ORDERS", "250000"))

from rich.console import Console
from rich.table import Table as Grid

from examples.shop import pipeline
from examples.unsafe import append
from twice import config as configuration
from twice import run
from twice.api import runtime
from twice.engine.spark import session
from twice.ledger import open_ledger
from twice.verify.report.texts import plain
from twice.verify.running import Request, verify
from twice.verify.sandbox import Sandbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.engine.run import RunResult

SATURDAY, SUNDAY = "2026-04-25", "2026-04-26"
LANDED = ("2026-04-25", "2026-04-30")
FACTS = "lake.core.fct_orders"
UNSAFE = "lake.unsafe.orders"
ROOT = Path(__file__).parent.parent.parent
TOML = """\
[pipelines]
shop = "examples.shop.pipeline:shop"
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
"spark.sql.shuffle.partitions" = "4"
"""


class Demo:
    """The story's steps; each prints what a user would type, and what comes out."""

    def __init__(self, folder: Path, channel: chat.Channel) -> None:
        # The pipeline reads the channel's address when it is imported.
        os.environ["SHOP_CHAT_URL"] = channel.url
        self.channel, self.shop = channel, importlib.reload(pipeline).shop
        self.out = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.file = folder / "twice.toml"
        self.file.write_text(TOML, encoding="utf-8")
        self.config = configuration.load(self.file)
        self.spark: SparkSession

    def play(self) -> None:
        """Run the whole story."""
        started = time.monotonic()
        self.say(f"Starting Spark (local). A shop with {ORDERS:,} orders a day; everything stays in {self.folder}.")
        self.spark = session.start(self.config)
        self.chapter("1. Five days of deliveries arrive, with late, repeated and corrected orders")
        self.run(f'twice.run(shop, from_="{LANDED[0]}", to="{LANDED[1]}", steps=["raw_orders_feed"])', from_to=LANDED)
        self.chapter("2. Run Saturday")
        first = self.run(f"twice run shop --for {SATURDAY}", unit=SATURDAY)
        rows, revenue = self.facts(FACTS, SATURDAY)
        self.say(f"Saturday has {rows:,} orders, revenue {revenue:,.2f}.")
        self.say(f"The application's database has it, too: {self.served(SATURDAY)}.")
        self.chapter("3. Run Saturday again")
        versions = self.versions()
        again = self.run(f"twice run shop --for {SATURDAY}", unit=SATURDAY)
        same = [step.digest for step in first.steps] == [step.digest for step in again.steps]
        self.say(f"Same digests: {same}. New versions of {FACTS}: {self.versions() - versions}.")
        self.say(f"Posts about Saturday in the shop's chat channel: {self.posts(SATURDAY)}.")
        self.chapter("4. Kill Sunday's run halfway through, and the next one just after it has posted the revenue")
        self.kill_halfway()
        self.kill_after_sending()
        self.run(f"twice run shop --for {SUNDAY}", unit=SUNDAY)
        self.say(
            "That post was not recorded, and a webhook knows no keys: the channel was asked, and has it. "
            f"Posts about Sunday: {self.posts(SUNDAY)}."
        )
        rows, revenue = self.facts(FACTS, SUNDAY)
        self.say(f"Sunday has {rows:,} orders, revenue {revenue:,.2f}. Leftover branches: {self.leftovers()}.")
        self.say(f"The application sees {self.served(SUNDAY)}.")
        self.chapter("5. The same day by a job that appends, killed and retried")
        self.unsafe(rows, revenue)
        self.chapter("6. Prove it: one step, run twice, shuffled, in every order and on an empty day, in a sandbox")
        self.prove()
        self.chapter("7. What twice knows")
        self.status()
        self.say(f"\nDone in {time.monotonic() - started:.0f} s. To look around: twice --config {self.file} runs")

    def run(self, command: str, *, unit: str | None = None, from_to: tuple[str, str] | None = None) -> RunResult:
        """Run part of the shop in this process, and show what came out."""
        prompt = ">>>" if from_to else "$"
        self.out.print(f"\n  {prompt} {command}", markup=False, style="bold")
        ledger = open_ledger(self.config.ledger)
        with self.out.status("running …"):
            if from_to:
                result = run(
                    self.shop,
                    from_=from_to[0],
                    to=from_to[1],
                    steps=["raw_orders_feed"],
                    config=self.config,
                    spark=self.spark,
                    ledger=ledger,
                )
            else:
                result = run(self.shop, unit, config=self.config, spark=self.spark, ledger=ledger)
        grid = Grid(box=None, padding=(0, 2), show_header=True, header_style="dim")
        for name in ("", "step", "result", "rows", "seconds", "digest"):
            grid.add_column(name, justify="right" if name in {"rows", "seconds"} else "left")
        for step in result.steps:
            grid.add_row("", step.step, step.status, f"{step.rows:,}", f"{step.seconds:.1f}", step.digest[:24] + "…")
        self.out.print(grid)
        return result

    def kill_halfway(self) -> None:
        """Run Sunday in a process of its own that is killed once its rows are staged."""
        command = ["run", "shop", "--for", SUNDAY]
        self.out.print(
            f"\n  [bold]$ twice {' '.join(command)}[/bold]   (killed by SIGKILL at the fail point stage.written)"
        )
        with self.out.status("running …"):
            # The first two steps land raw data; the third is the fact table.
            code = self.twice(*command, TWICE_FAILPOINT="stage.written:kill", TWICE_FAILPOINT_AT="3").returncode
        killed = "killed" if code == -signal.SIGKILL else f"exit {code}"
        rows, _ = self.facts(FACTS, SUNDAY)
        self.say(f"It was {killed}. Readers see {rows:,} orders for Sunday; staged and invisible: {self.leftovers()}.")

    def kill_after_sending(self) -> None:
        """Run Sunday in a process of its own that is killed between sending the post and recording it."""
        command = ["run", "shop", "--for", SUNDAY]
        self.out.print(
            f"\n  [bold]$ twice {' '.join(command)}[/bold]   (killed by SIGKILL at the fail point effect.answered)"
        )
        with self.out.status("running …"):
            code = self.twice(*command, TWICE_FAILPOINT="effect.answered:kill").returncode
        killed = "killed" if code == -signal.SIGKILL else f"exit {code}"
        self.say(f"It was {killed}. Posts about Sunday: {self.posts(SUNDAY)}.")

    def posts(self, day: str) -> int:
        """Count what the channel got about a day."""
        return sum(day in post for post in self.channel.posts)

    def unsafe(self, right_rows: int, right_revenue: Decimal) -> None:
        """Show what the same accident does to an append."""
        fails = ORDERS * 18 // 25
        self.out.print(f"\n  [bold]$ python -m examples.unsafe.append {UNSAFE} --date {SUNDAY}[/bold]   (twice)")
        arguments = [UNSAFE, "--date", SUNDAY, "--orders", str(ORDERS)]
        with self.out.status("running …"):
            append.main([*arguments, "--fail-after-rows", str(fails)], self.spark)
            append.main(arguments, self.spark)
        rows, revenue = self.facts(UNSAFE, SUNDAY)
        self.say(
            f"It ends with {rows:,} orders instead of {right_rows:,} and reports revenue {revenue:,.2f}: "
            f"{revenue - right_revenue:,.2f} too much ({revenue / right_revenue - 1:+.0%})."
        )

    def prove(self) -> None:
        """Verify one step on a sample of Saturday, and show what the checks saw."""
        self.out.print(f"\n  [bold]$ twice verify shop --for {SATURDAY} --step orders --quick --sample 2000[/bold]")
        unit = self.shop.grain.unit(SATURDAY, self.shop.zone)
        with (
            self.out.status("checking …"),
            runtime(self.config, spark=self.spark) as production,
            Sandbox.open(self.config, self.spark) as sandbox,
        ):
            report = verify(production, sandbox, self.shop, Request(unit, steps=["orders"], quick=True, sample=2000))
        grid = Grid(box=None, padding=(0, 2), header_style="dim")
        for name in ("", "check", "result", "what was seen"):
            grid.add_column(name)
        for outcome in report.outcomes:
            grid.add_row("", outcome.check, outcome.status, plain(outcome.summary))
        self.out.print(grid)

    def status(self) -> None:
        """Show `twice status` as the command line prints it."""
        self.out.print("\n  [bold]$ twice status shop[/bold]")
        sys.stdout.flush()
        said = self.twice("status", "shop").stdout
        self.out.print("\n".join(f"  {line}" for line in said.splitlines()), markup=False)

    def twice(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Call the command line in a process of its own."""
        python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            [sys.executable, "-m", "twice", "--config", str(self.file), *arguments],
            env={**os.environ, **environment, "PYTHONPATH": python_path},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    def facts(self, table: str, day: str) -> tuple[int, Decimal]:
        """Count a day's orders and add up their revenue, as any reader would."""
        if not self.spark.catalog.tableExists(table):
            return 0, Decimal(0)
        found = self.spark.sql(
            f"SELECT count(*) AS orders, sum(if(status = 'cancelled', 0, amount_usd)) AS revenue FROM {table} "
            "WHERE order_date = to_date(:day)",
            args={"day": day},
        ).first()
        return (found["orders"], found["revenue"] or Decimal(0)) if found else (0, Decimal(0))

    def served(self, day: str) -> str:
        """Ask the serving database as an application would: without Spark, without twice."""
        query = "SELECT count(*), sum(orders) FROM daily_customer_summary WHERE order_date = ?"
        with closing(sqlite3.connect(self.folder / "serving.db")) as database:
            customers, orders = database.execute(query, (day,)).fetchone()
        return f"{customers:,} customers with {orders or 0:,} orders that were not cancelled"

    def versions(self) -> int:
        """Count the versions that readers of the fact table have seen."""
        return self.spark.table(f"{FACTS}.history").count()

    def leftovers(self) -> str:
        """Name the branches that are not main."""
        names = [row["name"] for row in self.spark.table(f"{FACTS}.refs").collect() if row["name"] != "main"]
        return ", ".join(names) or "none"

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        self.out.rule(f"[bold]{title}", align="left")

    def say(self, text: str) -> None:
        """Print one sentence."""
        self.out.print(f"  {text}", markup=False)


def main(arguments: Sequence[str]) -> int:
    """Play the demo in the given folder."""
    folder = Path(arguments[0]) if arguments else Path(".twice") / "demo"
    with chat.listening() as channel:
        Demo(folder.resolve(), channel).play()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
