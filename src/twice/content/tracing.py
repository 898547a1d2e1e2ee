"""Following the column that names a row's partition through a plan, node by node, from the inputs up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twice.content.plans import Node, alias_of, constant, name_of, snake, terms

_ROW_BY_ROW = frozenset({"SubqueryAlias", "View", "Sort", "Repartition", "RepartitionByExpression",
                         "RebalancePartitions", "ResolvedHint", "CTERelationDef"})  # fmt: skip
_FIXED = frozenset({"LocalRelation", "OneRowRelation", "Range"})
_GENERATORS = frozenset({"Explode", "PosExplode", "Inline", "Stack", "JsonTuple"})
_OPAQUE = "calls a Python function over groups (opaque)"
_OTHERS = {
    **dict.fromkeys(("GlobalLimit", "LocalLimit", "Offset", "Tail"), "limits rows"),
    **dict.fromkeys(("MapInPandas", "MapInArrow", "PythonMapInArrow", "FlatMapGroupsInPandas"), _OPAQUE),
    **dict.fromkeys(("FlatMapGroupsInArrow", "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"), _OPAQUE),
    **dict.fromkeys(("MapPartitionsInRWithArrow", "SerializeFromObject", "TypedFilter"), _OPAQUE),
    **dict.fromkeys(
        ("DataSourceV2Relation", "LogicalRelation", "HiveTableRelation"), "reads a table that is not an input"
    ),
    "LogicalRDD": "uses rows that were computed or checkpointed inside the step",
    "Sample": "takes a sample of rows",
}
_ROW_UDFS = frozenset({100, 101})  # plain Python functions of one row, with and without Arrow
# Functions whose result depends on the order of rows, unless a window defines that order.
_BY_ORDER = frozenset({"First", "Last", "AnyValue", "NthValue", "CollectList", "ListAgg"})
# Functions that also depend on which task gets which rows: ties, the order of a set, the cut of an approximation.
_BY_TASK = frozenset(
    {"ApproximatePercentile", "ApproxTopK", "CollectSet", "HistogramNumeric", "HllSketchAgg", "HllUnionAgg",
     "KllSketchAggBigint", "KllSketchAggDouble", "KllSketchAggFloat", "Mode", "ThetaSketchAgg", "ThetaUnionAgg"}
)  # fmt: skip
_ONE_OF_THE_ROWS = frozenset({"Max", "Min", "MaxBy", "MinBy"})
_DICE = frozenset(
    {"Rand", "Randn", "RandStr", "Uniform", "Uuid", "Shuffle", "MonotonicallyIncreasingID", "SparkPartitionID",
     "InputFileName", "InputFileBlockStart", "InputFileBlockLength", "CallMethodViaReflection", "TryReflect",
     "CurrentDate", "CurrentTime", "CurrentTimestamp", "CurrentTimestampLike", "Now", "LocalTimestamp"}
)  # fmt: skip
_SUBQUERIES = frozenset({"ScalarSubquery", "ListQuery", "Exists", "LateralSubquery"})


@dataclass(frozen=True)
class Origin:
    """An input that is cut to the window: the column that names a row's partition, or the instant that implies it."""

    column: str | None = None
    instant: str | None = None


class Mixed(Exception):
    """The plan may bring rows of several partitions together; the text says how."""


@dataclass(frozen=True)
class Trace:
    """What is known of a plan's rows: their columns, and which of those name the partition of every row behind one.

    `instants` are columns that lie in the partition, `boxes` fields of structs that name it.
    """

    output: tuple[Node, ...]
    places: frozenset[int] = frozenset()
    instants: frozenset[int] = frozenset()
    inputs: tuple[str, ...] = ()
    boxes: frozenset[tuple[int, int]] = frozenset()

    @property
    def fixed(self) -> bool:
        """The same rows whatever the window is."""
        return not self.inputs


class Reader:
    """Reads a plan bottom-up."""

    def __init__(self, origins: Mapping[str, tuple[str, Origin | None]], column: str, zone: str) -> None:
        self._origins, self._column, self._zone = origins, column, zone
        self._named: dict[int, Trace] = {}
        self._rules: dict[str, Callable[[Node], Trace]] = {
            "Filter": self._filter,
            "Project": self._project,
            "Aggregate": self._aggregate,
            "Window": self._window,
            "Distinct": self._distinct,
            "Deduplicate": self._deduplicate,
            "Generate": self._generate,
            "Expand": self._expand,
            "Union": self._union,
            "Intersect": self._set_operation,
            "Except": self._set_operation,
            "Join": self._join,
            "WithCTE": self._with_names,
            "CTERelationRef": self._named_rows,
        }

    def trace(self, plan: Node) -> Trace:
        """Follow the partition up to this node, or raise Mixed."""
        if plan.kind == "SubqueryAlias" and (mark := alias_of(plan)) in self._origins:
            return self._input(plan, *self._origins[mark])
        for expression in plan.every_expression():
            self._allow(expression)
        if plan.kind in self._rules:
            return self._rules[plan.kind](plan)
        if plan.kind in _ROW_BY_ROW:
            return self.trace(plan.children[0])
        if plan.kind in _FIXED:
            return Trace(tuple(plan.expressions("output")))
        raise Mixed(_OTHERS.get(plan.kind, f"has a {plan.kind} in its plan, which may bring partitions together"))

    def _input(self, plan: Node, name: str, origin: Origin | None) -> Trace:
        output = tuple(_columns(plan.children[0].expressions("projectList")))
        if origin is None:
            return Trace(output)
        return Trace(output, _ids(output, origin.column), _ids(output, origin.instant), (name,))

    def _filter(self, plan: Node) -> Trace:
        return self.trace(plan.children[0])

    def _project(self, plan: Node) -> Trace:
        return self._renamed(self.trace(plan.children[0]), plan.expressions("projectList"))

    def _renamed(self, below: Trace, expressions: Sequence[Node]) -> Trace:
        """Return a trace whose columns are these expressions over the rows below."""
        places, instants, boxes = set(), set(), set()
        for each in expressions:
            inner = each.children[0] if each.kind == "Alias" else each
            if each.id is None:
                raise Mixed(f"has a {each.kind} among its columns")
            if self._is_place(inner, below):
                places.add(each.id)
            elif inner.kind == "AttributeReference" and inner.id in below.instants:
                instants.add(each.id)
            boxes |= {(each.id, number) for number in self._boxed(inner, below)}
        output = tuple(_columns(expressions))
        return Trace(output, frozenset(places), frozenset(instants), below.inputs, frozenset(boxes))

    def _aggregate(self, plan: Node) -> Trace:
        below = self.trace(plan.children[0])
        keys, results = plan.expressions("groupingExpressions"), plan.expressions("aggregateExpressions")
        if not below.fixed:
            self._require(keys, below, "aggregates")
            _refuse(results, _BY_ORDER | _BY_TASK)
        return self._renamed(below, results)

    def _window(self, plan: Node) -> Trace:
        below = self.trace(plan.children[0])
        if not below.fixed:
            self._require(plan.expressions("partitionSpec"), below, "has a window function")
            ordered = bool(plan.expressions("orderSpec"))
            _refuse(plan.expressions("windowExpressions"), _BY_TASK if ordered else _BY_ORDER | _BY_TASK)
        added = tuple(_columns(plan.expressions("windowExpressions")))
        return replace(below, output=(*below.output, *added))

    def _distinct(self, plan: Node) -> Trace:
        below = self.trace(plan.children[0])
        if not below.fixed and not below.places:
            raise Mixed(f"takes distinct rows without {self._column}")
        return below

    def _deduplicate(self, plan: Node) -> Trace:
        below = self.trace(plan.children[0])
        if not below.fixed:
            keys = plan.expressions("keys")
            self._require(keys, below, "drops duplicates")
            if {each.id for each in below.output} - {key.id for key in keys}:
                # As with first(): of rows that differ elsewhere, the order of rows in the job decides which is kept.
                by = _words([name_of(key) for key in keys])
                raise Mixed(f"drops duplicates by {by} and keeps an arbitrary row of each")
        return below

    def _generate(self, plan: Node) -> Trace:
        generator = plan.expression("generator")
        if generator is None or generator.kind not in _GENERATORS:
            shown = f"{snake(generator.kind)}()" if generator is not None else "a function"
            raise Mixed(f"makes rows with {shown}, which may bring partitions together")
        below = self.trace(plan.children[0])
        return replace(below, output=(*below.output, *plan.expressions("generatorOutput")))

    def _expand(self, plan: Node) -> Trace:
        by_groups = any(each.name == "spark_grouping_id" for each in plan.expressions("output"))
        raise Mixed("groups in several ways at once" if by_groups else "turns columns into rows (unpivot)")

    def _union(self, plan: Node) -> Trace:
        below = [self.trace(child) for child in plan.children]
        if all(each.fixed for each in below):
            return below[0]
        if any(each.fixed for each in below):
            raise Mixed("adds rows that do not come from the window, which every partition would repeat")
        first = below[0].output
        return Trace(
            first,
            frozenset(_common(first, [(each.output, each.places) for each in below])),
            frozenset(_common(first, [(each.output, each.instants) for each in below])),
            _together(below),
        )

    def _set_operation(self, plan: Node) -> Trace:
        left, right = (self.trace(child) for child in plan.children)
        if left.fixed and not right.fixed:
            raise Mixed("takes rows that do not come from the window, which every partition would repeat")
        if not right.fixed and not _common(left.output, [(left.output, left.places), (right.output, right.places)]):
            raise Mixed(f"compares rows of {_words(left.inputs)} and {_words(right.inputs)} without {self._column}")
        if not left.fixed and not left.places:
            raise Mixed(f"takes distinct rows without {self._column}")
        return Trace(left.output, left.places, left.instants, _together([left, right]))

    def _join(self, plan: Node) -> Trace:
        left, right = self.trace(plan.child("left")), self.trace(plan.child("right"))
        kind = constant(plan.fields.get("joinType"))
        # Which sides keep rows without a match, or are only asked for one.
        keeps_left, keeps_right = kind in {"LeftOuter", "FullOuter"}, kind in {"RightOuter", "FullOuter"}
        asks_right = kind in {"LeftSemi", "LeftAnti"}
        if kind not in {"Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti"}:
            raise Mixed(f"has a {kind} join in its plan, which may bring partitions together")
        if not left.fixed and not right.fixed:
            if not any(self._meet(term, left, right) for term in terms(plan.expression("condition"))):
                without = self._place_in(left)
                raise Mixed(f"joins {_words(left.inputs)} with {_words(right.inputs)} without {without}")
        elif (left.fixed and not right.fixed and (keeps_left or asks_right)) or (
            right.fixed and not left.fixed and keeps_right
        ):
            raise Mixed("keeps rows that do not come from the window, which every partition would repeat")
        # A side that may be missing holds null in its place.
        sides = [*([] if keeps_right else [left]), *([] if keeps_left or asks_right else [right])]
        return Trace(
            left.output if asks_right else (*left.output, *right.output),
            frozenset().union(*(side.places for side in sides)),
            frozenset().union(*(side.instants for side in sides)),
            _together([left, right]),
            frozenset().union(*(side.boxes for side in sides)),
        )

    def _meet(self, term: Node, left: Trace, right: Trace) -> bool:
        if term.kind not in {"EqualTo", "EqualNullSafe"}:
            return False
        one, other = term.children
        return (self._is_place(one, left) and self._is_place(other, right)) or (
            self._is_place(other, left) and self._is_place(one, right)
        )

    def _with_names(self, plan: Node) -> Trace:
        for index in plan.fields["cteDefs"]:
            definition = plan.children[index]
            self._named[int(definition.fields["id"])] = self.trace(definition)
        return self.trace(plan.child("plan"))

    def _named_rows(self, plan: Node) -> Trace:
        known = self._named.get(int(plan.fields["cteId"]))
        output = tuple(plan.expressions("output"))
        if known is None or len(known.output) != len(output):
            raise Mixed("has a recursive query in its plan")
        # A query that is used twice has the same columns under other numbers.
        numbers = {old.id: new.id for old, new in zip(known.output, output, strict=True)}
        places = {numbers[each] for each in known.places if numbers.get(each) is not None}
        instants = {numbers[each] for each in known.instants if numbers.get(each) is not None}
        return Trace(output, frozenset(places), frozenset(instants), known.inputs)  # type: ignore[arg-type]

    def _is_place(self, expression: Node, below: Trace) -> bool:
        """Return whether an expression names the partition: such a column, or the local date of such an instant."""
        if expression.kind == "AttributeReference":
            return expression.id in below.places
        if expression.kind == "GetStructField":
            return (expression.children[0].id, expression.fields.get("ordinal")) in below.boxes
        if expression.kind == "Cast":
            to_date = expression.fields.get("dataType") == "date"
        else:
            to_date = expression.kind == "ParseToDate" and len(expression.children) == 1
        if not to_date or expression.children[0].kind != "AttributeReference":
            return False
        inner = expression.children[0]
        here = expression.fields.get("timeZoneId") == self._zone or inner.fields.get("dataType") == "timestamp_ntz"
        return here and inner.id in below.instants

    def _boxed(self, expression: Node, below: Trace) -> set[int]:
        """Number the fields of a struct that name the partition; the greatest of a group is one of its rows'."""
        if expression.kind == "AttributeReference":
            return {number for struct, number in below.boxes if struct == expression.id}
        if expression.kind == "AggregateExpression" and len(expression.children) == 1:
            inner = expression.children[0]
            return self._boxed(inner.children[0], below) if inner.kind in _ONE_OF_THE_ROWS else set()
        if expression.kind != "CreateNamedStruct":
            return set()
        values = expression.children[1::2]  # between them are their names
        return {number for number, value in enumerate(values) if self._is_place(value, below)}

    def _place_in(self, trace: Trace) -> str:
        """Return which column tells partitions apart."""
        known = [each.name for each in trace.output if each.id in trace.places]
        dates = [f"the date of {each.name}" for each in trace.output if each.id in trace.instants]
        return next(iter([*known, *dates]), self._column)

    def _require(self, keys: Sequence[Node], below: Trace, what: str) -> None:
        # Equal instants lie in one partition, too.
        if any(self._is_place(key, below) or key.id in below.instants for key in keys):
            return
        by = f" by {_words([name_of(key) for key in keys])}" if keys else " over all rows"
        raise Mixed(f"{what}{by} without {self._place_in(below)}")

    def _allow(self, expression: Node) -> None:
        """Refuse expressions that read more than their row, or return another value each time."""
        for node in expression.walk():
            if node.kind in _DICE:
                raise Mixed(f"non-deterministic: {snake(node.kind)}()")
            if node.kind == "PythonUDTF":
                raise Mixed("calls a Python function that returns tables (opaque)")
            if node.kind in {"PythonUDF", "PythonUDAF"}:
                if node.fields.get("evalType") not in _ROW_UDFS:
                    raise Mixed(_OPAQUE)
                if not node.fields.get("udfDeterministic"):
                    raise Mixed(f"non-deterministic: {node.name}()")
            if node.kind == "ScalaUDF" and not node.fields.get("udfDeterministic", True):
                raise Mixed("non-deterministic: a user-defined function")
            if node.kind in _SUBQUERIES:
                self._allow_subquery(node)

    def _allow_subquery(self, node: Node) -> None:
        plan = node.expression("plan")
        if plan is None or node.fields.get("outerAttrs") or not self.trace(plan).fixed:
            raise Mixed("asks a subquery about rows of the window")


def _refuse(expressions: Iterable[Node], kinds: frozenset[str]) -> None:
    """Refuse functions whose result depends on the order of rows, and not on the rows alone."""
    for each in expressions:
        if found := [node.kind for node in each.walk() if node.kind in kinds]:
            raise Mixed(f"asks for {snake(found[0])}(), which depends on the order of rows")


def _columns(expressions: Iterable[Node]) -> Iterable[Node]:
    """Return expressions as the columns that they make: what is inside them does not matter to their users."""
    return (Node(each.kind, each.fields, ()) for each in expressions)


def _ids(output: Iterable[Node], name: str | None) -> frozenset[int]:
    return frozenset(each.id for each in output if each.name == name and each.id is not None)


def _common(first: Sequence[Node], sides: Sequence[tuple[Sequence[Node], frozenset[int]]]) -> set[int]:
    """Return the columns that are known on every side, by where they stand."""
    return {
        column.id
        for place, column in enumerate(first)
        if column.id is not None
        if all(len(output) > place and output[place].id in known for output, known in sides)
    }


def _together(traces: Iterable[Trace]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for trace in traces for name in trace.inputs))


def _words(names: Sequence[str]) -> str:
    return ", ".join(names)
