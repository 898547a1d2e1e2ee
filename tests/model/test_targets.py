"""S05: a table's share of a run is made of whole partitions."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twice import Day, Hour, Merge, Month, Overwrite, QuarterHour, Scope, Table, Week, Window
from twice.errors import UsageError
from twice.model.targets import Target

UTC = timezone.utc
ZONES = [
    ZoneInfo(name)
    for name in ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia", "Atlantic/Azores")
]


def target(grain, window, zone, *, dimensions=(), **fixed) -> Target:
    table = Table("lake.core.t", partition=grain("p"), dimensions=dimensions, write=Overwrite())
    return Target.of(table, Scope.of(window, fixed), zone)


@settings(deadline=None)
@given(
    st.sampled_from([QuarterHour, Hour, Day, Week, Month]),
    st.sampled_from(ZONES),
    st.datetimes(datetime(2011, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    st.integers(1, 30),
)
def test_every_value_of_the_scope_finds_its_partition_and_no_other_does(grain, zone, instant, count):
    start = end = grain.floor(instant, zone)
    for _ in range(count):
        end = grain.next(end, zone)
    share = target(grain, Window(start, end), zone)
    assert len(share.partitions) == count
    for partition in share.partitions:
        assert share.partition_of(share.value(partition), ()) == partition
    low, high = share.bounds()
    assert low == share.value(share.partitions[0])
    assert all(low <= share.value(partition) < high for partition in share.partitions)
    before = grain.value(grain.floor(start - timedelta(seconds=1), zone), zone)
    assert before < low
    assert share.partition_of(before, ()) is None
    assert share.partition_of(high, ()) is None
    assert share.partition_of(None, ()) is None


def test_s05_a_day_over_a_15_minute_table_is_96_whole_partitions():
    utc, berlin = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
    assert len(target(QuarterHour, Day.unit("2026-04-25", utc), utc).partitions) == 96
    assert len(target(QuarterHour, Day.unit("2026-03-29", berlin), berlin).partitions) == 92
    assert len(target(QuarterHour, Day.unit("2026-10-25", berlin), berlin).partitions) == 100


def test_s05_a_window_off_the_tables_grain_is_refused():
    utc = ZoneInfo("UTC")
    with pytest.raises(UsageError, match=r"the end of .* is not a boundary of the grain day in UTC"):
        target(Day, Hour.unit("2026-04-25T00:00", utc), utc)


def test_instants_are_compared_as_instants():
    utc = ZoneInfo("UTC")
    share = target(Hour, Hour.unit("2026-04-25T13:00", utc), utc)
    (only,) = share.partitions
    assert share.partition_of(datetime(2026, 4, 25, 15, tzinfo=ZoneInfo("Europe/Berlin")), ()) == only
    assert share.partition_of(only.window.start.astimezone().replace(tzinfo=None), ()) == only  # as Spark collects it
    assert share.partition_of(datetime(2026, 4, 25, 13, 30, tzinfo=UTC), ()) is None
    assert share.name(only) == "2026-04-25T13:00"


def test_a_row_of_another_tenant_or_of_none_is_not_ours():
    utc = ZoneInfo("UTC")
    window, day = Day.unit("2026-04-25", utc), date(2026, 4, 25)
    acme = target(Day, window, utc, dimensions=["tenant"], tenant="acme")
    everyone = target(Day, window, utc, dimensions=["tenant"])
    assert acme.partition_of(day, ["acme"]) == acme.partitions[0]
    assert acme.partition_of(day, ["bolt"]) is None
    assert acme.partition_of(day, [None]) is None
    assert everyone.partition_of(day, ["bolt"]) == everyone.partitions[0]
    assert everyone.partition_of(day, [None]) is None
    assert acme.name(acme.partitions[0]) == "2026-04-25 tenant=acme"


def test_a_table_without_partition_is_one_partition():
    utc = ZoneInfo("UTC")
    table = Table("lake.core.t", key=["id"], write=Merge(version="v"))
    share = Target.of(table, Scope.of(Day.unit("2026-04-25", utc)), utc)
    assert share.partitions == (Scope.of(None),)
    assert share.partition_of(None, ()) == share.partitions[0]
    assert (share.bounds(), share.value(share.partitions[0])) == (None, None)
    assert share.name(share.partitions[0]) == "whole table"
