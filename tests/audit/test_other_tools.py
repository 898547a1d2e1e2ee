"""The pre-commit hook and the GitHub Action: what they hand to `twice audit`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from twice.audit.languages.reading import ENDINGS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_the_hook_hands_over_what_the_audit_reads(ending):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    wanted = re.compile(hook["files"])
    assert wanted.search(f"jobs/a{ending}")
    assert not any(wanted.search(name) for name in ("jobs/a.pyi", "jobs/run", "jobs/a.py.txt"))
    assert not {"types", "types_or"} & set(hook)


@pytest.mark.parametrize("paths", ["a.py b.py", "a.py\nb.py\n", "  a.py\n  b.py"])
def test_the_action_reads_all_paths_however_they_are_separated(tmp_path, paths):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text('spark.table("x").write.mode("append").saveAsTable("core.b")\n')
    (step,) = [
        one for one in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"] if one.get("name") == "Audit"
    ]
    settings = {"PATHS": paths, "FORMAT": "github", "FAIL_ON": "warning", "DIFF": "", "BASELINE": "", "OUTPUT": ""}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={**os.environ, **settings, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert ["file=a.py" in done.stdout, "file=b.py" in done.stdout] == [True, True]
