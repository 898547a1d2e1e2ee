"""S05, S22, S47: a pipeline that could not keep its promise is refused when it is defined."""

from __future__ import annotations

import functools
import runpy
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twice import Day, Hour, Merge, Month, Overwrite, Pipeline, QuarterHour, Retry, Table, Week, Whole, days, hours
from twice.errors import DefinitionError, UsageError
from twice.model.pipelines import STEP_ATTRIBUTE

raw = Table("lake.raw.orders", partition=Day("day"))
customers = Table("lake.core.customers", key=["id"], write=Merge(version="v"))


def out(name: str, grain=Day, **more) -> Table:
    return Table(f"lake.core.{name}", partition=grain("day"), write=Overwrite(), **more)


def add(pipeline: Pipeline, name: str, reads, writes, **more) -> None:
    pipeline.step(name=name, reads=reads, writes=writes, **more)(lambda **inputs: inputs)


@pytest.fixture
def shop() -> Pipeline:
    pipeline = Pipeline("shop", grain=Day, time_zone="Europe/Berlin")
    add(pipeline, "facts", {"orders": raw}, out("facts"))
    return pipeline


def refused(pipeline: Pipeline, define, *sentences: str) -> None:
    """Expect a refusal that holds these sentences and leaves the pipeline as it was."""
    before, order = dict(pipeline.steps), pipeline.ordered()
    with pytest.raises(DefinitionError) as caught:
        define()
    for sentence in sentences:
        assert sentence in caught.value.message
    assert pipeline.steps == before
    assert pipeline.ordered() == order


def test_a_decorated_function_stays_a_plain_function(shop):
    def revenue(orders, window):
        """Count."""
        return [*orders, window]

    decorated = shop.step(reads={"orders": raw}, writes=out("revenue"))(revenue)
    assert decorated is revenue
    assert decorated([1], "w") == [1, "w"]
    step = getattr(decorated, STEP_ATTRIBUTE)
    assert step is shop.find("revenue")
    assert (step.name, step.pipeline, step.kind, step.wants) == ("revenue", "shop", "python", {"window"})
    assert step.reads["orders"].mode == "window"
    assert repr(step) == "Step(shop.revenue)"


def test_extracts_and_sql_steps(shop):
    @shop.extract(writes=out("payments"), retry=Retry(attempts=2))
    def payments(window):
        return [window]

    query = shop.sql("report", reads={"p": out("payments")}, writes=out("report"), query="select * from p")
    assert payments("w") == ["w"]
    assert [step.name for step in shop.ordered()] == ["facts", "payments", "report"]
    assert (query.kind, query.wants, shop.find("payments").kind) == ("sql", frozenset(), "extract")
    assert [table.name for table in shop.tables()] == [
        "lake.raw.orders",
        "lake.core.facts",
        "lake.core.payments",
        "lake.core.report",
    ]


@pytest.mark.parametrize("order", list(permutations("abcd")))
def test_steps_come_after_what_they_read_however_they_are_declared(order):
    tables = {name: out(name) for name in "abcd"}
    reads = {
        "a": {"raw": raw},
        "b": {"a": tables["a"]},
        "c": {"a": tables["a"]},
        "d": {"b": tables["b"], "c": tables["c"]},
    }
    pipeline = Pipeline("p", grain=Day)
    for name in order:
        add(pipeline, name, reads[name], tables[name])
    names = [step.name for step in pipeline.ordered()]
    assert sorted(names) == ["a", "b", "c", "d"]
    assert (names[0], names[-1]) == ("a", "d")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12), st.permutations(range(6)))
def test_any_graph_is_ordered_or_its_cycle_is_refused(edges, order):
    pipeline = Pipeline("p", grain=Day)
    tables = [out(f"t{number}") for number in range(6)]
    refusals: list[str] = []
    for number in order:
        wanted = {f"t{source}": tables[source] for source, sink in edges if sink == number and source != number}
        before = dict(pipeline.steps)
        try:
            add(pipeline, f"s{number}", {"raw": raw, **wanted}, tables[number])
        except DefinitionError as error:
            refusals.append(error.message)
            assert pipeline.steps == before
    assert all("has a cycle: s" in message for message in refusals)
    place = {step.writes.id: at for at, step in enumerate(pipeline.ordered())}
    assert len(place) == len(pipeline.steps)
    for step in pipeline.steps.values():
        for read in step.reads.values():
            assert place.get(read.table.id, -1) < place[step.writes.id]


def test_a_cycle_is_refused_with_its_steps(shop):
    add(shop, "second", {"third": out("third")}, out("second"))
    refused(
        shop,
        lambda: add(shop, "third", {"second": out("second")}, out("third")),
        "pipeline shop has a cycle: second → third → second. One of these steps must not read the next",
    )


def test_a_table_has_one_producer(shop):
    refused(
        shop,
        lambda: add(
            shop, "again", {"orders": raw}, Table("lake.core.`facts`", partition=Day("day"), write=Overwrite())
        ),
        "lake.core.facts is already written by the step facts: one table has one producer",
        "Let again write a table of its own, or union the two results in one step",
    )


@pytest.mark.parametrize(
    ("grain", "table", "zone"),
    [
        (Hour, Day, "UTC"),
        (QuarterHour, Hour, "UTC"),
        (Day, Week, "UTC"),
        (Day, Month, "UTC"),
        (Month, Week, "UTC"),
        (Day, Hour, "Asia/Kolkata"),
        (Day, Hour, "Australia/Lord_Howe"),
    ],
)
def test_s05_a_wrong_grain_is_refused_with_both_grains_named(grain, table, zone):
    pipeline = Pipeline("p", grain=grain, time_zone=zone)
    refused(
        pipeline,
        lambda: add(pipeline, "s", {"raw": raw}, out("t", table)),
        f"pipeline p runs by {grain} ({zone}), but lake.core.t is partitioned by {table}",
        f"Give the table a grain of {grain} or finer",
    )


@pytest.mark.parametrize(("grain", "table"), [(Day, QuarterHour), (Day, Hour), (Week, Day), (Month, Day), (Day, Day)])
def test_a_finer_table_is_fine(grain, table):
    pipeline = Pipeline("p", grain=grain, time_zone="Europe/Berlin")
    add(pipeline, "s", {"raw": raw}, out("t", table))
    add(pipeline, "whole", {"raw": raw}, Table("lake.core.w", write=Whole()))
    assert len(pipeline.ordered()) == 2


def test_s47_reading_its_own_output_is_refused_or_declared(shop):
    totals = out("totals")
    refused(
        shop,
        lambda: add(shop, "totals", {"past": totals.window(lookback=days(1))}, totals),
        "step totals reads its own output lake.core.totals",
        "Compute it from the inputs, or declare depends_on_past=True",
        "forces forward order, one partition at a time",
    )
    refused(shop, lambda: add(shop, "totals", {"past": totals.latest()}, totals), "reads its own output")
    for read in (totals, totals.window(), totals.latest()):
        refused(
            shop,
            lambda read=read: add(shop, "totals", {"past": read}, totals, depends_on_past=True),
            "read the past of lake.core.totals with .window(lookback=days(1))",
        )
    add(shop, "totals", {"past": totals.window(lookback=days(1))}, totals, depends_on_past=True)
    assert [step.name for step in shop.ordered()] == ["facts", "totals"]


def test_s47_depending_on_the_past_needs_the_pipelines_grain(shop):
    finer = out("finer", Hour)
    refused(
        shop,
        lambda: add(shop, "s", {"past": finer.window(lookback=hours(1))}, finer, depends_on_past=True),
        "lake.core.finer must be partitioned by the pipeline's grain, day",
    )
    refused(
        shop,
        lambda: add(shop, "s", {"raw": raw}, out("s"), depends_on_past=True),
        "declares depends_on_past but does not read lake.core.s",
        "add it to reads= with .window(lookback=days(1)), or leave depends_on_past out",
    )


def test_s22_an_unpartitioned_input_must_say_how_it_is_read(shop):
    refused(
        shop,
        lambda: add(shop, "s", {"customers": customers}, out("s")),
        "input customers: lake.core.customers has no partition",
        "State that with .latest(), declare event_time= to cut it by that, or declare valid=(…) and use .as_of(…)",
    )
    add(shop, "s", {"customers": customers.latest()}, out("s"))
    assert shop.find("s").reads["customers"].mode == "latest"


@pytest.mark.parametrize(
    ("function", "sentences"),
    [
        (lambda: None, ["takes no argument orders, but reads= declares it: def s(orders)"]),
        (lambda *orders: None, ["takes no argument orders"]),
        (
            lambda orders, people: None,
            [
                "no input is declared for the argument people",
                'add reads={"people": some_table}',
                "only window and spark",
            ],
        ),
        (lambda people, **rest: None, ["no input is declared for the argument people"]),
        (lambda orders, /: None, ["orders cannot be positional-only: leave the / out"]),
        (functools.partial(lambda orders: None), ["step s must be a plain function", "decorate def s(…)"]),
        ([].append, ["step s must be a plain function"]),
        (len, ["step s must be a plain function"]),
        ("text", ["step s must be a plain function"]),
    ],
)
def test_a_function_that_does_not_fit_its_inputs_is_refused(shop, function, sentences):
    refused(shop, lambda: shop.step(name="s", reads={"orders": raw}, writes=out("s"))(function), *sentences)


def test_a_refused_function_carries_no_step(shop):
    def facts(orders):
        return orders

    refused(shop, lambda: shop.step(reads={"orders": raw}, writes=out("x"))(facts), "already has a step facts")
    assert not hasattr(facts, STEP_ATTRIBUTE)


def test_functions_may_have_defaults_and_offered_arguments(shop):
    def s(orders, window, spark, rate=2, *, extra=None, **rest):
        return orders

    shop.step(reads={"orders": raw}, writes=out("s"))(s)
    assert shop.find("s").wants == {"window", "spark"}


@pytest.mark.parametrize("function", [lambda: [1], lambda **anything: []])
def test_an_extract_must_take_the_window(shop, function):
    refused(
        shop,
        lambda: shop.extract(name="pay", writes=out("pay"))(function),
        "extract pay must take the window: def pay(window: Window)",
    )


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"name": "facts"}, "already has a step facts; give one of them another name="),
        ({"name": "a b"}, "step name 'a b': use letters, digits, - and _"),
        ({"name": "../x"}, "step name '../x'"),
        ({"writes": Table("lake.core.x", partition=Day("day"))}, "add write=Overwrite(), Merge(version=…)"),
        ({"writes": "lake.core.x"}, "writes= must be a Table, not 'lake.core.x'"),
        ({"reads": raw}, 'must be a list of tables, or give them names: reads={"orders": …}'),
        ({"reads": "orders"}, "must be a list of tables, or give them names"),
        ({"reads": ["lake.raw.orders"]}, "lists 'lake.raw.orders': give a Table, or table.window(…)"),
        ({"reads": [raw, raw.latest()]}, 'two inputs called orders: name them, as in reads={"orders": …, "other_'),
        ({"reads": [Table("lake.raw.`a-b`", partition=Day("day"))]}, "and 'a-b' cannot be an argument: name it"),
        ({"reads": [customers]}, "input customers: lake.core.customers has no partition"),
        ({"reads": [Table("lake.raw.window", partition=Day("day"))]}, "cannot be named window"),
        ({"reads": {"my orders": raw}}, "an input is named 'my orders': use a Python identifier"),
        ({"reads": {5: raw}}, "an input is named 5"),
        ({"reads": {"orders": "lake.raw.orders"}}, "give a Table, or table.window(…), .latest(), .as_of(…)"),
        (
            {"reads": {"window": raw}},
            'cannot be named window, which the step gets from twice: write reads={"window_rows"',
        ),
        ({"nondeterministic": True}, "nondeterministic=True must give the reason"),
        ({"separable": "yes"}, "separable='yes' must be True or False, or left out"),
        ({"transient": TimeoutError}, "must be a tuple of exception classes: transient=(TimeoutError,)"),
        ({"transient": ("timeout",)}, "must be a tuple of exception classes"),
    ],
)
def test_a_wrong_declaration_is_refused(shop, how, sentence):
    declared = {"name": "s", "reads": {"orders": raw}, "writes": out("s"), **how}
    refused(shop, lambda: add(shop, declared.pop("name"), **declared), sentence)


@pytest.mark.parametrize(
    ("reads", "query", "sentence"),
    [
        ({"o": raw}, " \n", "step q: the query is empty"),
        ({"o": raw}, None, "step q: the query must be a text or a Path, not None"),
        ({"o": raw}, Path("nowhere.sql"), "nowhere.sql does not exist"),
        ({"o": raw}, Path(), "cannot be read: "),
        ([raw, Table("lake.core.Orders", partition=Day("day"))], "select 1", "orders, Orders differ in upper and"),
        ({"o": raw, "O": raw}, "select 1", "o, O differ in upper and lower case only"),
        ({"o": customers}, "select 1", "State that with .latest()"),
    ],
)
def test_a_wrong_query_is_refused(shop, reads, query, sentence):
    refused(shop, lambda: shop.sql("q", reads=reads, writes=out("q"), query=query), sentence)


def test_inputs_in_a_list_are_called_as_their_tables(shop):
    @shop.step(reads=[raw, customers.latest()], writes=out("listed"))
    def listed(customers, orders, window, limit=7):
        return orders

    reads = shop.find("listed").reads
    assert {name: (read.table.name, read.mode) for name, read in reads.items()} == {
        "orders": ("lake.raw.orders", "window"),
        "customers": ("lake.core.customers", "latest"),
    }
    step = shop.sql("q", reads=(raw,), writes=out("q"), query="select * from orders")
    assert list(step.reads) == ["orders"]


def test_arguments_that_are_not_called_as_the_listed_tables_are_refused(shop):
    reads = [raw, customers.latest()]

    def order(order, customers):
        return order

    def fewer(orders):
        return orders

    refused(
        shop,
        lambda: shop.step(reads=reads, writes=out("s"))(order),
        "step order: reads= lists no table called order, which is an argument of the function; it lists "
        "orders (lake.raw.orders), customers (lake.core.customers). Did you mean orders? An argument has the "
        'last part of a table\'s name, or the inputs are named: reads={"order": …}',
    )
    refused(
        shop,
        lambda: shop.step(reads=reads, writes=out("s"))(fewer),
        "step fewer: the function has no argument customers, and reads= lists lake.core.customers",
    )
    refused(shop, lambda: shop.step(reads=reads, writes=out("s"))(len), "must be a plain function")


QUERY = """
from pathlib import Path
from twice import Day, Overwrite, Pipeline, Table
shop = Pipeline("shop", grain=Day)
orders = Table("lake.raw.orders", partition=Day("day"))
revenue = Table("lake.mart.revenue", partition=Day("day"), write=Overwrite())
step = shop.sql("revenue", reads=[orders], writes=revenue, query=Path({path!r}))
"""


def test_the_file_of_a_query_lies_beside_the_file_that_declares_the_step(tmp_path, monkeypatch):
    jobs, elsewhere = tmp_path / "jobs", tmp_path / "elsewhere"
    (jobs / "sql").mkdir(parents=True)
    elsewhere.mkdir()
    (jobs / "sql" / "revenue.sql").write_text("SELECT 'é' FROM orders\n", encoding="utf-8")
    (jobs / "shop.py").write_text(QUERY.format(path="sql/revenue.sql"))
    monkeypatch.chdir(elsewhere)

    assert runpy.run_path(str(jobs / "shop.py"))["step"].query == "SELECT 'é' FROM orders\n"

    (jobs / "shop.py").write_text(QUERY.format(path="sql/revenu.sql"))
    with pytest.raises(DefinitionError) as caught:
        runpy.run_path(str(jobs / "shop.py"))
    assert caught.value.message == (
        f"step revenue: its query {jobs}/sql/revenu.sql does not exist. Did you mean revenue.sql?"
    )


def test_the_file_of_a_query_of_a_notebook_lies_in_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "revenue.sql").write_text("SELECT * FROM orders")
    monkeypatch.chdir(tmp_path)
    cell: dict[str, object] = {"__name__": "__main__"}
    exec(QUERY.format(path="revenue.sql"), cell)  # noqa: S102 - as a notebook runs a cell
    assert cell["step"].query == "SELECT * FROM orders"
    monkeypatch.chdir(tmp_path.parent)
    exec(QUERY.format(path=str(tmp_path / "revenue.sql")), cell)  # noqa: S102 - as a notebook runs a cell
    assert cell["step"].query == "SELECT * FROM orders"


def test_unknown_steps_are_named_with_the_known_ones(shop):
    with pytest.raises(UsageError, match="pipeline shop has no step 'x'; its steps are: facts"):
        shop.find("x")
    with pytest.raises(UsageError, match="its steps are: none"):
        Pipeline("empty", grain=Day).find("x")


@pytest.mark.parametrize(
    ("name", "how", "sentence"),
    [
        ("shop", {"grain": Day, "time_zone": "Mars/Phobos"}, "unknown time zone 'Mars/Phobos': use a name such as UTC"),
        ("shop", {"grain": Day, "time_zone": None}, "unknown time zone None"),
        ("shop", {"grain": "day"}, "grain must be QuarterHour, Hour, Day, Week or Month"),
        ("shop", {"grain": Day("day")}, "grain must be QuarterHour, Hour, Day, Week or Month"),
        ("my shop", {"grain": Day}, "pipeline name 'my shop': use letters, digits, - and _, starting with a letter"),
        ("", {"grain": Day}, "pipeline name ''"),
        (5, {"grain": Day}, "pipeline name 5"),
    ],
)
def test_a_wrong_pipeline_is_refused(name, how, sentence):
    with pytest.raises(DefinitionError) as caught:
        Pipeline(name, **how)
    assert sentence in caught.value.message


def test_what_a_pipeline_tells_about_itself(shop):
    add(shop, "by_tenant", {"orders": raw}, out("by_tenant", dimensions=["tenant"]))
    assert repr(shop) == "Pipeline(shop, 2 steps)"
    assert shop.dimensions == {"tenant"}
    assert shop.producer(out("facts")) is shop.find("facts")
    assert shop.producer(raw) is None
    assert shop.zone.key == "Europe/Berlin"


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"wait_initial": -1}, {"deadline": -0.5}])
def test_a_retry_that_never_tries_is_refused(wrong):
    with pytest.raises(DefinitionError, match=r"must be 1 or more|0 or more"):
        Retry(**wrong)
