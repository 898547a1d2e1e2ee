"""Small questions to sqlglot's trees."""

from __future__ import annotations

from sqlglot import exp


def argument(node: exp.Expression, name: str) -> exp.Expression | None:
    """Return an argument whose name ends with an underscore in newer versions of sqlglot."""
    found = node.args.get(f"{name}_") or node.args.get(name)
    return found if isinstance(found, exp.Expression) else None


def text_of(node: object) -> str:
    """Return a name or literal as it stands, anything else as SQL."""
    if not isinstance(node, exp.Expression):
        return str(node or "")
    if isinstance(node, (exp.Identifier, exp.Literal, exp.Var)):
        return str(node.this)
    try:
        return node.sql()
    except Exception:  # noqa: BLE001 - sqlglot may fail to write what it has read; then the name stays unknown
        return node.name
