import json
import os

from dagster import RunRequest, SensorEvaluationContext, SkipReason, asset, job, op, sensor, OpExecutionContext

INBOX = "/mnt/inbox"


@op
def load_file(context: OpExecutionContext):
    path = context.op_config["path"]
    context.log.info(f"loading {path}")


@job
def load_file_job():
    load_file()


@sensor(job=load_file_job, minimum_interval_seconds=60)
def inbox_sensor(context: SensorEvaluationContext):
    since = float(context.cursor) if context.cursor else 0.0
    newest = since
    for name in os.listdir(INBOX):
        path = os.path.join(INBOX, name)
        mtime = os.stat(path).st_mtime
        if mtime <= since:
            continue
        newest = max(newest, mtime)
        yield RunRequest(run_key=name, run_config={"ops": {"load_file": {"config": {"path": path}}}})
    if newest == since:
        yield SkipReason("no new files")
    context.update_cursor(str(newest))
