"""The failure hook: a command that runs when a run has failed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING

from twice.config import FUNCTION
from twice.errors import TwiceError
from twice.loading import load_object

if TYPE_CHECKING:
    from twice.config import Config

_SECONDS = 60


def on_failure(config: Config, run: Mapping[str, object]) -> str:
    """Hand a failed run to `on_failure` of the configuration; return what went wrong with that, or nothing.

    `module:function` gets the run as a dict; anything else is a shell command that gets it as
    JSON on its standard input, and expands `${NAME}` from the environment itself.
    """
    if not config.on_failure:
        return ""
    if FUNCTION.fullmatch(config.on_failure):
        return _call(config, run)
    return _shell(config, run)


def _call(config: Config, run: Mapping[str, object]) -> str:
    try:
        load_object(config, config.on_failure, "on_failure")(dict(run))
    except TwiceError as error:
        return error.message
    except Exception as error:  # noqa: BLE001 - whatever the user's hook raises must not hide the run's own error
        return f"{config.on_failure} raised {type(error).__name__}: {error}"
    return ""


def _shell(config: Config, run: Mapping[str, object]) -> str:
    try:
        done = subprocess.run(  # noqa: S602 - a shell command by contract, from the configuration
            config.on_failure,
            shell=True,
            cwd=config.root,
            input=json.dumps(run),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the command did not end within {_SECONDS} seconds"
    except OSError as error:
        return f"the command did not start: {error.strerror}"
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines()
        return f"the command exited with {done.returncode}" + (f": {output[-1]}" if output else "")
    return ""
