"""Parquet folders under strace: killed at every system call that changes a file, and disks that fail."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash import parquet_publish as job
from tests.support.project import FULL
from tests.support.strace import needs_strace, traced
from twice.store.parquet import publishing, swap

pytestmark = [pytest.mark.crash, needs_strace]

ROOT = Path(__file__).parents[2]
# Of every so many calls one; the full matrix takes them all.
STEP = 1 if FULL else 3
TOKEN = 2
DONE = "done: 2"


def strace(root: Path, call: str, inject: str | None) -> tuple[int | None, str]:
    """Run a publish; strace counts and disturbs the calls of that name."""
    tamper = ["-e", f"inject={call}:{inject}"] if inject else []
    return traced(root.parent, ["-f", "-e", f"trace={call}", *tamper], job.publish, root, TOKEN)


@pytest.fixture(scope="module")
def seeded(tmp_path_factory):
    root = tmp_path_factory.mktemp("seeded")
    job.seed(root)
    return root


@pytest.fixture
def copies(seeded, tmp_path):
    """Make copies of the seeded store, to be destroyed."""
    numbers = iter(range(10_000))

    def copy() -> Path:
        return Path(shutil.copytree(seeded, tmp_path / str(next(numbers))))

    return copy


def calls(seeded_copy: Path, call: str) -> int:
    """Count the calls of one undisturbed publish."""
    assert strace(seeded_copy, call, None) == (0, DONE)
    return len(re.findall(rf"\b{call}\(", (seeded_copy.parent / "trace").read_text()))


def whole(root: Path) -> bool:
    """Whether the table, once repaired, is one version and nothing else."""
    head = swap.settle(job.folder(root))
    return head is not None and job.data(root) == {1: job.OLD, 2: job.NEW}[head.version]


def recover(root: Path) -> str | None:
    """Do what the next claim does: settle the dead one, then run the same again."""
    landed = publishing.fence(job.folder(root), TOKEN)
    assert landed in (None, "2")
    assert job.data(root) == (job.NEW if landed else job.OLD)
    if landed is None:
        assert job.publish(root, TOKEN + 1) == "2"
    assert job.data(root) == job.NEW
    assert job.leftovers(root) == []
    return landed


@pytest.mark.parametrize("call", ["mkdir", "write", "rename", "rmdir", "unlinkat", "fsync"])
def test_s08_killed_at_any_system_call_then_run_again_is_a_clean_run(copies, call):
    count = calls(copies(), call)
    outcomes = set()
    for number in range(1, count + 1, STEP):
        for moment in ("", "error=EIO:"):  # after the call, or instead of it
            root = copies()
            code, said = strace(root, call, f"{moment}signal=KILL:when={number}")
            assert (code, said) in ((-signal.SIGKILL, ""), (-signal.SIGKILL, DONE)), (number, said)
            assert whole(shutil.copytree(root, f"{root}-look")), number
            outcomes.add(recover(root))
    assert count
    if call in ("rename", "fsync"):  # deaths before and after the decision
        assert outcomes == {None, "2"}


@pytest.mark.parametrize(
    ("call", "error"), [("fsync", "EIO"), ("rename", "EIO"), ("rename", "ENOSPC"), ("mkdir", "ENOSPC")]
)
def test_a_disk_that_fails_at_any_call_leaves_one_whole_version(copies, call, error):
    count = calls(copies(), call)
    for number in range(1, count + 1, STEP):
        root = copies()
        code, said = strace(root, call, f"error={error}:when={number}")
        expected = "twice.errors.EnvironmentProblem" if error == "ENOSPC" else "twice.errors.TransientError"
        if f"{job.folder(root).rows(TOKEN)}/d=" in said:
            expected = "OSError"  # in what stands for Spark here
        assert code == 0
        assert said == DONE or expected in said, (number, said)
        assert whole(shutil.copytree(root, f"{root}-look")), number
        recover(root)


def test_a_full_disk_publishes_nothing_and_says_so(tmp_path):
    """A tmpfs of a few pages, filled by somebody else between staging and publish."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this kernel lets us make no mount namespace")
    script = f"""
mount -t tmpfs -o size=512k,nr_inodes=2k none {tmp_path} || exit 77
exec {sys.executable} - <<'PYTHON'
from pathlib import Path
from tests.crash import parquet_publish as job
from twice.errors import EnvironmentProblem
from twice.store.parquet import publishing
root = Path({str(tmp_path)!r})
job.seed(root)
stage = publishing.open_staging(job.folder(root), job.target(), 2)
job.write(root, 2, {{path: text for path, text in job.NEW.items() if "04-24" not in path}})
filler = root / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        pass
try:
    publishing.publish(job.folder(root), stage, job.target().partitions, {{}}, {{}})
except EnvironmentProblem as error:
    print(error.next_step)
assert job.data(root) == job.OLD
filler.unlink()
assert publishing.fence(job.folder(root), 2) is None
assert job.publish(root, 3) == "2"
assert job.data(root) == job.NEW
assert job.leftovers(root) == []
print("well")
PYTHON
"""
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    if done.returncode == 77:
        pytest.skip("this kernel lets us mount no tmpfs")
    assert done.stdout == "free some space, then run it again: it continues from what is there\nwell\n", done.stderr
