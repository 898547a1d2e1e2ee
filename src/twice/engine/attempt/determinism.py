"""The check for clocks and randomness: what a step's code and its plan must not read.

The analysed plan still holds `current_date()` and its like; after optimisation they are
literals. Spark's own `deterministic` flag is true for them, so the classes are checked.
Words such as `date'today'` are literals as soon as a text is parsed, so the text is checked: of a SQL step, and of
each expression that a Python step lets Spark parse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from twice.code.repeatability import read_code
from twice.content.calls import typed_literals
from twice.content.java import compiled, items_of, query_of
from twice.errors import NotDeterministic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.model.steps import Step

_FORBIDDEN = {
    "CurrentDate": "reads the clock",
    "CurrentTime": "reads the clock",
    "CurrentTimestamp": "reads the clock",
    "CurrentTimestampLike": "reads the clock",
    "Now": "reads the clock",
    "LocalTimestamp": "reads the clock",
    "UnixTimestampNow": "reads the clock",
    "Rand": "is random",
    "Randn": "is random",
    "RandStr": "is random",
    "Uniform": "is random",
    "Shuffle": "is random",
    "Uuid": "is random",
    "MonotonicallyIncreasingID": "depends on how rows are spread over tasks",
    "SparkPartitionID": "depends on how rows are spread over tasks",
    "InputFileName": "depends on how rows are spread over files",
    "Sample": "is random",
    "CallMethodViaReflection": "calls Java code that may return anything",
    "TryReflect": "calls Java code that may return anything",
}
# What Spark turns into the time of the query when it is cast to a date or a timestamp.
_CLOCK_WORDS = frozenset({"now", "today", "tomorrow", "yesterday"})
_FIRST_WORD = re.compile(r"[\s\x00-\x20]*([a-z]+)")
_CLOCK_TYPES = frozenset({"date", "timestamp", "timestamp_ntz", "timestamp_ltz"})
_SOURCE = """
package twice;

import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.plans.QueryPlan;

public class Expressions {
    /** Finds expressions of some kinds, and texts that are cast to some types and begin with some words. */
    public java.util.List found(QueryPlan plan, String kinds, String types, String words) {
        Search search = new Search();
        search.kinds = new java.util.HashSet(java.util.Arrays.asList(kinds.split(",")));
        search.types = new java.util.HashSet(java.util.Arrays.asList(types.split(",")));
        search.words = words.split(",");
        search.inPlan(plan);
        return search.found;
    }
}

class Search {
    /** The kind of each expression, the text that is cast, and the SQL. */
    final java.util.List found = new java.util.ArrayList();
    java.util.Set kinds;
    java.util.Set types;
    String[] words;

    void inPlan(QueryPlan plan) {
        String kind = plan.getClass().getSimpleName();
        if (kinds.contains(kind)) {
            add(kind, "", kind.toLowerCase() + "()");
        }
        for (scala.collection.Iterator each = plan.expressions().iterator(); each.hasNext();) {
            inExpression((Expression) each.next());
        }
        for (scala.collection.Iterator each = plan.children().iterator(); each.hasNext();) {
            inPlan((QueryPlan) each.next());
        }
        for (scala.collection.Iterator each = plan.innerChildren().iterator(); each.hasNext();) {
            Object inner = each.next();
            if (inner instanceof QueryPlan && inner.getClass().getName().contains("catalyst.plans")) {
                inPlan((QueryPlan) inner);
            }
        }
    }

    private void inExpression(Expression expression) {
        String kind = expression.getClass().getSimpleName();
        if (kinds.contains(kind)) {
            add(kind, "", expression.sql());
        } else if (expression instanceof Cast && types.contains(((Cast) expression).dataType().typeName())) {
            String value = constant(((Cast) expression).child());
            if (beginsWithWord(value.trim().toLowerCase())) {
                add(kind, value, expression.sql());
            }
        }
        for (scala.collection.Iterator each = expression.children().iterator(); each.hasNext();) {
            inExpression((Expression) each.next());
        }
        if (expression instanceof PlanExpression) {
            inPlan(((PlanExpression) expression).plan());
        }
        if (expression instanceof RuntimeReplaceable) {
            inExpression(((RuntimeReplaceable) expression).replacement());
        }
    }

    /** Returns the value of an expression that reads no row, as Spark computes it before the query runs. */
    private static String constant(Expression expression) {
        try {
            return expression.foldable() ? String.valueOf(expression.eval(null)) : "";
        } catch (Exception notComputed) {
            return "";
        }
    }

    private boolean beginsWithWord(String value) {
        for (int i = 0; i < words.length; i++) {
            if (value.startsWith(words[i])) {
                return true;
            }
        }
        return false;
    }

    private void add(String kind, String value, String sql) {
        found.add(kind);
        found.add(value);
        found.add(sql);
    }
}
"""


def inspect_code(step: Step) -> None:
    """Refuse a step whose own code reads what no rerun can repeat, before anything is started.

    An extract may read the environment, which holds the address of its source and the credentials for it.
    """
    if step.function is None or step.nondeterministic:
        return
    if found := read_code(step.function, environment=step.kind == "extract").found:
        raise not_deterministic(step, [(f"{each.where}: {each.text}", each.why) for each in found])


def code_facts(step: Step) -> Iterator[tuple[str, str]]:
    """Yield for the contract which code of a step cannot be read, so that a clock in it would not be found."""
    if step.function is None:
        return
    if unread := read_code(step.function, environment=step.kind == "extract").unread:
        yield "Code that is not read for clocks", f"no source for {', '.join(unread)}"


def inspect_plan(step: Step, result: DataFrame) -> None:
    """Refuse a result whose plan reads the clock, is random, or numbers rows by task."""
    found = [*forbidden(result), *clock_literals(step.query or "")]
    if found and not step.nondeterministic:
        raise not_deterministic(step, found)


def not_deterministic(step: Step, found: Iterable[tuple[str, str]], where: str = "") -> NotDeterministic:
    """Return the refusal of what was found, each with the reason."""
    listed = "; ".join(f"{text} {why}" for text, why in sorted(set(found)))
    return NotDeterministic(
        f"step {step.name}: {where + ': ' if where else ''}{listed}. A rerun would return different rows",
        unchanged="nothing was staged",
        next_step="use the run's window (take `window` as an argument, or :window_start in SQL) and key_of(…) for keys"
        '; if it is intended, give the reason: nondeterministic="…"',
    )


def forbidden(df: DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the offending expressions of a plan, each with the reason."""
    plan = query_of(df).analyzed()
    walker = compiled(df.sparkSession, lambda: plan, "twice.Expressions", _SOURCE)
    # Three texts for each: to walk the plan from Python takes thousands of calls to Java.
    asked = [",".join(words) for words in (_FORBIDDEN, _CLOCK_TYPES, _CLOCK_WORDS)]
    found = [str(text) for text in items_of(walker.found(plan, *asked))]
    for kind, value, sql in zip(*[iter(found)] * 3, strict=True):
        if kind in _FORBIDDEN:
            yield sql, _FORBIDDEN[kind]
        elif _is_clock_word(value):
            yield sql, "reads the clock"


def clock_literals(query: str) -> Iterator[tuple[str, str]]:
    """Yield the typed literals of a SQL text that Spark replaces by the time at which it parses them."""
    for kind, text in typed_literals(query):
        if kind in _CLOCK_TYPES and _is_clock_word(text):
            yield f"{kind}'{text}'", "reads the clock"


def _is_clock_word(text: str) -> bool:
    # A zone may follow: 'today Europe/Berlin', 'today+01:00'.
    word = _FIRST_WORD.match(text.lower())
    return word is not None and word[1] in _CLOCK_WORDS
