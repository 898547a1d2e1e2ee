import signal, sys
import pytest
from tests.crash import jobs
from tests.crash.world import DAY, END
pytestmark = [pytest.mark.spark, pytest.mark.crash]

def state(spark, what):
    c = spark._jvm.org.apache.spark.sql.classic.SparkSession
    a, d = c.getActiveSession(), c.getDefaultSession()
    t = spark._jvm.java.lang.Thread.currentThread().getName()
    f = lambda o: (o.get().toString()[-10:], o.get().conf().getOption("spark.sql.catalog.lake").isDefined()) if o.isDefined() else None
    print("STATE", what, t, f(a), f(d), file=sys.stderr)

def test_exp(lasting, tmp_path):
    world = lasting("overwrite")
    state(world.spark, "seeded")
    world.land_next()
    go = tmp_path / "go"
    child = world.child(DAY, END, kind="slow", hold=str(go))
    jobs.wait_for(f"{go}.reached")
    state(world.spark, "reached")
    child.send(signal.SIGINT)
    end = child.end()
    state(world.spark, "ended")
    go.touch()
    print(end, file=sys.stderr)
    assert world.tidy()
    world.look()
    state(world.spark, "looked")
    try:
        world.run()
    finally:
        state(world.spark, "ran")
    assert 0
