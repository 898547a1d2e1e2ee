"""`twice backfill`: reprocess a range, and watch, pause, resume, cancel or swap it from anywhere."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

from twice.cli.backfills import cancel, find, list_, pause, set_, show, watch
from twice.cli.options import pairs, tags_of
from twice.cli.output import json_option, print_json, print_text
from twice.cli.plans import lines as plan_lines
from twice.cli.settings import Settings, pass_settings, require_pyspark
from twice.cli.shadows import diff, drop, swap
from twice.cli.working import reporting
from twice.errors import UsageError
from twice.loading import find_pipeline

if TYPE_CHECKING:
    from twice.backfills.request import Request
    from twice.backfills.summary import BackfillResult
    from twice.engine.events import Listener
    from twice.ledger import BackfillInfo
    from twice.model.pipelines import Pipeline

log = logging.getLogger(__name__)


class DefaultGroup(click.Group):
    """A group that passes anything that is not one of its commands to `start`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `start` in front where no command is named."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["start", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DefaultGroup, short_help="Reprocess a range of partitions.")
def backfill() -> None:
    """Reprocess a range: plan it, run it in chunks, watch, pause, resume or cancel it.

    `twice backfill PIPELINE --from A --to B` is short for `twice backfill start PIPELINE …`; a pipeline
    that is named like one of the commands below needs the long form.

    \b
    twice backfill shop --from 2026-01-01 --to 2026-04-01 --dry-run
    twice backfill shop --from 2026-01-01 --to 2026-04-01 --parallel 4 --tag project=restate
    twice backfill resume 06ksm4
    twice backfill shop --from 2026-01-01 --to 2026-04-01 --shadow
    """


@backfill.command(short_help="Start a backfill (the default).")
@click.argument("pipeline")
@click.option("--from", "from_", metavar="A", help="The first unit.")
@click.option("--to", metavar="B", help="Where the units end; B itself is not built.")
@click.option("--step", "steps", multiple=True, metavar="S", help="Only this step; may be given several times.")
@click.option("--downstream", is_flag=True, help="Also the steps that read from those of --step.")
@click.option("--upstream", is_flag=True, help="Also the steps that those of --step read from.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Fix a dimension: --set tenant=acme.")
@click.option("--only", multiple=True, type=click.Choice(["missing", "failed", "stale", "all"]),
              help="What to build; by default missing, failed and stale. all also rebuilds what is fresh.")  # fmt: skip
@click.option("--order", type=click.Choice(["forward", "backward"]), default="forward", show_default=True,
              help="Oldest first, or newest first.")  # fmt: skip
@click.option(
    "--parallel", type=int, default=2, show_default=True, metavar="N", help="Chunks at once, in all processes."
)
@click.option("--chunk", default="auto", show_default=True, metavar="auto|N", help="Partitions per Spark job.")
@click.option("--pool", metavar="NAME", help="The pool of [pools] in which its Spark jobs run.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="A tag recorded with each of its runs.")
@click.option("--refetch", is_flag=True, help="Also fetch again what extracts have already landed.")
@click.option(
    "--accept-late", is_flag=True, help='Rebuild closed partitions of tables with on_late="fail", late rows included.'
)
@click.option(
    "--shadow",
    is_flag=True,
    help="Build everything out of sight of readers; then compare with diff, and swap or drop it.",
)
@click.option("--effects", is_flag=True, help="Send the effects of what is published; without it they are suppressed.")
@click.option("--dry-run", is_flag=True, help="Only show the plan: the same chunks that would run.")
@json_option
@pass_settings
def start(
    settings: Settings,
    pipeline: str,
    from_: str | None,
    to: str | None,
    steps: tuple[str, ...],
    downstream: bool,
    upstream: bool,
    sets: tuple[str, ...],
    only: tuple[str, ...],
    order: str,
    parallel: int,
    chunk: str,
    pool: str | None,
    tags: tuple[str, ...],
    refetch: bool,
    accept_late: bool,
    shadow: bool,
    effects: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Build what is missing, failed or stale in a range, upstream first, many partitions per Spark job.

    A step whose partitions do not depend on each other computes several of them in one job; the plan says why or
    why not. A partition that fails does not stop the rest. With --json every event is one JSON object on standard
    error, and the last line, on standard output, is the summary.

    \b
    twice backfill shop --from 2026-01-01 --to 2026-04-01 --dry-run
    twice backfill shop --from 2026-01-01 --to 2026-04-01 --step facts --downstream --only all
    """
    found = find_pipeline(settings.config, pipeline)
    from twice.backfills.request import ONLY, Request, around, check, known_pool, range_of

    request = Request(
        place=pipeline,
        window=range_of(found, from_, to),
        steps=around(found, steps, downstream=downstream, upstream=upstream),
        dimensions=pairs(sets, "--set"),
        only=only or ONLY,
        order=order,
        parallel=parallel,
        chunk=_chunk(chunk),
        pool=known_pool(settings.config, pool),
        tags=tags_of(tags, settings.secrets),
        refetch=refetch,
        accept_late=accept_late,
        shadow=shadow,
        effects=effects,
    )
    check(found, request, None if dry_run else settings.ledger_if_any())
    if dry_run:
        _plan(settings, found, request, as_json=as_json)
    else:
        _start(settings, found, request, as_json=as_json)


def _start(settings: Settings, found: Pipeline, request: Request, *, as_json: bool) -> None:
    require_pyspark()
    from twice.backfills.api import Project, plan_without_spark
    from twice.backfills.summary import BackfillResult

    if plan := plan_without_spark(settings.config, found, request):
        report_end(settings, BackfillResult.of_nothing(plan), as_json=as_json)
        return
    with (
        reporting(settings, as_json=as_json) as report,
        settings.runtime(_details(settings, as_json=as_json)) as runtime,
    ):
        summary = Project(runtime, found, report, settings.command).start(request)
    report_end(settings, summary, as_json=as_json)


@backfill.command(short_help="Continue a backfill.")
@click.argument("backfill_id", metavar="ID")
@click.option("--new-code", is_flag=True, help="Continue with the new code, which builds what is left.")
@click.option("--restart", is_flag=True, help="Judge everything again, as a new backfill would.")
@click.option("--join", is_flag=True, help="Work on it together with the processes that already do.")
@json_option
@pass_settings
def resume(settings: Settings, backfill_id: str, new_code: bool, restart: bool, join: bool, as_json: bool) -> None:
    """Continue a backfill that was paused, interrupted or killed: finished partitions stay done.

    Processes that wait for it continue; otherwise this one does the work. With --json every event is one JSON
    object on standard error, and the last line, on standard output, is the summary.

    \b
    twice backfill resume 06ksm4
    """
    from twice.ledger import backfill_at_work

    ledger, info = find(settings, backfill_id)
    completed = info.status == "partly" and restart and info.shadow is not None
    if info.status in ("done", "partly", "cancelled") and not completed:
        raise UsageError(
            f"backfill {info.id} has ended: it is {info.status}",
            next_step=f"twice backfill resume {info.id} --restart builds what its shadow lacks"
            if info.shadow and info.status == "partly"
            else "start a new one: it builds only what is still missing, failed or stale",
        )
    option = "--restart" if restart else "--new-code"
    if info.workers and (restart or (new_code and not join)):
        raise backfill_at_work(info.id, info.workers, option)
    if info.workers and not join:
        if info.status == "paused":
            ledger.backfills.unpause(info.id)
        _print_going(info, as_json=as_json)
        return
    from twice.backfills.api import Project, changed_steps, code_changed, code_of
    from twice.backfills.request import Request

    request = Request.from_json(info.request)
    found = find_pipeline(settings.config, request.place)
    if (changed := changed_steps(info, code_of(found, request))) and not (new_code or restart):
        if not sys.stdin.isatty():
            raise code_changed(info, changed)
        click.echo(f"the code of {', '.join(changed)} changed since backfill {info.id} began", err=True)
        answer = click.prompt(
            "Build what is left with the new code, or restart?", type=click.Choice(["new-code", "restart"]), err=True
        )
        new_code, restart, option = answer == "new-code", answer == "restart", f"--{answer}"
    if info.workers and changed:
        raise backfill_at_work(info.id, info.workers, option)
    with (
        reporting(settings, as_json=as_json) as report,
        settings.runtime(_details(settings, as_json=as_json)) as runtime,
    ):
        command = settings.command
        summary = Project(runtime, found, report, command).go_on(info, new_code=new_code, restart=restart)
    report_end(settings, summary, as_json=as_json)


for _command in (list_, show, watch, pause, cancel, set_, diff, swap, drop):
    backfill.add_command(_command)


def _details(settings: Settings, *, as_json: bool) -> Listener | None:
    """Return a listener for every step of the publish protocol, if the options request one."""
    from twice.cli.progress import json_line, text_line

    if settings.verbosity < 1:
        return None
    return json_line if settings.json_logs or as_json else text_line


def _print_going(info: BackfillInfo, *, as_json: bool) -> None:
    where = ", ".join(map(str, info.workers))
    if as_json:
        print_json({"backfill": info.id, "status": "running", "workers": [w.to_json() for w in info.workers]})
    else:
        print_text(f"backfill {info.id} continues on {where}; twice backfill resume {info.id} --join works beside it")


def report_end(settings: Settings, summary: BackfillResult, *, as_json: bool) -> None:
    """Print the summary, run the failure hook, and exit with the backfill's code."""
    if summary.failures:
        _call_hook(settings, summary)
    if as_json:
        print_json(summary.to_json(), long=True)
    else:
        for line in summary.lines:
            print_text(line)
    if summary.exit_code:
        raise click.exceptions.Exit(summary.exit_code)


def _call_hook(settings: Settings, summary: BackfillResult) -> None:
    """Call `on_failure` once, with everything that a backfill could not build."""
    from twice.engine.hooks import on_failure

    facts = summary.to_json() | {"command": settings.command, "error": summary.error}
    if problem := on_failure(settings.config, facts):
        log.error("the failure hook failed: %s", problem)


def _plan(settings: Settings, pipeline: Pipeline, request: Request, *, as_json: bool) -> None:
    require_pyspark()
    from twice.backfills.api import Project, plan_without_spark

    plan = plan_without_spark(settings.config, pipeline, request)
    if plan is None:
        with settings.runtime() as runtime:
            project = Project(runtime, pipeline)
            if request.shadow:
                request = project.shadow_request(request)
                project = project.on_shadows(request, "shadow")
            plan = project.planner(request).plan()
    if as_json:
        print_json(plan.to_json())
        return
    for line in plan_lines(plan):
        print_text(line)


def _chunk(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"--chunk {text!r}: write auto, or the number of partitions per job, 1 or more")
    return int(text)
