"""`environment`: the same rows in another environment, directory and locale, with another hash seed."""

from __future__ import annotations

import locale
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from twice.verify import child
from twice.verify.children import Children
from twice.verify.trial import NotRun, Seen, Why

if TYPE_CHECKING:
    from twice.verify.children import Ended
    from twice.verify.trial import Trial

_SEED = "4242"


class Environment:
    """Run the unit in a process with another home, user, time zone, locale, working directory and hash seed.

    Spark's Python workers get the same. The project's own code that reads any other variable while a step's function
    runs gets another value; what it reads when it is imported, and what libraries and workers read, stays as it is.
    A step that looks at where it runs, or that depends on the order in which Python keeps a set of texts, fails.
    """

    name = "environment"
    promise = "a unit's rows do not depend on the environment, directory, locale and hash seed of the process"
    quick = False

    def __call__(self, trial: Trial) -> Seen:
        """Run the unit elsewhere, and compare with a clean run."""
        directory = trial.sandbox.folder / "elsewhere"
        directory.mkdir(exist_ok=True)
        other = _other(directory)
        with Children(trial) as children:
            case = trial.case()
            ended = children.run(
                case,
                trial.before,
                trial.unit,
                environment=other,
                directory=directory,
                other_answers=True,
                workers={**other, **child.worker_start(), "TWICE_VERIFY_DIRECTORY": str(directory)},
            )
        if ended.broken:
            raise NotRun(f"another process could not be made ready: {ended.broken}")
        if ended.problem:
            finding = trial.finding(
                self,
                trial.steps[-1],
                f"in another environment the unit does not run: {ended.problem}",
                cause=_asked(ended)
                or "the pipeline needs something of the environment, the home or the working directory",
                fix="keep what it needs in the project, and find it beside the code: Path(__file__).parent",
            )
            return Seen("", [finding])
        findings = trial.differences(
            self,
            case,
            names=("in a clean run", "in another environment"),
            why=Why(
                cause=_asked(ended)
                or "the step looks at the environment, the working directory or the locale, or depends on the order "
                "of a set of texts",
                fix="give the step what it needs as an input or a constant, and sort what comes from a set",
            ),
        )
        return Seen(f"a process with another {', '.join(_named(other))} and working directory: the same rows", findings)


def _other(directory: Path) -> dict[str, str]:
    """Return what differs in the other environment."""
    language = _other_locale()
    zone = "Pacific/Kiritimati" if os.environ.get("TZ") != "Pacific/Kiritimati" else "America/St_Johns"
    return {
        "HOME": str(directory),
        "USER": "another-user",
        "LOGNAME": "another-user",
        "USERNAME": "another-user",
        "HOSTNAME": "elsewhere",
        "TZ": zone,
        "LANG": language,
        "LC_ALL": language,
        "PYTHONHASHSEED": _SEED if os.environ.get("PYTHONHASHSEED") != _SEED else "2424",
        "TWICE_VERIFY": "1",
    }


def _asked(ended: Ended) -> str:
    return f"a step reads {', '.join(ended.asked)} from the environment" if ended.asked else ""


def _named(other: dict[str, str]) -> list[str]:
    return [name for name in ("HOME", "USER", "TZ", "LANG", "PYTHONHASHSEED") if name in other]


def _other_locale() -> str:
    """Return a locale that this machine has and this process does not use; one that is not English, if it can be."""
    try:
        listed = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False, timeout=10).stdout  # noqa: S607
    except (OSError, subprocess.TimeoutExpired):
        listed = ""
    here = locale.setlocale(locale.LC_CTYPE)
    found = [name for name in listed.split() if name != here]
    foreign = [name for name in found if not name.startswith(("en", "C", "POSIX"))]
    return next(iter([*foreign, *found]), "C")
