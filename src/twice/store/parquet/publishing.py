"""Publish: an entry of the log decides, then the folders move.

A claim is fenced by an entry, too. Both need the number after the entry that they have seen, so a claim
that was fenced cannot publish, and one that has published cannot be fenced any more. An error while the
entry is made is unknown, not failed: the log is read before anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from twice.errors import Conflict, TwiceError
from twice.failpoints import fail_point
from twice.store import claim_errors
from twice.store.commit_loop import attempts
from twice.store.parquet import columns, listing, swap
from twice.store.parquet.folder import Folder
from twice.store.parquet.log import Move, State
from twice.store.protocol import StagedRows

if TYPE_CHECKING:
    from twice.model.scopes import Scope
    from twice.model.targets import Target

_ATTEMPTS = 60


@dataclass
class ParquetStagedRows(StagedRows):
    """A claim's folder, the scope's files when it was made, and the columns that were written into it."""

    base_files: Mapping[Scope, str] = field(default_factory=dict)
    schema: str = ""
    # A publish may have been decided: from here on only the log knows.
    tried: bool = False


def open_staging(folder: Folder, target: Target, token: int) -> ParquetStagedRows:
    """Create the claim's folder, and record what the scope holds now."""
    head = swap.settle(folder)
    if head is None or head.stands == "gone":
        raise claim_errors.dropped(folder.table)
    if token in head.ended:
        raise claim_errors.taken_over(target, token)
    folder.files.remove(folder.stage(token))
    folder.files.make(folder.rows(token))
    there = listing.fingerprints(target, listing.units(folder.files, folder.data, target))
    return ParquetStagedRows(target, token, version_of(head), base_files=there, schema=head.schema)


def publish(
    folder: Folder,
    staged: ParquetStagedRows,
    partitions: Sequence[Scope],
    notes: Mapping[str, str],
    remember: Mapping[str, str],
) -> str:
    """Replace the existing partitions by the staged ones; return the new version."""
    token, moves = staged.token, None
    for _ in _attempts():
        head = _require_open(folder, staged)
        if (landed := head.ended.get(token)) is not None:
            return str(landed)
        there = _require_unchanged(folder, staged)
        if moves is None:
            moves = _moves(folder, staged, partitions, there)
            folder.files.make(folder.aside(token))
        state = replace(
            head.following().ending(token, head.version + 1).remembering(remember),
            version=head.version + 1,
            schema=columns.together(folder.table.name, head.schema, staged.schema) if head.version else staged.schema,
            author=token,
            moves=moves,
            notes=notes,
            stands="yes",
        )
        staged.tried = True
        fail_point("parquet.ready")
        if _commit(folder, state, token):
            fail_point("parquet.journalled")
            swap.finish(folder, state)
            return str(state.version)
    raise _busy(folder)


def discard(folder: Folder, staged: ParquetStagedRows, remember: Mapping[str, str]) -> None:
    """Drop staged rows that change nothing; the claim must not have been taken over, nor the scope changed."""
    for _ in _attempts():
        head = _require_open(folder, staged)
        if staged.token not in head.ended:  # else our own end, whose answer was lost
            _require_unchanged(folder, staged)
            wanted = replace(head.following().remembering(remember), stands="yes")
            same = (wanted.properties, wanted.stands) == (head.properties, head.stands)
            if not same and not _commit(folder, wanted, None):
                continue
        swap.clean(folder, staged.token)
        return
    raise _busy(folder)


def fence(folder: Folder, token: int, *, own: bool = False, untried: bool = False) -> str | None:
    """End a claim, unless it has ended; return the version that it published, if it had.

    Our `own` claim needs no entry if its publish was never tried, and takes a table with it in which no attempt has
    succeeded, unless another one has staged rows there.
    """
    for _ in _attempts():
        head = swap.settle(folder)
        if head is None:
            return None
        if token not in head.ended:
            goes = own and head.stands == "new" and not set(folder.tokens()) - {token}
            if own and untried and not goes:
                swap.clean(folder, token)
                return None
            entry = head.following().ending(token, None)
            if not _commit(folder, replace(entry, stands="gone" if goes else entry.stands), token):
                continue
            folder.log.tidy(head.number + 1)
            head = None
        swap.clean(folder, token)
        landed = head.ended[token] if head is not None else None
        return str(landed) if landed is not None else None
    raise _busy(folder)


def version_of(state: State) -> str | None:
    """Name the version that readers see; None before the first publish."""
    return str(state.version) if state.version else None


def _commit(folder: Folder, state: State, token: int | None) -> bool:
    try:
        return folder.log.commit(state)
    except TwiceError:
        head = folder.log.head()
        if token is not None and head is not None and head.ended.get(token, -1) == state.ended.get(token, -2):
            return True  # it exists: only the answer was lost
        raise


def _require_open(folder: Folder, staged: ParquetStagedRows) -> State:
    head = swap.settle(folder)
    if head is None:
        raise Conflict(
            f"{folder.table.name} was dropped by another writer between claim and publish",
            unchanged="nothing was published",
        )
    if staged.token in head.ended and head.ended[staged.token] is None:
        raise claim_errors.taken_over(staged.target, staged.token)
    if staged.token not in head.ended and not folder.files.exists(folder.stage(staged.token)):
        # Fenced so long ago that the log no longer lists it; the run that fenced it removed its rows.
        raise claim_errors.taken_over(staged.target, staged.token)
    return head


def _require_unchanged(folder: Folder, staged: ParquetStagedRows) -> list[listing.Unit]:
    there = listing.units(folder.files, folder.data, staged.target)
    now = listing.fingerprints(staged.target, there)
    for partition, before in staged.base_files.items():
        if now[partition] != before:
            where = staged.target.name(partition)
            raise claim_errors.changed(staged.target, "its files were changed", where=where)
    return there


def _moves(
    folder: Folder, staged: ParquetStagedRows, partitions: Sequence[Scope], there: Sequence[listing.Unit]
) -> tuple[Move, ...]:
    """Return which folders are replaced and added, after everything new is on the disk."""
    wanted = set(partitions)
    rows = folder.rows(staged.token)
    units = [unit for unit in listing.units(folder.files, rows, staged.target) if unit.partition in wanted]
    folder.files.remove(f"{rows}/_temporary")  # of a write that failed and was tried again
    _keep_on_disk(folder, rows, units)
    # An empty folder does not block a move, and moved aside it would not keep its place taken.
    had = {unit.path for unit in there if unit.partition in wanted and not unit.empty}
    new = {unit.path for unit in units if not unit.empty}
    return tuple(Move(path, path in had, path in new) for path in sorted(had | new))


def _keep_on_disk(folder: Folder, rows: str, units: Sequence[listing.Unit]) -> None:
    files = [listing.join(rows, line.split("\t")[0]) for unit in units for line in unit.files]
    for path in [*files, *sorted({file.rpartition("/")[0] for file in files})]:
        folder.files.sync(path)


def _attempts() -> Iterator[bool]:
    # An entry of the log is one small file: the next try is cheap.
    return attempts(_ATTEMPTS, first_pause=0.005, longest_pause=0.2)


def _busy(folder: Folder) -> Conflict:
    return Conflict(
        f"{folder.table.name}: other runs were faster {_ATTEMPTS} times in a row",
        unchanged="nothing was published",
        next_step="run it again, with fewer runs side by side",
    )
