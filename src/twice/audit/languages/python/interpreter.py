"""Follow the values of a Python file: statements, expressions, functions; calls are in `calls.py`."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from twice.audit.expressions import Expr, Origin, OriginKind
from twice.audit.languages.building import JobBuilder, Surroundings
from twice.audit.languages.python import names
from twice.audit.languages.python.texts import literal_lines
from twice.audit.languages.python.values import (
    NONE,
    Choice,
    Col,
    Const,
    Entries,
    Frame,
    Function,
    Instance,
    Items,
    Klass,
    Name,
    Origins,
    Piece,
    Text,
    Value,
    alternatives,
    as_fallback,
    constant,
    merged,
    origins_of,
    plain,
    with_origins,
)
from twice.audit.model import Context, Parameter, Use
from twice.audit.places import Place

_DEEPEST_CALL = 7
_MOST_STEPS = 120_000
_DEEPEST_NODE = 120
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.FloorDiv: "/", ast.BitAnd: "and", ast.BitOr: "or",
    ast.Eq: "=", ast.NotEq: "<>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_BUILTINS = frozenset(dir(builtins))


@dataclass
class Scope:
    """Names and what they stand for; `parent` is the module around a function."""

    names: dict[str, Value] = field(default_factory=dict)
    parent: Scope | None = None
    returns: list[Value] = field(default_factory=list)
    function: str = ""

    def get(self, name: str) -> Value | None:
        """Look a name up, outwards."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


class TooMuch(Exception):
    """The file asks for more steps than one file may have."""


@dataclass
class State:
    """Where the interpreter stands: guards, loops, tasks, transactions."""

    guards: list[str] = field(default_factory=list)
    loops: int = 0
    in_except: int = 0
    task: str = ""
    retries: int | None = None
    inside: str = ""  # foreachPartition, udf …
    functions: list[str] = field(default_factory=list)
    override: Place | None = None  # the call through which code of another file runs
    transaction: int | None = None
    batch_id: str = ""


class Interpreter:
    """Runs a file symbolically and fills a job."""

    def __init__(
        self, builder: JobBuilder, tree: ast.Module, text: str, load: Callable[[str], Interpreter | None]
    ) -> None:
        self.builder = builder
        self.job = builder.job
        self.tree = tree
        self.lines = text.split("\n")
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
        self.sources: dict[int, str] = {}
        self.dag_functions: set[str] = set()  # functions that build a DAG run while the file is imported

    # running ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the module, then every function that nothing has called."""
        try:
            self.block(self.tree.body)
            self._run_pending()
            text = "\n".join(self.lines)
            handed_over, called = _handed_over(self.functions, text), _called(self.functions, text)
            # What another function calls or hands over (foreachBatch(write_batch)) is run from there, if at all.
            for function in sorted(self.functions, key=lambda one: (one.name in handed_over, one.name in called)):
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
            self.run_function(function)
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

    def place(self, node: ast.AST) -> Place:
        """Return where a node stands."""
        if self.state.override is not None:
            return self.state.override
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.end_lineno is not None:
            # The name of the method, not the start of the chain in which it stands.
            column = (node.func.end_col_offset or 0) - len(node.func.attr)
            return Place(node.func.end_lineno, max(1, column + 1), node.end_lineno or 0)
        line = getattr(node, "lineno", 1)
        return Place(line, getattr(node, "col_offset", 0) + 1, getattr(node, "end_lineno", 0) or 0)

    def around(self, **changes: object) -> Surroundings:
        """Return what is around a statement that is executed now."""
        found = Surroundings(
            task=self.state.task,
            function=self.state.functions[-1] if self.state.functions else "",
            loop=self.state.loops > 0,
            guarded_by=next((guard for guard in reversed(self.state.guards) if guard), ""),
            retries=self.state.retries,
        )
        return replace(found, **changes)  # type: ignore[arg-type]

    def source(self, node: ast.AST) -> str:
        """Return a node as written, in one line."""
        known = self.sources.get(id(node))
        if known is not None:
            return known
        text = self._slice(node)
        if text is None:
            try:
                text = ast.unparse(node)[:200]
            except (ValueError, RecursionError, AttributeError):
                text = ""
        self.sources[id(node)] = text
        return text

    def _slice(self, node: ast.AST) -> str | None:
        """Cut a node out of its line: much quicker than writing it anew."""
        line, end = getattr(node, "lineno", None), getattr(node, "end_col_offset", None)
        if self.state.override is not None or line is None or end is None or line != getattr(node, "end_lineno", 0):
            return None
        if not 0 < line <= len(self.lines) or not self.lines[line - 1].isascii():
            return None
        start = int(getattr(node, "col_offset", 0))
        text: str = self.lines[line - 1][start:end]
        return text[:200]

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

    # statements -------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Run statements one after the other."""
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Run one statement."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooMuch
        handler = getattr(self, f"_do_{type(node).__name__.lower()}", None)
        if handler is not None:
            handler(node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.eval(child)
            elif isinstance(child, ast.stmt):
                self.statement(child)

    def _do_import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.job.imports |= {alias.name}
            if alias.name.startswith("pyspark"):
                self.spark = True
            bound = alias.asname or alias.name.split(".")[0]
            dotted = _ALIASES.get(alias.name, alias.name) if alias.asname else alias.name.split(".")[0]
            self.scope.names[bound] = Name(dotted=dotted, name=bound)

    def _do_importfrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self.job.imports |= {module}
        if module.startswith("pyspark"):
            self.spark = True
        neighbour: Interpreter | None = None
        if not self.quiet or self.depth < 2:
            relative = "." * node.level + module
            neighbour = self.load(relative)
        for alias in node.names:
            if alias.name == "*":
                if module.startswith("pyspark.sql.functions"):
                    self.star_functions = True
                if neighbour is not None:
                    self.scope.names.update(_foreign_all(neighbour.module.names, neighbour.module))
                continue
            bound = alias.asname or alias.name
            found = neighbour.module.names.get(alias.name) if neighbour is not None else None
            if found is None and neighbour is None:
                inner = (
                    self.load("." * node.level + (f"{module}." if module else "") + alias.name)
                    if node.level or module
                    else None
                )
                if inner is not None:
                    found = Instance(
                        kind="module", attributes=_foreign_all(inner.module.names, inner.module), name=bound
                    )
            if found is not None and not isinstance(found, Name):
                self.scope.names[bound] = _foreign(found, neighbour.module if neighbour is not None else self.module)
            else:
                self.scope.names[bound] = found or Name(dotted=f"{module}.{alias.name}", name=bound)

    def _do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = tuple(self.source(one) for one in node.decorator_list)
        env = self.scope.names if self.scope is not self.module else {}
        function = Function(
            node=node, env=dict(env) if self.scope is not self.module else {}, name=node.name, decorators=decorators
        )
        if self.scope is not self.module:
            function.env = _Chain(self.scope)
        self.scope.names[node.name] = function
        self.functions.append(function)
        from twice.audit.languages.python import orchestration

        orchestration.decorate(self, function, node)

    _do_asyncfunctiondef = _do_functiondef

    def _do_classdef(self, node: ast.ClassDef) -> None:
        inner = Scope(parent=self.scope)
        before, self.scope = self.scope, inner
        defined = len(self.functions)
        try:
            self.block(node.body)
        finally:
            self.scope = before
        class_ = Klass(node=node, env=inner.names, name=node.name)
        bases = [self.eval(base) for base in node.bases]
        for base in bases:
            if isinstance(base, Klass):
                for name, value in base.env.items():
                    class_.env.setdefault(name, value)
        instance = Instance(kind=node.name, methods=class_, name="self")
        if "__init__" in class_.env:
            self._prepare(class_, instance)
        for function in self.functions[defined:]:
            if any("classmethod" in one or "staticmethod" in one for one in function.decorators):
                continue
            function.bound = instance
        self.scope.names[node.name] = class_

    def _prepare(self, class_: Klass, instance: Instance) -> None:
        """Run the constructor once, so that methods that nobody calls know their attributes."""
        init = class_.env.get("__init__")
        if isinstance(init, Function) and isinstance(init.node, ast.FunctionDef):
            self.called.add(id(init.node))
            self.call_function(replace(init, bound=instance), [], {}, init.node, standalone=True)

    def _do_return(self, node: ast.Return) -> None:
        value = self.eval(node.value) if node.value is not None else Const()
        self.scope.returns.append(value)

    def _do_expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        value = self.eval(node.value)
        if isinstance(node.value, (ast.Yield, ast.YieldFrom)):
            self.scope.returns.append(value)

    def _do_assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value, node)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value), node)

    def _do_augassign(self, node: ast.AugAssign) -> None:
        fake = ast.copy_location(ast.BinOp(left=_loaded(node.target), op=node.op, right=node.value), node)
        self.assign(node.target, self._eval_binop(fake), node)

    def assign(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """Bind a name, an attribute or an item."""
        if isinstance(target, ast.Name):
            if (not value.name and not isinstance(value, (Const, Text))) or type(value) is Value:
                value = replace(value, name=target.id)
            self.scope.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = value.items if isinstance(value, Items) else []
            starred = any(isinstance(one, ast.Starred) for one in target.elts)
            for index, one in enumerate(target.elts):
                if index < len(items) and not starred:
                    self.assign(one, items[index], node)
                else:
                    inner = one.value if isinstance(one, ast.Starred) else one
                    self.assign(inner, Value(origins=origins_of(value), name=self.source(inner)), node)
        elif isinstance(target, ast.Attribute):
            owner = self.eval(target.value)
            if isinstance(owner, Instance):
                owner.attributes[target.attr] = value
            elif "autocommit" in target.attr and isinstance(constant(value), bool):
                self._set_autocommit(bool(constant(value)))
        elif isinstance(target, ast.Subscript):
            owner = self.eval(target.value)
            key = self.eval(target.slice)
            text = plain(key)
            if isinstance(owner, Entries) and text is not None:
                owner.items[text] = value
            elif text is not None and self._is_pandas_like(owner):
                from twice.audit.languages.python import frames

                whole = owner if isinstance(owner, Frame) else frames.unknown_frame(owner.name, self.place(node))
                frame = frames.with_column(self, whole, text, value, node)
                if isinstance(target.value, ast.Name):
                    self.scope.names[target.value.id] = frame
            elif isinstance(owner, Instance) and text is not None:
                owner.attributes[text] = value
            elif text and ("os.environ" in self.source(target.value) or "conf" in self.source(target.value)):
                self.job.settings[text.lower()] = (plain(value) or "").lower()

    def _is_pandas_like(self, owner: Value) -> bool:
        """Tell whether `x["column"] = …` adds a column: x is a frame, or unknown and called like one."""
        unknown = type(owner) is Value and "pandas" in self.job.imports
        return isinstance(owner, Frame) or (unknown and bool(_FRAME_NAME.search(owner.name)))

    def _set_autocommit(self, on: bool) -> None:  # noqa: FBT001 - mirrors the attribute
        self.state.transaction = None if on else self.builder.new_transaction()
        self.connections = -1 if on else self.connections

    def _do_if(self, node: ast.If) -> None:
        test = self.eval(node.test)
        self._condition(test, node.test)
        source = self.source(node.test)
        guard = source if names.GUARDS.search(source) else ""
        before = dict(self.scope.names)
        returned = len(self.scope.returns)
        self.state.guards.append(guard)
        self.block(node.body)
        self.state.guards.pop()
        ends = _ends(node.body)
        after_body = self.scope.names
        asked = set(_asked_for_missing(node.test))
        for name in asked:
            value = after_body.get(name)
            if value is not None and value is not before.get(name) and name in before and not _is_known(before[name]):
                after_body[name] = merged(before[name], as_fallback(value))
        self.scope.names = dict(before)
        self.state.guards.append(f"not ({guard})" if guard and not node.orelse else guard)
        self.block(node.orelse)
        self.state.guards.pop()
        after_else = self.scope.names
        if ends and not _ends(node.orelse):
            self.scope.names = after_else
            if guard and self.state.functions and not node.orelse and not isinstance(node.body[-1], ast.Raise):
                self.state.guards[-1:] = [self.state.guards[-1] or source] if self.state.guards else [source]
        elif _ends(node.orelse) and node.orelse:
            self.scope.names = after_body
        elif constant(test) is False and isinstance(test, Const):
            self.scope.names = after_else
        else:
            self.scope.names = _joined(after_body, after_else)
        values = self.scope.returns[returned:]
        if len(values) == 2 and values[0] is not values[1]:
            self.scope.returns[returned:] = [merged(values[0], values[1])]

    def _condition(self, test: Value, node: ast.AST) -> None:
        origins = frozenset(origin for origin in origins_of(test) if origin.kind in {"clock", "random"})
        if origins:
            self.use(origins, "condition", node)

    def _do_for(self, node: ast.For | ast.AsyncFor) -> None:
        over = self.eval(node.iter)
        counted = node.iter.args[0] if _is_enumerate(node.iter) else None
        if counted is not None and _is_set(self.eval(counted)) and _writes_lines(node.body):
            self.job.sets_iterated.append(Expr("python", self.source(counted), place=self.place(node.iter)))
        if isinstance(over, Items) and over.kind == "set":
            if _writes_lines(node.body):
                self.job.sets_iterated.append(Expr("python", self.source(node.iter), place=self.place(node.iter)))
            over = Items(items=[with_origins(one, self.origin("set", self.source(node.iter), node.iter)) for one in over.items] or [Value(origins=self.origin("set", self.source(node.iter), node.iter))])  # fmt: skip
        item = self._item_of(over)
        if (
            any(isinstance(one, (Text, Items, Entries)) for one in alternatives(item))
            and isinstance(over, Items)
            and 1 < len(over.items) <= 6
        ):
            before = dict(self.scope.names)
            self.state.loops += 1
            for one in over.items:
                self.assign(node.target, one, node)
                self.block(node.body)
            self.state.loops -= 1
            self.scope.names = _joined(before, self.scope.names)
            self.block(node.orelse)
            return
        self.assign(node.target, item, node)
        before = dict(self.scope.names)
        self.state.loops += 1
        self.block(node.body)
        self.state.loops -= 1
        self.scope.names = _joined(before, self.scope.names)
        self.block(node.orelse)

    _do_asyncfor = _do_for

    def _item_of(self, over: Value) -> Value:
        if isinstance(over, Items) and over.items:
            options = over.items[:8]
            found = options[0]
            for one in options[1:]:
                found = merged(found, one)
            return found
        if isinstance(over, Entries) and over.items:
            return Choice(options=[_text(key) for key in list(over.items)[:8]])
        if isinstance(over, Choice):
            return self._item_of(over.options[0])
        return Value(origins=origins_of(over), name=over.name)

    def _do_while(self, node: ast.While) -> None:
        self._condition(self.eval(node.test), node.test)
        before = dict(self.scope.names)
        self.state.loops += 1
        self.block(node.body)
        self.state.loops -= 1
        self.scope.names = _joined(before, self.scope.names)
        self.block(node.orelse)

    def _do_try(self, node: ast.Try) -> None:
        before = dict(self.scope.names)
        self.block(node.body)
        after = self.scope.names
        for handler in node.handlers:
            self.scope.names = dict(before)
            if handler.name:
                self.scope.names[handler.name] = Value(name=handler.name)
            self.state.in_except += 1
            self.block(handler.body)
            self.state.in_except -= 1
            if not _ends(handler.body):
                after = _joined(after, self.scope.names)
        self.scope.names = after
        self.block(node.orelse)
        self.block(node.finalbody)

    _do_trystar = _do_try

    def _do_with(self, node: ast.With | ast.AsyncWith) -> None:
        opened = False
        before = self.state.transaction
        for item in node.items:
            value = self.eval(item.context_expr)
            source = self.source(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, node)
            if _opens_transaction(source):
                self.state.transaction = self.builder.new_transaction()
                opened = True
            if isinstance(value, Instance) and value.kind.endswith("DAG"):
                self.state.retries = self.job.orchestration.retries
        self.block(node.body)
        if opened:
            self.state.transaction = before
            self.builder.commit()

    _do_asyncwith = _do_with

    def _do_raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self.use(self.eval(node.exc), "log", node)

    def _do_assert(self, node: ast.Assert) -> None:
        self.eval(node.test)
        source = self.source(node.test)
        if "distinct" in source or "unique" in source.lower() or "duplicate" in source.lower():
            self.job.checks_uniqueness = True

    def _do_global(self, _node: ast.Global) -> None:
        """Names are looked up outwards anyway."""

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scope.names.pop(target.id, None)

    def _do_match(self, node: ast.Match) -> None:
        self.eval(node.subject)
        before = dict(self.scope.names)
        after = before
        for case in node.cases:
            self.scope.names = dict(before)
            self.block(case.body)
            after = _joined(after, self.scope.names)
        self.scope.names = after

    # expressions ------------------------------------------------------------------------------------------------

    def eval(self, node: ast.expr) -> Value:
        """Return what an expression stands for."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooMuch
        if self.node_depth > _DEEPEST_NODE:
            return Value()
        self.node_depth += 1
        try:
            handler = getattr(self, f"_eval_{type(node).__name__.lower()}", None)
            if handler is not None:
                found: Value = handler(node)
                return found
            origins: Origins = NONE
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    origins |= origins_of(self.eval(child))
            return Value(origins=origins, name=self.source(node)[:60])
        finally:
            self.node_depth -= 1

    def _eval_constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, str):
            lines = (
                [self.state.override.line] * (node.value.count("\n") + 1)
                if self.state.override
                else literal_lines(node, self.lines)
            )
            return Text(pieces=[Piece(node.value, lines)], column=self._text_column(node))
        return Const(value=node.value)

    def _text_column(self, node: ast.expr) -> int:
        source = self.lines[node.lineno - 1] if 0 < node.lineno <= len(self.lines) else ""
        rest = source[node.col_offset : node.col_offset + 6].lstrip("rRfFbBuU")
        prefix = 6 - len(rest) if len(source) >= node.col_offset + 6 else 0
        return node.col_offset + 1 + prefix + (3 if rest.startswith(('"""', "'''")) else 1)

    def _eval_joinedstr(self, node: ast.JoinedStr) -> Value:
        lines = [self.place(node).line] * 500 if self.state.override else literal_lines(node, self.lines)
        pieces: list[Piece | Value] = []
        at = 0
        for part in node.values:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                count = part.value.count("\n")
                pieces.append(Piece(part.value, lines[at : at + count + 1] or [node.lineno]))
                at = min(at + count, max(0, len(lines) - 1))
            elif isinstance(part, ast.FormattedValue):
                value = self.eval(part.value)
                if not value.name:
                    value = replace(value, name=self.source(part.value)[:60])
                pieces.extend(_inlined(value, lines[at] if at < len(lines) else node.lineno))
        return Text(pieces=pieces, column=self._text_column(node))

    def _eval_name(self, node: ast.Name) -> Value:
        found = self.scope.get(node.id)
        if found is not None:
            return found
        if self.star_functions and node.id not in _BUILTINS | {"spark"}:
            return Name(dotted=f"pyspark.sql.functions.{node.id}", name=node.id)
        if node.id == "spark" or node.id in _BUILTINS:
            return Name(dotted=node.id, name=node.id)
        if node.id in {"dbutils", "sc", "sqlContext", "glueContext", "glue_context", "context"}:
            return Name(dotted=node.id, name=node.id)
        if self.star_functions and node.id in {"sum", "max", "min", "round", "abs"}:
            return Name(dotted=f"pyspark.sql.functions.{node.id}", name=node.id)
        return Value(name=node.id)

    def _eval_attribute(self, node: ast.Attribute) -> Value:
        from twice.audit.languages.python import calls

        return calls.attribute(self, self.eval(node.value), node)

    def _eval_call(self, node: ast.Call) -> Value:
        from twice.audit.languages.python import calls

        return calls.call(self, node)

    def _eval_list(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        items: list[Value] = []
        for one in node.elts:
            if isinstance(one, ast.Starred):
                value = self.eval(one.value)
                items.extend(value.items if isinstance(value, Items) else [Value(origins=origins_of(value))])
            else:
                items.append(self.eval(one))
        kind = {ast.Tuple: "tuple", ast.Set: "set"}.get(type(node), "list")
        return Items(items=items, kind=kind, name=self.source(node)[:60])

    _eval_tuple = _eval_list
    _eval_set = _eval_list

    def _eval_dict(self, node: ast.Dict) -> Value:
        found = Entries()
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.eval(value)
            if key is None:
                if isinstance(inner, Entries):
                    found.items.update(inner.items)
                continue
            text = plain(self.eval(key))
            if text is not None:
                found.items[text] = inner
            else:
                found.origins |= origins_of(inner)
        return found

    def _eval_boolop(self, node: ast.BoolOp) -> Value:
        values = [self.eval(one) for one in node.values]
        if isinstance(node.op, ast.Or) and len(values) > 1:
            found = values[0]
            for one in values[1:]:
                first_known = isinstance(found, Const) and found.value is None
                found = (
                    as_fallback(one)
                    if first_known
                    else merged(found, as_fallback(one) if not _is_known(found) else one)
                )
            return found
        origins: Origins = NONE
        for one in values:
            origins |= origins_of(one)
        return Value(origins=origins, name=self.source(node)[:60])

    def _eval_ifexp(self, node: ast.IfExp) -> Value:
        self.eval(node.test)
        body, orelse = self.eval(node.body), self.eval(node.orelse)
        asked = set(_asked_for_missing(node.test))
        present = set(_asked_for_present(node.test))
        if asked:
            body = as_fallback(body)
        if present:
            orelse = as_fallback(orelse)
        return merged(body, orelse)

    def _eval_namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.assign(node.target, value, node)
        return value

    def _eval_binop(self, node: ast.BinOp) -> Value:
        left, right = self.eval(node.left), self.eval(node.right)
        if isinstance(left, (Text, Choice)) or isinstance(right, Text):
            text = self._text_operation(node, left, right)
            if text is not None:
                return text
        if isinstance(left, Col) or isinstance(right, Col):
            from twice.audit.languages.python import columns

            return columns.operation(self, _OPERATORS.get(type(node.op), "op"), [left, right], node)
        if isinstance(node.op, (ast.RShift, ast.LShift)):
            from twice.audit.languages.python import orchestration

            return orchestration.follows(self, left, right, backwards=isinstance(node.op, ast.LShift))
        mine, theirs = origins_of(left), origins_of(right)
        if isinstance(node.op, ast.Sub) and _clocks(mine) and _clocks(theirs):
            self.use(_clocks(mine) | _clocks(theirs), "timer", node)
            return Value(name=self.source(node)[:60])
        if isinstance(left, Items) and isinstance(right, Items) and isinstance(node.op, ast.Add):
            return Items(items=[*left.items, *right.items], kind=left.kind)
        if isinstance(left, Items) and left.kind == "set":
            return Items(items=left.items, kind="set", origins=mine | theirs)
        if isinstance(left, Const) and isinstance(right, Const):
            return _computed(node.op, left, right)
        if isinstance(left, Instance) and left.kind == "path" and isinstance(node.op, ast.Div):
            joined = self._text_operation(
                ast.BinOp(left=node.left, op=ast.Add(), right=node.right), left.attributes["text"], right
            )
            return Instance(kind="path", attributes={"text": joined or left.attributes["text"]}, origins=mine | theirs)
        return Value(origins=mine | theirs, name=self.source(node)[:60])

    def _text_operation(self, node: ast.BinOp, left: Value, right: Value) -> Value | None:
        first = next(alternatives(left), left)
        if isinstance(node.op, ast.Add) and (isinstance(first, Text) or isinstance(right, Text)):
            line = getattr(node, "lineno", 1)
            pieces = [*_inlined(first, line), *_inlined(right, line)]
            return Text(pieces=pieces, column=first.column if isinstance(first, Text) else 1)
        if isinstance(node.op, ast.Mod) and isinstance(first, Text):
            values = right.items if isinstance(right, Items) and right.kind == "tuple" else [right]
            mapping = right.items if isinstance(right, Entries) else {}
            return _percent(first, values, mapping, getattr(node, "lineno", 1))
        return None

    def _eval_unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.eval(node.operand)
        if isinstance(value, Col):
            from twice.audit.languages.python import columns

            return columns.operation(self, "not" if isinstance(node.op, ast.Invert) else "neg", [value], node)
        if isinstance(value, Const) and isinstance(node.op, ast.USub) and isinstance(value.value, (int, float)):
            return Const(value=-value.value)
        return Value(origins=origins_of(value))

    def _eval_compare(self, node: ast.Compare) -> Value:
        values = [self.eval(node.left), *(self.eval(one) for one in node.comparators)]
        if any(isinstance(one, Col) for one in values) and len(values) == 2:
            from twice.audit.languages.python import columns

            return columns.operation(self, _OPERATORS.get(type(node.ops[0]), "op"), values, node)
        origins: Origins = NONE
        for one in values:
            origins |= origins_of(one)
        return Value(origins=origins, name=self.source(node)[:60])

    def _eval_subscript(self, node: ast.Subscript) -> Value:
        owner = self.eval(node.value)
        key = self.eval(node.slice)
        text = plain(key)
        for one in alternatives(owner):
            if isinstance(one, Entries) and text is not None and text in one.items:
                return one.items[text]
            texts = [item for item in one.items.values() if isinstance(item, Text)] if isinstance(one, Entries) else []
            if isinstance(one, Entries) and text is None and 1 < len(texts) == len(one.items) <= 8:
                return Choice(options=list(texts), name=self.source(node)[:60])  # MODES[env]: any of them
            if (
                isinstance(one, Items)
                and isinstance(key, Const)
                and isinstance(key.value, int)
                and -len(one.items) <= key.value < len(one.items)
            ):
                return one.items[key.value]
            if isinstance(one, Frame):
                return self._frame_item(one, key, text, node)
            if isinstance(one, Instance) and text is not None and text in one.attributes:
                return one.attributes[text]
        source = self.source(node.value)
        if source in {"sys.argv", "os.environ", "environ"}:
            kind: OriginKind = "parameter" if "argv" in source else "environment"
            return Value(origins=self.origin(kind, self.source(node), node), name=text or source)
        if text is not None and text in _LOGICAL and ("context" in source or "kwargs" in source):
            self.job.orchestration.uses_logical_date = True
            return self.parameter(text, node, "logical date", expression=self.source(node))
        return Value(origins=origins_of(owner) | origins_of(key), name=self.source(node)[:60])

    def _frame_item(self, frame: Frame, key: Value, text: str | None, node: ast.Subscript) -> Value:
        if text is not None:
            return Col(expr=Expr("column", text.lower(), place=self.place(node), table=frame.name))
        if isinstance(key, Col):
            from twice.audit.languages.python import frames

            return frames.filtered(self, frame, key.expr)
        if isinstance(key, Items):
            from twice.audit.languages.python import frames

            return frames.selected(self, frame, [plain(one) or "" for one in key.items], node)
        return Value(origins=frame.origins, name=self.source(node)[:60])

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, kind: str) -> Value:
        before = dict(self.scope.names)
        origins: Origins = NONE
        over: Value = Value()
        for generator in node.generators:
            over = self.eval(generator.iter)
            if isinstance(over, Items) and over.kind == "set" and kind == "list":
                origins |= self.origin("set", self.source(generator.iter), generator.iter)
            origins |= origins_of(over) if not isinstance(over, (Items, Entries)) else NONE
            self.assign(generator.target, self._item_of(over), node)
            for test in generator.ifs:
                self._condition(self.eval(test), test)
        items: list[Value]
        if isinstance(over, Items) and 0 < len(over.items) <= 12 and len(node.generators) == 1:
            items = []
            for one in over.items:
                self.assign(node.generators[0].target, one, node)
                items.append(self.eval(node.elt))
        else:
            items = [self.eval(node.elt)]
        self.scope.names = before
        return Items(items=items, kind=kind, origins=origins, name=self.source(node)[:60])

    def _eval_listcomp(self, node: ast.ListComp) -> Value:
        return self._comprehension(node, "list")

    def _eval_setcomp(self, node: ast.SetComp) -> Value:
        return self._comprehension(node, "set")

    def _eval_generatorexp(self, node: ast.GeneratorExp) -> Value:
        return self._comprehension(node, "list")

    def _eval_dictcomp(self, node: ast.DictComp) -> Value:
        before = dict(self.scope.names)
        origins: Origins = NONE
        for generator in node.generators:
            over = self.eval(generator.iter)
            self.assign(generator.target, self._item_of(over), node)
        key = plain(self.eval(node.key))
        value = self.eval(node.value)
        self.scope.names = before
        return Entries(items={key: value} if key else {}, origins=origins | origins_of(value))

    def _eval_lambda(self, node: ast.Lambda) -> Value:
        return Function(node=node, env=_Chain(self.scope), name="lambda")

    def _eval_await(self, node: ast.Await) -> Value:
        return self.eval(node.value)

    def _eval_starred(self, node: ast.Starred) -> Value:
        return self.eval(node.value)

    def _eval_yield(self, node: ast.Yield) -> Value:
        return self.eval(node.value) if node.value is not None else Value()

    # functions --------------------------------------------------------------------------------------------------

    def parameter(
        self, name: str, node: ast.AST, kind: str = "function", *, expression: str = "", fallback: Origins = NONE
    ) -> Value:
        """Return a value that is given from outside, and note it."""
        place = self.place(node)
        is_date = bool(names.DATE_WORDS.search(name))
        if not self.quiet and all(known.name != name for known in self.job.parameters):
            self.job.parameters.append(Parameter(name, kind, place, is_date=is_date, expression=expression or name))  # type: ignore[arg-type]
        return Value(origins=frozenset({Origin("parameter", name, place)}) | fallback, name=name)

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
        inner = function.node
        if inner is None or id(inner) in self.stack or self.depth >= _DEEPEST_CALL:
            return Value(origins=_all_origins(arguments, keywords))
        scope = Scope(parent=_parent(function, self.module), function=function.name)
        override = self.state.override
        if function.foreign and override is None:
            self.state.override = self.place(node)
        self._bind(scope, function, inner, arguments, keywords, standalone=standalone)
        if not function.foreign:
            self.called.add(id(inner))
        before, self.scope = self.scope, scope
        module, self.module = self.module, self.module
        guards, self.state.guards = self.state.guards, list(self.state.guards)
        self.stack.append(id(inner))
        self.depth += 1
        if not isinstance(inner, ast.Lambda):
            self.state.functions.append(function.name)
        try:
            if isinstance(inner, ast.Lambda):
                return self.eval(inner.body)
            self.block(inner.body)
        finally:
            if not isinstance(inner, ast.Lambda):
                self.state.functions.pop()
            self.depth -= 1
            self.stack.pop()
            self.state.guards = guards
            self.scope = before
            self.module = module
            self.state.override = override
        if not scope.returns:
            return Const()
        found = scope.returns[0]
        for one in scope.returns[1:]:
            found = merged(found, one)
        if standalone and not self.quiet:
            clocks = frozenset(origin for origin in origins_of(found) if origin.kind == "clock")
            if clocks and not isinstance(found, (Frame, Col)):
                self.use(clocks, "returned", inner)
            for one in alternatives(found):
                if isinstance(one, Frame):
                    self.builder.add_query(one.query)
        return found

    def _bind(
        self, scope: Scope, function: Function, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        arguments: list[Value], keywords: dict[str, Value], *, standalone: bool,
    ) -> None:  # fmt: skip
        spec = node.args
        positional = [*spec.posonlyargs, *spec.args]
        given = list(arguments)
        static = any("staticmethod" in one for one in function.decorators)
        if function.bound is not None and positional and not static:
            given.insert(0, function.bound)
        defaults = [None] * (len(positional) - len(spec.defaults)) + list(spec.defaults)
        for index, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
            if index < len(given):
                scope.names[argument.arg] = _named(given[index], argument.arg)
            elif argument.arg in keywords:
                scope.names[argument.arg] = _named(keywords[argument.arg], argument.arg)
            else:
                scope.names[argument.arg] = self._missing(argument, default, standalone=standalone)
        for argument, kw_default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if argument.arg in keywords:
                scope.names[argument.arg] = _named(keywords[argument.arg], argument.arg)
            else:
                scope.names[argument.arg] = self._missing(argument, kw_default, standalone=standalone)
        if spec.vararg is not None:
            scope.names[spec.vararg.arg] = Items(items=given[len(positional) :], kind="tuple")
        if spec.kwarg is not None:
            rest = {name: value for name, value in keywords.items() if name not in scope.names}
            scope.names[spec.kwarg.arg] = Entries(items=rest, name=spec.kwarg.arg)

    def _missing(self, argument: ast.arg, default: ast.expr | None, *, standalone: bool) -> Value:
        value = self._default(default) if default is not None else None
        if standalone and plain(value) == "":  # an empty text only stands in for what the caller gives
            value = None
        if argument.arg in _LOGICAL and (value is None or (isinstance(value, Const) and value.value is None)):
            self.job.orchestration.uses_logical_date = True  # Airflow fills it in, whoever calls the task
            return self.parameter(argument.arg, argument, "logical date")
        if not standalone:
            if isinstance(value, Text) and _WRITE_MODE.search(argument.arg):
                return Choice(options=[value], name=argument.arg)  # the caller has not said how to write
            return value if value is not None else Value(name=argument.arg)
        annotation = self.source(argument.annotation) if argument.annotation is not None else ""
        if "DataFrame" in annotation:
            from twice.audit.languages.python import frames

            return frames.unknown_frame(argument.arg, self.place(argument))
        if "SparkSession" in annotation or argument.arg == "spark":
            return Name(dotted="spark", name="spark")
        if argument.arg in _LOGICAL:
            self.job.orchestration.uses_logical_date = True
            return self.parameter(argument.arg, argument, "logical date")
        if value is None or (isinstance(value, Const) and value.value is None):
            return self.parameter(argument.arg, argument)
        if isinstance(value, (Text, Const, Entries, Items)) and not origins_of(value):
            return Choice(
                options=[value],
                name=argument.arg,
                origins=frozenset({Origin("parameter", argument.arg, self.place(argument))}),
            )
        return self.parameter(argument.arg, argument, fallback=origins_of(as_fallback(value)))

    def _default(self, node: ast.expr) -> Value:
        value = self.eval(node)
        clocks = frozenset(replace(one, module_level=True) for one in origins_of(value) if one.kind == "clock")
        return Value(origins=clocks, name=value.name) if clocks else value


class _Chain(dict[str, Value]):
    """The names around a nested function, looked up when it runs."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope


def _parent(function: Function, module: Scope) -> Scope:
    if isinstance(function.env, _Chain):
        return function.env.scope
    return Scope(names=function.env, parent=module) if function.env else module


_FRAME_NAME = re.compile(r"^(df|frame|dataframe)\w*$|_(df|frame|dataframe)$")
_WRITE_MODE = re.compile(r"mode|if_exists|disposition", re.IGNORECASE)
_ALIASES = {"pyspark.sql.functions": "pyspark.sql.functions", "pandas": "pandas", "numpy": "numpy"}
_LOGICAL = frozenset({"ds", "ts", "execution_date", "logical_date", "data_interval_start", "data_interval_end", "ds_nodash", "next_ds", "prev_ds", "yesterday_ds", "tomorrow_ds", "ts_nodash", "next_execution_date", "prev_execution_date", "partition_key"})  # fmt: skip


def _text(text: str, line: int = 1) -> Text:
    return Text(pieces=[Piece(text, [line] * (text.count("\n") + 1))])


def _inlined(value: Value, line: int) -> list[Piece | Value]:
    """Return a value as pieces of a text."""
    first = next(alternatives(value), value)
    if isinstance(first, Text):
        if isinstance(value, Choice) and value.origins:
            return (
                [Value(origins=origins_of(value), name=value.name)]
                if first.plain is None
                else [Piece(first.plain, [line] * (first.plain.count("\n") + 1))]
            )
        if len(list(alternatives(value))) > 1 and origins_of(value):
            return [Value(origins=origins_of(value), name=value.name)]
        return list(first.pieces)
    if isinstance(first, Const) and first.value is not None and not isinstance(value, Choice):
        return [Piece(str(first.value), [line])]
    if isinstance(first, Instance) and first.kind == "path":
        return _inlined(first.attributes["text"], line)
    return [value]


def _percent(text: Text, values: list[Value], mapping: dict[str, Value], line: int) -> Text:
    """Fill `%s` and `%(name)s`."""
    import re

    pieces: list[Piece | Value] = []
    waiting = list(values)
    for piece in text.pieces:
        if not isinstance(piece, Piece):
            pieces.append(piece)
            continue
        position = 0
        for match in re.finditer(r"%(?:\((\w+)\))?[-+0 #]*\d*(?:\.\d+)?[sdrif]|%%", piece.text):
            pieces.append(_cut(piece, position, match.start()))
            position = match.end()
            if match[0] == "%%":
                pieces.append(Piece("%", [line]))
                continue
            value = mapping.get(match[1]) if match[1] else (waiting.pop(0) if waiting else None)
            pieces.extend(_inlined(value if value is not None else Value(name=match[1] or "value"), line))
        pieces.append(_cut(piece, position, len(piece.text)))
    return Text(pieces=pieces, column=text.column)


def format_text(text: Text, values: list[Value], keywords: dict[str, Value], line: int) -> Text:
    """Fill `{}` and `{name}` as str.format does."""
    import re

    pieces: list[Piece | Value] = []
    count = 0
    for piece in text.pieces:
        if not isinstance(piece, Piece):
            pieces.append(piece)
            continue
        position = 0
        for match in re.finditer(r"\{\{|\}\}|\{([\w.\[\]]*)(?:![rsa])?(?::[^{}]*)?\}", piece.text):
            pieces.append(_cut(piece, position, match.start()))
            position = match.end()
            if match[0] in {"{{", "}}"}:
                pieces.append(Piece(match[0][0], [line]))
                continue
            name = match[1]
            if name.isdigit() or not name:
                index = int(name) if name else count
                count += 1
                value = values[index] if index < len(values) else None
            else:
                value = keywords.get(name.split(".")[0].split("[")[0])
            pieces.extend(_inlined(value if value is not None else Value(name=name or "value"), line))
        pieces.append(_cut(piece, position, len(piece.text)))
    return Text(pieces=pieces, column=text.column)


def _cut(piece: Piece, start: int, end: int) -> Piece:
    before = piece.text.count("\n", 0, start)
    text = piece.text[start:end]
    lines = piece.lines[before : before + text.count("\n") + 1] or piece.lines[-1:] or [1]
    return Piece(text, lines)


def _named(value: Value, name: str) -> Value:
    return value if value.name or isinstance(value, (Const, Text, Instance)) else replace(value, name=name)


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), target)
    return target


def _clocks(origins: Origins) -> Origins:
    return frozenset(origin for origin in origins if origin.kind == "clock")


def _computed(operator: ast.operator, left: Const, right: Const) -> Value:
    one, other = left.value, right.value
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        if isinstance(operator, ast.Add):
            return Const(value=one + other)
        if isinstance(operator, ast.Sub):
            return Const(value=one - other)
        if isinstance(operator, ast.Mult) and abs(one) < 10**9 and abs(other) < 10**9:
            return Const(value=one * other)
    return Value()


def _all_origins(arguments: list[Value], keywords: dict[str, Value]) -> Origins:
    found: Origins = NONE
    for value in (*arguments, *keywords.values()):
        found |= origins_of(value)
    return found


def _joined(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    found = dict(one)
    for name, value in other.items():
        found[name] = merged(found[name], value) if name in found else value
    return found


def _ends(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _is_known(value: Value) -> bool:
    return (
        isinstance(value, (Text, Const))
        and not isinstance(value, Choice)
        and not (isinstance(value, Const) and value.value is None)
    )


def _asked_for_missing(test: ast.expr) -> Iterator[str]:
    """Yield the names that a test finds to be missing: `not x`, `x is None`, `x == ""`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _asked_for_present(test.operand)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, (ast.Name, ast.Attribute)):
        right = test.comparators[0]
        if isinstance(test.ops[0], (ast.Is, ast.Eq)) and isinstance(right, ast.Constant) and right.value in {None, ""}:
            yield test.left.id if isinstance(test.left, ast.Name) else test.left.attr
    elif isinstance(test, ast.BoolOp):
        for one in test.values:
            yield from _asked_for_missing(one)


def _asked_for_present(test: ast.expr) -> Iterator[str]:
    if isinstance(test, ast.Name):
        yield test.id
    elif isinstance(test, ast.Attribute):
        yield test.attr
    elif (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], (ast.IsNot, ast.NotEq, ast.Gt, ast.GtE))
    ):
        for node in ast.walk(test.left):
            if isinstance(node, ast.Name):
                yield node.id
    elif (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In)) or isinstance(test, ast.Call):
        yield from (node.id for node in ast.walk(test) if isinstance(node, ast.Name))


def _opens_transaction(source: str) -> bool:
    return any(word in source for word in (".begin(", ".transaction(", "atomic(", "transaction.atomic", "session_scope", "Session(", "sessionmaker")) or (
        source in {"conn", "connection", "con", "db", "self.conn", "self.connection"} or source.endswith((".conn", ".connection"))
        or "psycopg2.connect(" in source or "psycopg.connect(" in source or "sqlite3.connect(" in source or "get_conn()" in source or "pymysql.connect(" in source
    )  # fmt: skip


def _foreign(value: Value, scope: Scope) -> Value:
    if isinstance(value, Klass):
        return replace(value, foreign=True, env=_foreign_all(value.env, scope))
    if isinstance(value, Function):
        return replace(value, foreign=True, env=value.env if isinstance(value.env, _Chain) else _Chain(scope))
    return value


def _foreign_all(values: dict[str, Value], scope: Scope) -> dict[str, Value]:
    return {name: _foreign(value, scope) for name, value in values.items()}


def _writes_lines(body: list[ast.stmt]) -> bool:
    """Tell whether a loop writes line by line, so that its order shows."""
    calls = (one.func for part in body for one in ast.walk(part) if isinstance(one, ast.Call))
    return any(
        isinstance(one, ast.Attribute) and one.attr in {"write", "writerow", "writelines", "writerows"} for one in calls
    )


def _handed_over(functions: Sequence[Function], text: str) -> set[str]:
    """Return the functions that are arguments of calls: `foreachBatch(write_batch)`, `map(self.clean)`."""
    names_ = {function.name for function in functions if function.name.isidentifier()}
    return {name for name in names_ if re.search(rf"[(,=]\s*(?:self\.|cls\.)?{name}\s*[,)]", text)}


def _called(functions: Sequence[Function], text: str) -> set[str]:
    """Return the functions that are called somewhere in the file: their arguments are known there."""
    names_ = {function.name for function in functions if function.name.isidentifier()}
    return {name for name in names_ if re.search(rf"(?<!def )(?<![.\w]){name}\s*\(|\b(?:self|cls)\.{name}\s*\(", text)}


def _is_enumerate(node: ast.expr) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "enumerate"
        and bool(node.args)
    )


def _is_set(value: Value) -> bool:
    return any(isinstance(one, Items) and one.kind == "set" for one in alternatives(value))
