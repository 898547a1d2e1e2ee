"""What a request, a mail or a message is for: a token, a question, an alert, a measurement, or news."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from twice.audit.languages.python.values import Entries, Text, Value, alternatives, shown
from twice.audit.model import EffectKind

if TYPE_CHECKING:
    from twice.audit.languages.python.interpreter import Interpreter

Purpose = Literal["", "token", "query", "alert", "status"]

# Whole words of an address or a function's name; camelCase is taken apart first.
_TOKEN = re.compile(
    r"(?<![a-z])([a-z]*tokens?|oauth2?|auth|authenticate|authentication|authorize|log_?in|log_?on|sign_?in|credentials?|sts|sso)(?![a-z])"
    r"|(?<![a-z])sessions?/?$|/connect(?![a-z])"
)
_QUERY = re.compile(
    r"(?<![a-z])(search|searches|query|queries|graphql|look_?up|lookups|batch_?get|exports?|embeddings?|completions?|geocode|geocoding"
    r"|predict|predictions?|inference|run_report|reports?/(run|generate|query))(?![a-z])"
    # A verb counts where a part of the address begins with it.
    r"|(^|[/:.?&{}])_?(filter|describe|find|list|validate|score|translate|download|fetch|get)(?![a-z])"
)
_ASKS = re.compile(
    r"(?<![a-z])(get|gets|fetch|search|query|look_?up|find|list|read|extract|download|pull|scrape|crawl)(?![a-z])"
)
_GIVES = re.compile(
    r"(?<![a-z])(send|sends|submit|push|post|posts|publish|upload|create|notify|sync|write|save|put|update|import|deliver|forward"
    r"|emit|register|insert|add|trigger|announce|place|order|pay|charge|transmit|export)(?![a-z])"
)
_ALERT = re.compile(
    r"fail|error|alert|alarm|incident|pagerduty|opsgenie|exception|crash|on_failure|problem|\bwarn|\bsla\b",
    re.IGNORECASE,
)
# Measurements and signs of life: their receivers store time series, and a repeated point triggers nothing.
_MEASURES = re.compile(
    r"datadoghq|newrelic\.com|new-relic|pushgateway|/metrics/job/|/loki/api|/services/collector|hc-ping\.com|healthchecks\.io"
    r"|cronitor|betteruptime|/api/v\d/(series|check_run)|http-intake\.logs|sentry\.io|insights-collector|/heartbeats?(/|$)",
    re.IGNORECASE,
)
_MEASURES_BY_NAME = re.compile(r"(?<![a-z])(metrics?|telemetry|heartbeats?|gauges?|statsd)(?![a-z])")
# What is said when something is asked for page by page, or for a stretch of time.
_ASKING_KEYS = frozenset(
    {
        "page", "per_page", "page_size", "pagesize", "pagenumber", "page_number", "pageindex", "limit", "offset", "cursor", "start_cursor",
        "after", "filter", "filters", "filtergroups", "sort", "sorts", "orderby", "order_by", "fields", "columns", "properties", "where",
        "q", "query", "querystring", "variables", "operationname", "dimensions", "metrics", "dateranges", "date_ranges", "startdate", "enddate",
        "start_date", "end_date", "from_date", "to_date", "date_from", "date_to", "seriesid", "startyear", "endyear", "registrationkey", "select",
    }
)  # fmt: skip
_TELLING_KEYS = frozenset(
    {"query", "filter", "filters", "filtergroups", "dateranges", "q", "seriesid", "cursor", "start_cursor"}
)
_MUTATION = re.compile(r"^\s*mutation\b", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)
def _words(text: str) -> str:
    """Take camelCase apart: `getAccessToken` becomes `get_access_token`."""
    return _CAMEL.sub("_", text).lower()


def purpose_of(
    interp: Interpreter, kind: EffectKind, url: str, keywords: dict[str, Value], node: ast.Call
) -> Purpose:  # fmt: skip
    """Return what an effect is for."""
    where = " ".join(interp.state.functions)
    source = interp.source(node)
    if kind == "http":
        found = _of_request(interp, _words(url), keywords, node, source)
        if found:
            return found
        if _MEASURES.search(url) or _MEASURES_BY_NAME.search(_words(where)):
            return "alert"
    # A message about a row is data, whatever the function that sends it is called.
    told = kind != "queue" and _ALERT.search(where)
    if interp.state.in_except or told or (kind in {"mail", "chat"} and _ALERT.search(source)):
        return "alert"
    if kind in {"mail", "chat"}:
        return "status"
    return ""


def _of_request(interp: Interpreter, url: str, keywords: dict[str, Value], node: ast.Call, source: str) -> Purpose:
    if "grant_type" in source:
        return "token"
    body = _body(keywords)
    if body is not None and "grant_type" in body.items:
        return "token"
    if _changes_graph(body):
        return ""
    inner = _words(interp.state.functions[-1]) if interp.state.functions else ""
    if _TOKEN.search(url) or (_TOKEN.search(inner) and not _GIVES.search(inner)):
        return "token"
    if _QUERY.search(url) or _asks(body):
        return "query"
    if _asks_by_name(interp) and not _sends_item(interp, node):
        return "query"
    return ""


def _body(keywords: dict[str, Value]) -> Entries | None:
    for name in ("json", "data"):
        for one in alternatives(keywords.get(name)):
            if isinstance(one, Entries):
                return one
    return None


def _asks(body: Entries | None) -> bool:
    """Return whether a body holds nothing but a question: a query, filters, a page."""
    keys = {key.lower() for key in body.items} if body is not None else set()
    return bool(keys & _TELLING_KEYS) and keys <= _ASKING_KEYS


def _changes_graph(body: Entries | None) -> bool:
    """Return whether a body is a mutation of GraphQL."""
    if body is None or "query" not in body.items:
        return False
    return any(isinstance(one, Text) and bool(_MUTATION.match(shown(one))) for one in alternatives(body.items["query"]))


def _asks_by_name(interp: Interpreter) -> bool:
    """Return whether the function around asks, by its name; the innermost that says anything decides."""
    for name in reversed(interp.state.functions):
        words = _words(name)
        if _GIVES.search(words):
            return False
        if _ASKS.search(words):
            return True
    return False


def _sends_item(interp: Interpreter, node: ast.Call) -> bool:
    """Return whether a loop sends its item as it is: `for row in rows: post(url, json=row)`."""
    bodies = [keyword.value for keyword in node.keywords if keyword.arg in {"json", "data"}]
    return any(_innermost(one) in interp.state.items for one in bodies)


def _innermost(node: ast.expr) -> str:
    """Return the name that is only dressed up: `row` of `json.dumps(row.asDict())`."""
    while isinstance(node, ast.Call):
        if node.args:
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            break
    return node.id if isinstance(node, ast.Name) else ""
