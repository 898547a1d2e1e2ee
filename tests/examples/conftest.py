"""A payments provider for each test, and a time that passes only when somebody waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.payments_api.charges import Charges
from examples.payments_api.provider import Provider
from examples.payments_api.server import listening
from examples.payments_api.trouble import Limit, Trouble
from twice.config import Config, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class PatientTime:
    """Stands in for the module `time`: a wait takes no time, but is known to everybody."""

    at: float = 1_000.0
    waits: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += seconds


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> PatientTime:
    """The time of the client; give `patient.monotonic` to a server's limit to let it see the same."""
    found = PatientTime()
    monkeypatch.setattr("examples.shop.payments_client.time", found)
    return found


@dataclass
class Providers:
    """Starts payment providers, and points the client's environment to the last one."""

    patient: PatientTime
    monkeypatch: pytest.MonkeyPatch
    stack: ExitStack

    def start(
        self,
        *,
        orders: int,
        customers: int = 50,
        trouble: Trouble | None = None,
        per_second: float = 1_000.0,
        burst: int = 1_000,
        key: str = "",
        unpaid: int = 0,
    ) -> Provider:
        limit = Limit(per_second, burst, self.patient.monotonic)
        provider = Provider(Charges(orders, customers, unpaid=unpaid), trouble or Trouble(), limit, key)
        server = self.stack.enter_context(listening(provider))
        self.monkeypatch.setenv("PAYMENTS_API_URL", server.url)
        return provider


@pytest.fixture
def providers(patient: PatientTime, monkeypatch: pytest.MonkeyPatch) -> Iterator[Providers]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("PAYMENTS_API_KEY", raising=False)
    with ExitStack() as stack:
        yield Providers(patient, monkeypatch, stack)


@pytest.fixture
def shop_config(spark: SparkSession, lakehouse: Path, tmp_path: Path) -> Config:
    """The shop's stores: the lake of this test process, a ledger and a serving database of the test's own."""
    file = tmp_path / "twice.toml"
    file.write_text(
        f"""
        [ledger]
        url = "sqlite:///ledger.db"
        [stores.lake]
        type = "iceberg"
        warehouse = "{lakehouse}/warehouse"
        catalog = "sqlite:///{lakehouse}/catalog.db"
        [stores.serving]
        type = "sql"
        url = "sqlite:///serving.db"
        [stores.landing]
        type = "files"
        path = "landing"
        format = "json"
        """
    )
    return load(file)
