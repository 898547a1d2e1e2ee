from __future__ import annotations

import pytest

from twice import Day, Merge, Overwrite, Pipeline, Table

pytestmark = pytest.mark.spark


def test_smoke(lab):
    raw = Table(lab.name("raw"), partition=Day("d"))
    lab.spark.sql(
        f"create table {lab.name('raw')} (id bigint, d date, v decimal(10,2), u timestamp) using iceberg partitioned by (d)"
    )
    lab.spark.sql(
        f"insert into {lab.name('raw')} select id, date'2026-04-25' + cast(id % 3 as int), id*1.5, timestamp'2026-01-01' from range(30)"
    )
    fct = Table(lab.name("fct"), partition=Day("d"), key=["id"], write=Overwrite())
    dim = Table(lab.name("dim"), key=["id"], write=Merge(version="u"))
    mart = Table(lab.name("mart"), partition=Day("d"), key=["d"], write=Overwrite())
    p = Pipeline("p", grain=Day)

    @p.step(reads={"raw": raw}, writes=fct)
    def facts(raw):
        return raw

    @p.step(reads={"raw": raw}, writes=dim)
    def dims(raw):
        return raw.select("id", "u", "v")

    p.sql(
        "mart",
        reads={"fct": fct, "dim": dim.latest()},
        writes=mart,
        query="select d, sum(fct.v) v, max(:window_start) w, key_of(d) k from fct join dim using (id) group by d",
    )
    r = lab.run(p, "2026-04-25")
    print(r.to_json())
    assert [s.status for s in r.steps] == ["published"] * 3
    assert len(lab.rows("fct")) == 10
    assert lab.refs("fct") == ["main"]
    v = lab.versions("fct"), lab.versions("dim"), lab.versions("mart")
    r = lab.run(p, "2026-04-25")
    assert [s.status for s in r.steps] == ["unchanged"] * 3
    assert v == (lab.versions("fct"), lab.versions("dim"), lab.versions("mart"))
    r = lab.run(p, "2026-04-25", skip_fresh=True)
    assert [s.status for s in r.steps] == ["fresh"] * 3
    r = lab.run(p, from_="2026-04-25", to="2026-04-28")
    assert [s.status for s in r.steps] == ["published"] * 3
    assert len(lab.rows("fct")) == 30
    assert lab.refs("fct") == ["main"] and lab.refs("dim") == ["main"]
    assert not lab.ledger.leases()
