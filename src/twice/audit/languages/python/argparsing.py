"""Arguments of the command line: argparse."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from twice.audit.languages.python.values import (
    Choice,
    Const,
    Instance,
    Items,
    Text,
    Value,
    as_fallback,
    constant,
    origins_of,
    plain,
)

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter


def parser_method(
    interp: Interpreter, parser: Instance, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    """argparse: add_argument and parse_args."""
    if name == "add_argument":
        labels = [plain(one) or "" for one in arguments]
        label = next((one for one in labels if one.startswith("--")), labels[0] if labels else "")
        dest = plain(keywords.get("dest")) or label.lstrip("-").replace("-", "_")
        default = keywords.get("default")
        fallback = origins_of(as_fallback(default)) if default is not None else frozenset()
        value = interp.parameter(
            dest,
            node,
            "argument",
            expression=f"args.{dest}",
            fallback=frozenset(one for one in fallback if one.kind != "parameter"),
        )
        if isinstance(default, (Text, Const)) and constant(default) is not None:
            value = Choice(options=[default], name=dest, origins=value.origins)
        parser.attributes[dest] = value
        return Value(name=dest)
    if name in {"parse_args", "parse_known_args"}:
        found = Instance(kind="arguments", attributes={**parser.attributes}, name="args")
        return found if name == "parse_args" else Items(items=[found, Value()], kind="tuple")
    if name in {"add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser"}:
        return parser
    return Value()
