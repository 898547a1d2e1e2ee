"""`make mutants`: who finds which mutant, and what the checks say about healthy pipelines; the last line is JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants import healthy
from tests.mutants.catalogue import CONTRACT, MUTANTS, REFUSED
from tests.mutants.shop import Shop
from tests.support import servers
from twice.verify.checks import ALL
from twice.verify.running import Request, make, prepared

HEALTHY = [*healthy.PIPELINES, "shop"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="only the mutants whose names hold one of these words")
    parser.add_argument("--healthy", nargs="*", default=None, help="only these of the healthy pipelines, or none")
    parser.add_argument("--part", default="1/1", help="2/4: the second quarter of all of them")
    asked = parser.parse_args()
    wanted = [each for each in MUTANTS if not asked.names or any(word in each.name for word in asked.names)]
    pipelines = HEALTHY if asked.healthy is None else [name for name in HEALTHY if name in asked.healthy]
    number, parts = map(int, asked.part.split("/"))
    wanted, pipelines = wanted[number - 1 :: parts], pipelines[parts - number :: parts]
    caught = earlier = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.running(servers.PostgresServer) as postgres,
        Shop.open(Path(folder), postgres.database()) as shop,
    ):
        print("| Mutant | Found by | What is said |\n|---|---|---|", flush=True)
        for mutant in wanted:
            found = shop.catch(mutant)
            caught += found.right
            earlier += found.right and found.by in (REFUSED, CONTRACT)
            by = found.by if found.right else f"**{found.by}**, not by {mutant.caught}"
            print(f"| {mutant.name} | {by} | {found.said.replace('|', '/')} |", flush=True)
            print(f"{mutant.name}: {found.seconds:.0f} s", file=sys.stderr)
        alarms = false_alarms(shop, pipelines) if pipelines else []
    found_now = {"mutants": len(wanted), "caught": caught, "refused_earlier": earlier, "false_alarms": len(alarms)}
    print(json.dumps(found_now))
    return 0 if caught == len(wanted) and not alarms else 1


def false_alarms(shop: Shop, wanted: Sequence[str]) -> list[str]:
    """Make every check on healthy pipelines; return what they find."""
    alarms: list[str] = []
    healthy.deliver(shop.production.spark)
    trials = {}
    for name, pipeline in healthy.PIPELINES.items():
        if name not in wanted:
            continue
        unit = pipeline.grain.unit(healthy.UNITS[name], pipeline.zone)
        asked = Request(unit, place=f"tests.mutants.healthy:{name}")
        trials[name] = prepared(shop.production, shop.sandbox, pipeline, asked)
    if "shop" in wanted:
        trials["shop"] = shop.trial(shop.healthy(), place="examples.shop.pipeline:shop")
    print("\n| Pipeline | Passed | Not run | Seconds |\n|---|---|---|---|", flush=True)
    for name, trial in trials.items():
        started = time.monotonic()
        outcomes = []
        for check in ALL:
            outcomes.append(make(check, trial))
            done = outcomes[-1]
            print(f"{name}: {done.check} {done.status} {time.monotonic() - started:.0f} s", file=sys.stderr)
        alarms += [f"{name}: {finding.what}" for outcome in outcomes for finding in outcome.findings]
        by = {status: [each.check for each in outcomes if each.status == status] for status in ("passed", "not run")}
        took = time.monotonic() - started
        print(f"| {name} | {', '.join(by['passed'])} | {', '.join(by['not run'])} | {took:.0f} |", flush=True)
    for alarm in alarms:
        print(f"false alarm: {alarm}", flush=True)
    return alarms


if __name__ == "__main__":
    sys.exit(main())
