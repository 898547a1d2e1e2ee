"""What the guard of an effect costs: keys are claimed and confirmed in the batches of a run, nothing is called.

    python bench/effects.py [--keys 10000]

The last line is one JSON object: milliseconds per key, in SQLite and in Postgres, the better of two rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support import servers
from twice import hours
from twice.effects import Retry
from twice.effects.driving import Due, drive
from twice.effects.policies import Policy
from twice.ledger import Subject, Wanted, open_ledger

ROUNDS = 2


@contextmanager
def urls() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder, servers.running(servers.PostgresServer) as server:
        yield {"sqlite": f"sqlite:///{folder}/ledger.db", "postgres": server.database()}


def measure(url: str, keys: int, name: str) -> float:
    ledger = open_ledger(url)
    due = [
        Due(Wanted(Subject("bench", name, business_key=str(number)), "f", "{}"), lambda key: {"key": key})
        for number in range(keys)
    ]
    started = time.perf_counter()
    states = {paid.record.state for paid in drive(ledger, due, Policy(Retry(valid_for=hours(24), then="ask")))}
    took = time.perf_counter() - started
    if states != {"confirmed"}:
        raise SystemExit(f"not all were confirmed: {states}")
    return took * 1000 / keys


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=10_000)
    keys = parser.parse_args().keys
    found = {}
    with urls() as places:
        for kind, url in places.items():
            rounds = [measure(url, keys, f"round{number}") for number in range(ROUNDS)]
            print(f"{kind}: {', '.join(f'{one:.3f}' for one in rounds)} ms per key")
            found[f"ms_per_key_{kind}"] = round(min(rounds), 3)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
