"""Libraries that write tables without Spark: awswrangler, delta-rs, pyiceberg, dlt."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from twice.audit.languages.python.values import Const, Frame, Value, alternatives, plain, shown
from twice.audit.languages.python.writers import emit, target_of
from twice.audit.model import Mode, Write

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

_WRANGLER = re.compile(r"^(awswrangler|wr)\.(\w+)\.(to_parquet|to_csv|to_json|to_sql|copy|copy_from_files|to_iceberg)$")
_MODES = {
    "append": Mode.APPEND,
    "overwrite": Mode.OVERWRITE,
    "overwrite_partitions": Mode.OVERWRITE_PARTITIONS,
    "upsert": Mode.UPSERT,
    "merge": Mode.UPSERT,
    "replace": Mode.OVERWRITE,
    "error": Mode.CREATE,
    "ignore": Mode.INSERT_NEW,
}
_ICEBERG = {"append": Mode.APPEND, "overwrite": Mode.OVERWRITE, "upsert": Mode.UPSERT}


def function(
    interp: Interpreter, dotted: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """wr.s3.to_parquet(…), wr.postgresql.to_sql(…), write_deltalake(…)."""
    said = (plain(keywords.get("mode")) or "").lower()
    if _WRANGLER.match(dotted):
        # Without a dataset a call writes one file, and replaces it.
        default = "append" if not dotted.endswith(("to_parquet", "to_csv", "to_json")) else "overwrite"
        if "dataset" in keywords or "table" in keywords:
            default = "append"
        mode = _MODES.get(said or default, Mode.ALTER)
        return _wrote(interp, mode, dotted, arguments, keywords, node, said=bool(said))
    if dotted.endswith("write_deltalake") and arguments:
        where = keywords.get("table_or_uri") or arguments[0]
        mode = Mode.REPLACE_WHERE if "predicate" in keywords else _MODES.get(said or "error", Mode.ALTER)
        return _wrote(interp, mode, dotted, arguments[1:], {**keywords, "path": where}, node, said=bool(said))
    return None


def unknown(
    interp: Interpreter, full: str, last: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value | None:
    """table.append(rows) of pyiceberg, pipeline.run(…, write_disposition="append") of dlt."""
    imports = interp.job.imports
    if last == "run" and "write_disposition" in keywords and any(one.split(".")[0] == "dlt" for one in imports):
        said = (plain(keywords["write_disposition"]) or "").lower()
        return _wrote(interp, _MODES.get(said, Mode.ALTER), "pipeline.run", arguments, keywords, node, said=True)
    if last not in _ICEBERG or len(arguments) != 1 or not any(one.startswith("pyiceberg") for one in imports):
        return None
    if isinstance(arguments[0], Frame) or re.search(r"table|iceberg", full, re.IGNORECASE):
        return _wrote(interp, _ICEBERG[last], f"table.{last}", arguments, {}, node, said=True)
    return None


def _wrote(
    interp: Interpreter, mode: Mode, api: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call, *, said: bool,
) -> Value:  # fmt: skip
    table = keywords.get("table") or keywords.get("table_name")
    where = table or keywords.get("path")
    target = target_of(interp, where, node, kind="table" if table is not None else "path")
    schema = shown(keywords.get("schema") or keywords.get("database")).lower() if table is not None else ""
    if schema and "." not in target.name:
        target = replace(target, name=f"{schema}.{target.name}")
    given = [*arguments, *(keywords[key] for key in ("df", "data") if key in keywords)]
    frame = next((one for value in given for one in alternatives(value) if isinstance(one, Frame)), None)
    query = frame.query if frame is not None else None
    api = api.rpartition(".")[2]
    emit(interp, Write(target, mode, interp.place(node), query=query, via="pandas", api=api, explicit_mode=said))
    return Const()
