"""What the shop's web servers deliver: clicks as files of JSON lines, at least once, and some of them late.

A click happens once and is delivered once or twice: in the same file, in the next one, or again with the whole file
(`--again`). A late click arrives hours after it happened, so after midnight for the last ones of a day. The same day
and size give the same files on every machine.

python -m examples.shop.click_feed examples/shop/.twice/landing/web/clicks --date 2026-04-25
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

from examples.shop.dice import Dice
from examples.shop.generator import DAY_SECONDS, SEED, epoch_day

SCHEMA = "event_id STRING, customer_id BIGINT, page STRING, happened_at TIMESTAMP, received_at TIMESTAMP"
PAGES = ("home", "search", "product", "cart", "checkout")
FILES_PER_DAY = 4
# Of 100 clicks 5 come twice in one file, 5 come again in the next one, 4 come some files later.
_IN_SAME_FILE, _IN_NEXT_FILE, _LATE = 5, 10, 14
_LATEST = 3  # files

Click = Mapping[str, object]


def distinct_clicks(day: date, clicks: int, seed: int = SEED) -> dict[str, Click]:
    """Return every click of a day once, by its id, without the time at which it was received."""
    dice, start = Dice(seed), epoch_day(day)
    found: dict[str, Click] = {}
    for number in range(clicks):
        happened = start * DAY_SECONDS + number * DAY_SECONDS // clicks
        event_id = f"{day:%Y%m%d}-{number}"
        found[event_id] = {
            "event_id": event_id,
            "customer_id": dice.roll("click customer", 500, start, number) + 1,
            "page": PAGES[dice.roll("page", len(PAGES), start, number)],
            "happened_at": _moment(happened),
        }
    return found


def deliveries(day: date, clicks: int, seed: int = SEED) -> list[list[Click]]:
    """Return what is delivered about a day, file by file; the last files come on the next day."""
    dice, start = Dice(seed), epoch_day(day)
    files: list[list[Click]] = [[] for _ in range(FILES_PER_DAY + _LATEST)]
    for number, click in enumerate(distinct_clicks(day, clicks, seed).values()):
        first = number * FILES_PER_DAY // clicks
        for file in _files_of(dice.roll("redelivered", 100, start, number), first):
            received = start * DAY_SECONDS + (file + 1) * DAY_SECONDS // FILES_PER_DAY + len(files[file])
            files[file].append({**click, "received_at": _moment(received)})
    return files


def write_files(folder: Path, day: date, clicks: int, *, again: int = 0) -> list[Path]:
    """Put the deliveries of a day into a folder, each file at once; `again` is how often they came before."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number, events in enumerate(filter(None, deliveries(day, clicks))):
        file = folder / f"{day}-{again}-{number}.json"
        partial = folder / f".{file.name}"  # names with a dot are not read
        partial.write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="utf-8")
        written.append(partial.rename(file))
    return written


def _files_of(luck: int, first: int) -> Iterator[int]:
    """Yield the files that a click is in."""
    if luck < _IN_SAME_FILE:
        yield from (first, first)
    elif luck < _IN_NEXT_FILE:
        yield from (first, first + 1)
    elif luck < _LATE:
        yield first + _LATEST
    else:
        yield first


def _moment(seconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)).isoformat()


def main(arguments: Sequence[str] | None = None) -> int:
    """Deliver a day."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("--date", type=date.fromisoformat, required=True, help="the day on which the clicks happened")
    parser.add_argument("--clicks", type=int, default=10_000, help="how many clicks that day has")
    parser.add_argument("--again", type=int, default=0, metavar="N", help="deliver the day for the N-th time again")
    args = parser.parse_args(arguments)
    files = write_files(args.folder, args.date, args.clicks, again=args.again)
    print(f"{len(files)} files in {args.folder}: {args.clicks:,} clicks, some of them twice, some of them late")
    return 0


if __name__ == "__main__":
    sys.exit(main())
