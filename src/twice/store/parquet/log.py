"""The table's log: numbered entries, each of which is written by exactly one process.

An entry is a folder that moves to its number in one step, and a number that is taken cannot be taken
again. So the process that makes an entry has seen the one before it, and of two processes that would follow
the same entry one fails and looks again. The last entry holds the whole state: the version, the columns,
which claims have ended and how. Numbers are never reused: old entries are emptied, not removed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from twice.errors import StoreRefused
from twice.store.file_system import Files

_FORMAT = 1
_ENDED = 200
_KEPT = 20
_FILE = "entry.json"


@dataclass(frozen=True)
class Move:
    """One folder of the swap: what is there goes aside, what is staged comes in."""

    path: str
    had: bool
    new: bool


@dataclass(frozen=True)
class State:
    """The content of an entry. `ended`: by token, the version that a claim published, or None if it was fenced.

    `stands`: "new" until the first attempt succeeds, "gone" if it failed instead: then there is no table.
    """

    number: int
    version: int
    schema: str
    token: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    ended: Mapping[int, int | None] = field(default_factory=dict)
    author: int | None = None
    moves: tuple[Move, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    stands: str = "yes"

    def following(self) -> State:
        """Return the entry that would follow if nothing changed."""
        return replace(self, number=self.number + 1, author=None, moves=(), notes={})

    def ending(self, token: int, version: int | None) -> State:
        """Return the same with a claim's end in it; of very old claims only the ledger knows."""
        others = [(known, how) for known, how in self.ended.items() if known != token]
        # By the order in which they ended: a slow claim with an old number is remembered as long as any other.
        ended = dict([*others, (token, version)][-_ENDED:])
        return replace(self, token=max(self.token, token), ended=ended)

    def remembering(self, remember: Mapping[str, str]) -> State:
        """Return the same with more properties."""
        return replace(self, properties={**self.properties, **remember})

    def to_text(self) -> str:
        """Write the entry."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, ensure_ascii=True, indent=1)

    @classmethod
    def from_text(cls, text: str, where: str) -> State:
        """Read an entry."""
        try:
            found = json.loads(text)
        except ValueError:
            raise StoreRefused(
                f"the last entry of {where} is damaged",
                unchanged="nothing was changed",
                next_step="restore the folder from a backup, together with the table's",
            ) from None
        if found.pop("format") != _FORMAT:
            raise StoreRefused(
                f"{where} was written by a newer version of twice",
                unchanged="nothing was changed",
                next_step="pip install -U twice",
            )
        found["ended"] = {int(token): version for token, version in found["ended"].items()}
        found["moves"] = tuple(Move(**move) for move in found["moves"])
        return cls(**found)


class Log:
    """The entries of one table."""

    def __init__(self, files: Files, folder: str, known: dict[str, int] | None = None) -> None:
        self._files, self._folder = files, folder
        # The last number seen, by table: the search for a newer one starts there.
        self._known = {} if known is None else known

    def head(self) -> State | None:
        """Return the last entry; None if there is no log."""
        while True:
            number = self._last()
            if number is None:
                return None
            text = self._files.read(f"{self._entry(number)}/{_FILE}")
            if text:
                return State.from_text(text, self._folder)
            if text is None and not self._files.exists(self._entry(number)):
                self._known.pop(self._folder, None)  # an external process dropped the table

    def commit(self, state: State) -> bool:
        """Make the entry; False if its number is taken."""
        prepared = f"{self._work}/{state.number}-{uuid.uuid4().hex}"
        self._files.make(self._entries)
        self._files.make(prepared)
        try:
            self._files.write(f"{prepared}/{_FILE}", state.to_text())
            self._files.sync(prepared)
            self._files.move(prepared, self._entry(state.number))
        except FileExistsError:
            self._files.remove(prepared)
            return False
        except FileNotFoundError:  # the process that took the number cleaned up
            return False
        self._files.sync(self._entries)
        return True

    def tidy(self, number: int) -> None:
        """Remove what was prepared for numbers that are taken, and empty an old entry."""
        for entry in self._files.entries(self._work):
            meant = entry.name.partition("-")[0]
            if meant.isdecimal() and int(meant) <= number:
                self._files.remove(f"{self._work}/{entry.name}")
        if number >= _KEPT:
            self._files.clear(f"{self._entry(number - _KEPT)}/{_FILE}")

    @property
    def _entries(self) -> str:
        return f"{self._folder}/log"

    @property
    def _work(self) -> str:
        return f"{self._folder}/work"

    def _entry(self, number: int) -> str:
        return f"{self._entries}/{number}"

    def _last(self) -> int | None:
        """Find the last number by doubling steps and halving: there is no gap."""
        low = self._known.get(self._folder, 0)
        if not self._files.exists(self._entry(low)):
            self._known.pop(self._folder, None)
            return None if low == 0 else self._last()
        step = 1
        while self._files.exists(self._entry(low + step)):
            low, step = low + step, 2 * step
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._files.exists(self._entry(middle)) else (low, middle)
        self._known[self._folder] = low
        return low
