"""Find pipelines: by their name in the configuration, or as `module:object`."""

from __future__ import annotations

import importlib
import logging
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twice.config import FILE, Config
from twice.errors import ConfigError, DefinitionError, TwiceError, UsageError, did_you_mean
from twice.model.pipelines import Pipeline
from twice.model.tables import Table

log = logging.getLogger("twice")


def load_pipelines(config: Config) -> dict[str, Pipeline]:
    """Load every pipeline of the configuration, by the name it has there."""
    found = {name: load_object(config, place, f"pipeline {name}") for name, place in config.pipelines.items()}
    pipelines = {name: _pipeline(thing, config.pipelines[name]) for name, thing in found.items()}
    check_producers(pipelines)
    return pipelines


def all_pipelines(config: Config) -> list[Pipeline]:
    """Load every pipeline of the configuration, which must name at least one."""
    found = list(load_pipelines(config).values())
    if not found:
        raise UsageError(
            f"{config.source or 'there is no twice.toml here or above, and so it'} names no pipelines",
            next_step="twice status module:object, or add [pipelines] to twice.toml; twice init writes a first one",
        )
    return found


def find_pipeline(config: Config, text: str) -> Pipeline:
    """Load one pipeline, by its name in the configuration or as `module:object`."""
    place = text if ":" in text else config.pipelines.get(text)
    if place is None:
        raise _unknown(config, text)
    pipeline = _pipeline(load_object(config, place, f"pipeline {text}"), place)
    loaded = {text: pipeline}
    for name, other in config.pipelines.items():
        if other == place:
            continue
        try:
            loaded[name] = _pipeline(load_object(config, other, f"pipeline {name}"), other)
        except TwiceError as error:
            log.warning("pipeline %s could not be checked for tables with two writers: %s", name, error.message)
    check_producers(loaded)
    return pipeline


def configured_name(config: Config, pipeline: Pipeline) -> str:
    """Return the name that the configuration has for a pipeline; its own name where it has none."""
    for name, place in config.pipelines.items():
        try:
            found = load_object(config, place, f"pipeline {name}")
        except TwiceError as error:
            log.warning("pipeline %s could not be loaded: %s", name, error.message)
            continue
        if isinstance(found, Pipeline) and found.name == pipeline.name:
            return name
    return pipeline.name


def check_producers(pipelines: Mapping[str, Pipeline]) -> None:
    """Refuse a table that two pipelines write, and two pipelines of the same name in the ledger."""
    writers: dict[str, tuple[str, str]] = {}
    names: dict[str, tuple[str, Pipeline]] = {}
    for name, pipeline in pipelines.items():
        known = names.setdefault(pipeline.name, (name, pipeline))
        if known[1] is pipeline and known[0] != name:
            continue  # one pipeline under two names
        if known[1] is not pipeline:
            raise DefinitionError(
                f'{known[0]} and {name} in the configuration are both called Pipeline("{pipeline.name}"): '
                "their runs would be mixed up. Give one of them another name"
            )
        steps = [(f"step {step.name}", step.writes) for step in pipeline.steps.values()]
        streams = [(f"stream {stream.name}", table) for stream in pipeline.streams.values() for table in stream.tables]
        for writer, written in (*steps, *streams):
            table = written.name
            if table in writers:
                pipe, other = writers[table]
                raise DefinitionError(
                    f"{table} is written by the pipeline {pipe} ({other}) and by the pipeline {name} "
                    f"({writer}): one table has one producer. Let one of them read what the other writes"
                )
            writers[table] = (name, writer)
    _check_followed(pipelines.values())


def _check_followed(pipelines: Iterable[Pipeline]) -> None:
    """Refuse a stream that reads a table whose rows another pipeline replaces."""
    written = {table.id: table for pipeline in pipelines for table in pipeline.written()}
    for stream in (stream for pipeline in pipelines for stream in pipeline.streams.values()):
        if isinstance(stream.reads, Table) and (table := written.get(stream.reads.id)) is not None:
            stream.check_added_to(table)


def load_object(config: Config, place: str, what: str) -> Any:
    """Import `module:object`, seen from the folder of the configuration."""
    module_name, _, object_name = place.partition(":")
    if not module_name or not object_name:
        raise UsageError(f'{what}: {place!r} must look like "module:object"')
    root = str(config.root)
    if root not in sys.path:
        sys.path.insert(0, root)
    importlib.invalidate_caches()
    module = _import(module_name, config, what)
    if not hasattr(module, object_name):
        near = did_you_mean(object_name, (name for name in vars(module) if not name.startswith("_")))
        raise UsageError(f"{what}: the module {module_name} has no {object_name!r}{near}")
    return getattr(module, object_name)


def _import(name: str, config: Config, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"{what}: there is no module {name} in {config.root}, nor among the installed packages",
                next_step=f"correct [pipelines] in {config.source or FILE}",
            ) from None
        raise _broken(error, config, name) from error
    except (Exception, SystemExit) as error:
        raise _broken(error, config, name) from error


def _broken(error: BaseException, config: Config, module: str) -> TwiceError:
    """Return where the user's own code failed, as an error of ours."""
    where = _place(error, config.root)
    if isinstance(error, TwiceError):
        return type(error)(f"{where}: {error.message}", unchanged=error.unchanged, next_step=error.next_step)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    problem = f"{type(error).__name__}: {text}" if text else type(error).__name__
    hint = "pip install 'twice[spark]', or run where Spark is installed" if _lacks_spark(error) else ""
    return ConfigError(f"{where}: importing {module} failed: {problem}", unchanged="nothing was run", next_step=hint)


def _lacks_spark(error: BaseException) -> bool:
    return isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "pyspark"


def _place(error: BaseException, root: Path) -> str:
    """Name the last line of the user's code that was involved."""
    if isinstance(error, SyntaxError) and error.filename:
        return _line(error.filename, error.lineno, root)
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parent)
    theirs = [frame for frame in frames if not frame.filename.startswith(("<", ours))]
    inside = [frame for frame in theirs if Path(frame.filename).is_relative_to(root)]
    frame = (inside or theirs or list(frames))[-1]
    return _line(frame.filename, frame.lineno, root)


def _line(file: str, number: int | None, root: Path) -> str:
    path = Path(file)
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    return f"{shown}, line {number}"


def _pipeline(thing: object, place: str) -> Pipeline:
    if not isinstance(thing, Pipeline):
        raise UsageError(f"{place} is a {type(thing).__name__}, not a Pipeline")
    return thing


def _unknown(config: Config, text: str) -> UsageError:
    if not config.pipelines:
        return UsageError(
            f"no pipeline {text!r}: {config.source or 'there is no twice.toml here or above, and so it'} names none",
            next_step=f'add [pipelines] {text} = "module:object" to {config.source or FILE}, or give module:object',
        )
    known = ", ".join(sorted(config.pipelines))
    return UsageError(
        f"no pipeline {text!r} in {config.source}; there are: {known}{did_you_mean(text, config.pipelines)}"
    )
