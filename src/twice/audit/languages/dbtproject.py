"""What a dbt project says about a model outside of its file: dbt_project.yml and the YAML beside the model."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import PurePath

from twice.audit.languages import plainyaml
from twice.audit.languages.plainyaml import Value

_HIGHEST = 7
_KNOWN = ("materialized", "unique_key", "incremental_strategy", "partition_by", "pre_hook", "post_hook", "strategy")
_FULL = frozenset({"table", "view", "ephemeral"})


def is_complete(config: dict[str, ast.expr]) -> bool:
    """Return whether a model's own config says all that matters, so that the project need not be asked."""
    said = config.get("materialized")
    if isinstance(said, ast.Constant) and said.value in _FULL:
        return True
    return said is not None and ("unique_key" in config or "incremental_strategy" in config)


def project_config(path: str, neighbour: Callable[[str], str | None]) -> dict[str, ast.expr] | None:
    """Return what the project sets for a model; None if no project is found around it."""
    folders = PurePath(path).parent.parts
    model = PurePath(path).stem
    found: dict[str, Value] = {}
    known = False
    for up in range(1, _HIGHEST):
        text = neighbour("../" * up + "dbt_project.yml")
        if text is not None:
            found.update(_of_project(plainyaml.load(text), list(folders[-up:]), model))
            known = True
            break
    for name in _property_files(folders[-1] if folders else "", model):
        text = neighbour(name)
        if text is not None and model in text:
            found.update(_of_properties(plainyaml.load(text), model))
            known = True
    return dict(_expressions(found)) if known else None


def _of_project(project: dict[str, Value], folders: list[str], model: str) -> dict[str, Value]:
    """Collect what holds for the folders down to the model; the nearest wins."""
    node = project.get("models")
    paths = project.get("model-paths") or project.get("source-paths") or ["models"]
    roots = [str(one).rsplit("/", maxsplit=1)[-1] for one in paths] if isinstance(paths, list) else [str(paths)]
    inner = folders[1:] if folders and folders[0] in roots else folders
    found: dict[str, Value] = {}
    for name in (None, str(project.get("name") or ""), *inner, model):
        if name is not None:
            below = node.get(name) if isinstance(node, dict) else None
            if name in {*inner, model} and below is None:
                break
            node = below if below is not None else node
        if isinstance(node, dict):
            found.update(_settings(node))
    return found


def _of_properties(properties: dict[str, Value], model: str) -> dict[str, Value]:
    models = properties.get("models")
    for one in models if isinstance(models, list) else ():
        if isinstance(one, dict) and one.get("name") == model:
            config = one.get("config")
            return _settings(config) if isinstance(config, dict) else {}
    return {}


def _settings(node: dict[str, Value]) -> dict[str, Value]:
    """Return the settings among the folders and models: with a plus, or of a known name."""
    given = {key.lstrip("+").replace("-", "_"): value for key, value in node.items()}
    return {key: given[key] for key in _KNOWN if key in given and given[key] != ""}


def _property_files(folder: str, model: str) -> Iterator[str]:
    for name in (
        "schema",
        "_schema",
        "models",
        "_models",
        "properties",
        model,
        f"_{folder}__models",
        f"_{folder}_models",
    ):
        yield f"{name}.yml"


def _expressions(settings: dict[str, Value]) -> Iterator[tuple[str, ast.expr]]:
    for key, value in settings.items():
        if "{{" not in repr(value):
            yield key, ast.parse(repr(value), mode="eval").body
