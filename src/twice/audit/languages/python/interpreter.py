"""Follow the values of a Python file; what statements, expressions and calls do is in the modules beside it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from twice.audit.expressions import Origin, OriginKind
from twice.audit.keeping import kept
from twice.audit.languages.building import JobBuilder, Surroundings
from twice.audit.languages.python import assigning, declared, invoking, names, outline
from twice.audit.languages.python.evaluating import EXPRESSIONS
from twice.audit.languages.python.mentions import mentions
from twice.audit.languages.python.scopes import Scope, State, TooMuch
from twice.audit.languages.python.snippets import Snippets
from twice.audit.languages.python.statements import STATEMENTS
from twice.audit.languages.python.values import NONE, Function, Origins, Value, origins_of
from twice.audit.model import Context, Parameter, Use
from twice.audit.places import Place
from twice.audit.queries import Query

_MOST_STEPS = 120_000
_DEEPEST_NODE = 120


class Interpreter:
    """Runs a file symbolically and fills a job."""

    def __init__(
        self, builder: JobBuilder, tree: ast.Module, text: str, load: Callable[[str], Interpreter | None]
    ) -> None:
        self.builder = builder
        self.job = builder.job
        self.tree = tree
        self.lines = text.split("\n")
        self.snippets = Snippets(self.lines)
        self.module = Scope()
        self.load = load
        self.state = State()
        self.scope = self.module
        self.star_functions = False  # from pyspark.sql.functions import *
        self.spark = False
        self.called: set[int] = set()
        self.functions: list[Function] = []
        self.pending: list[tuple[Function, State]] = []
        self.steps = 0
        self.depth = 0
        self.node_depth = 0
        self.stack: list[int] = []
        self.quiet = False  # a neighbour is loaded for its definitions only
        self.connections = 0
        self.autocommit = False  # a connection was opened that commits every statement
        self.writes_seen: set[tuple[object, ...]] = set()
        self.asked: list[tuple[ast.AST, Query]] = []  # the queries that databases were asked, and the calls that ask
        self.dag_functions: set[str] = set()  # functions that build a DAG run while the file is imported
        # By node: as long as the tree lives, no other node has the same id.
        self.sums: dict[int, ast.BinOp] = {}
        self._places: dict[int, Place] = {}

    @kept
    def assignments(self) -> dict[str, ast.expr]:
        """What the file assigns to each name, whether it has run or not."""
        return outline.assignments(self.tree)

    @kept
    def parents(self) -> dict[int, ast.AST]:
        """What each node of the file stands in, by the id of the node."""
        return outline.parents(self.tree)

    @kept
    def settings(self) -> outline.Settings:
        """Where the file's dictionaries set their keys."""
        return outline.Settings(self.tree)

    # running ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the module, then every function that nothing has called."""
        try:
            self.block(self.tree.body)
            self._run_pending()
            text = "\n".join(self.lines)
            uncalled = [function for function in self.functions if id(function.node) not in self.called]
            # What another function calls or hands over (foreachBatch(write_batch)) is run from there, if at all.
            for function in sorted(uncalled, key=lambda one: mentions(text, one.name)):
                self._run_uncalled(function)
            for function in self.functions:  # functions that the others have made, and handed back
                self._run_uncalled(function)
        except TooMuch:
            return

    def _run_uncalled(self, function: Function) -> None:
        if id(function.node) in self.called or isinstance(function.node, ast.Lambda) or function.node is None:
            return
        batch = names.micro_batch([one.arg for one in function.node.args.args])
        before = self.state.inside, self.state.batch_id
        if batch:
            used = names.mentions(function.node.body, batch)
            self.state.inside, self.state.batch_id = "foreachBatch used" if used else "foreachBatch", batch
        try:
            declared.publish(self, function, self.run_function(function))
            self._run_pending()
        finally:
            self.state.inside, self.state.batch_id = before

    def _run_pending(self) -> None:
        while self.pending:
            function, state = self.pending.pop(0)
            before, self.state = self.state, state
            try:
                self.run_function(function)
            finally:
                self.state = before

    def run_function(self, function: Function) -> Value:
        """Run a function whose caller is not known: its arguments are parameters."""
        node = function.node
        if node is None or isinstance(node, ast.Lambda):
            return Value()
        return self.call_function(function, [], {}, node, standalone=True)

    def call_function(
        self,
        function: Function,
        arguments: list[Value],
        keywords: dict[str, Value],
        node: ast.AST,
        *,
        standalone: bool = False,
    ) -> Value:
        """Run a function of the file with its arguments, and return what it returns."""
        return invoking.call_function(self, function, arguments, keywords, node, standalone=standalone)

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Run statements one after the other."""
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Run one statement."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooMuch
        run = STATEMENTS.get(type(node))
        if run is not None:
            run(self, node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.eval(child)
            elif isinstance(child, ast.stmt):
                self.statement(child)

    def eval(self, node: ast.expr) -> Value:
        """Return what an expression stands for."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooMuch
        if self.node_depth > _DEEPEST_NODE:
            return Value()
        self.node_depth += 1
        try:
            evaluate = EXPRESSIONS.get(type(node))
            if evaluate is not None:
                return evaluate(self, node)
            origins: Origins = NONE
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    origins |= origins_of(self.eval(child))
            return Value(origins=origins, name=self.source(node)[:60])
        finally:
            self.node_depth -= 1

    def assign(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """Bind a name, an attribute or an item."""
        assigning.assign(self, target, value, node)

    # what is around ---------------------------------------------------------------------------------------------

    def place(self, node: ast.AST) -> Place:
        """Return where a node stands."""
        if self.state.override is not None:
            return self.state.override
        known = self._places.get(id(node))
        if known is None:
            known = self._places[id(node)] = _place(node)
        return known

    def around(self, **changes: object) -> Surroundings:
        """Return what is around a statement that is executed now."""
        found = Surroundings(
            task=self.state.task,
            function=self.state.functions[-1] if self.state.functions else "",
            loop=self.state.loops > 0,
            guarded_by=next((guard for guard in reversed(self.state.guards) if guard), ""),
            branches=tuple(self.state.branches),
            retries=self.state.retries,
        )
        return replace(found, **changes)  # type: ignore[arg-type]

    def source(self, node: ast.AST) -> str:
        """Return a node as written, in one line; while code of another file runs, it is of that file."""
        return self.snippets.of(node, foreign=self.state.override is not None)

    # what counts ------------------------------------------------------------------------------------------------

    def origin(self, kind: OriginKind, name: str, node: ast.AST, *, table: str = "") -> Origins:
        """Make an origin at a node."""
        module_level = not self.state.functions or (
            bool(self.state.functions) and self.state.functions[-1] in self.dag_functions and not self.state.task
        )
        return frozenset({Origin(kind, name, self.place(node), module_level=module_level, table=table)})

    def use(
        self, value: Value | Origins, context: Context, node: ast.AST, *, column: str = "", detail: str = ""
    ) -> None:
        """Note that a value counts here."""
        if self.quiet:
            return
        origins = value if isinstance(value, frozenset) else origins_of(value)
        for origin in origins:
            self.job.uses.append(
                Use(
                    origin,
                    context,
                    self.place(node),
                    column=column,
                    fallback=origin.fallback,
                    detail=detail or origin.table,
                )
            )

    def parameter(
        self, name: str, node: ast.AST, kind: str = "function", *, expression: str = "", fallback: Origins = NONE
    ) -> Value:
        """Return a value that is given from outside, and note it."""
        place = self.place(node)
        is_date = bool(names.DATE_WORDS.search(name))
        if not self.quiet and all(known.name != name for known in self.job.parameters):
            self.job.parameters.append(Parameter(name, kind, place, is_date=is_date, expression=expression or name))  # type: ignore[arg-type]
        return Value(origins=frozenset({Origin("parameter", name, place)}) | fallback, name=name)


def _place(node: ast.AST) -> Place:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.end_lineno is not None:
        # The name of the method, not the start of the chain in which it stands.
        column = (node.func.end_col_offset or 0) - len(node.func.attr)
        return Place(node.func.end_lineno, max(1, column + 1), node.end_lineno or 0)
    line = getattr(node, "lineno", 1)
    return Place(line, getattr(node, "col_offset", 0) + 1, getattr(node, "end_lineno", 0) or 0)
