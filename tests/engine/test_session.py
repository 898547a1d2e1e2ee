"""Sessions for steps and commands: opened in one place, so that any thread may have one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import twice
from twice.engine.spark.session import fresh


@pytest.mark.parametrize("active", [False, True])
def test_a_thread_without_an_active_session_gets_one_before_its_own_is_opened(active):
    happened: list[str] = []
    sessions = SimpleNamespace(
        getActiveSession=lambda: SimpleNamespace(isEmpty=lambda: not active),
        setActiveSession=lambda _: happened.append("activated"),
    )
    java = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(sql=None))))
    java.org.apache.spark.sql = SimpleNamespace(SparkSession=sessions)
    conf = SimpleNamespace(set=lambda name, value: happened.append(f"{name}={value}"))

    def opened() -> SimpleNamespace:
        happened.append("opened")
        return SimpleNamespace(conf=conf)

    spark = SimpleNamespace(_jvm=java, _jsparkSession=None, newSession=opened)
    fresh(spark, "Europe/Berlin")  # type: ignore[arg-type]
    expected = ["opened", "spark.sql.session.timeZone=Europe/Berlin"]
    assert happened == (expected if active else ["activated", *expected])


def test_sessions_are_opened_in_one_place():
    engine = Path(twice.__file__).parent / "engine"
    openers = [file.name for file in sorted(engine.rglob("*.py")) if "newSession()" in file.read_text()]
    assert openers == ["session.py"]
