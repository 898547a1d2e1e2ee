"""The swap: what a publish decided is carried out by the first process that finds it, and each move happens once.

Every process may do the same moves at the same time, and one that was stopped may wake up after all of
them are done, or after the next publish. Two things keep that harmless. What comes in leaves the staging folder,
so it comes in once. What goes aside goes to a place of its own below `aside/TOKEN`, which is taken after
the first time and gone after the last: a second attempt is refused by the file system itself.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from twice.errors import StoreRefused, TransientError
from twice.failpoints import fail_point
from twice.store.parquet.listing import join

if TYPE_CHECKING:
    from twice.store.parquet.folder import Folder
    from twice.store.parquet.log import State

_TRIES = 10


def settle(folder: Folder) -> State | None:
    """Return the last entry of the log, after finishing what it decided; None if there is no log."""
    head = folder.log.head()
    if head is not None and head.author is not None and folder.files.exists(folder.aside(head.author)):
        finish(folder, head)
    return head


def finish(folder: Folder, state: State) -> None:
    """Carry an entry's moves out."""
    assert state.author is not None  # noqa: S101 - only a publish has moves
    files, aside = folder.files, folder.aside(state.author)
    for number, move in enumerate(state.moves):
        place = join(folder.data, move.path)
        if move.had:
            put_aside(folder, place, f"{aside}/{number}")
            fail_point("parquet.moved_aside")
        if move.new:
            _bring_in(folder, join(folder.rows(state.author), move.path), place)
            fail_point("parquet.moved_in")
    for above in sorted({join(folder.data, move.path).rpartition("/")[0] for move in state.moves}):
        files.sync(above)
    files.sync(aside)
    _retire(folder, aside, str(state.author))
    fail_point("parquet.swapped")
    clean(folder, state.author)
    folder.log.tidy(state.number)


def clean(folder: Folder, token: int) -> None:
    """Remove what belongs to a claim that has ended, and what waits to be removed."""
    files = folder.files
    _retire(folder, folder.aside(token), str(token))
    files.remove(folder.stage(token))
    for entry in files.entries(folder.trash):
        files.remove(f"{folder.trash}/{entry.name}")


def put_aside(folder: Folder, place: str, aside: str) -> None:
    """Move a folder out of its place, unless that was done before."""
    try:
        folder.files.move(place, aside)
    except (FileExistsError, FileNotFoundError):
        return  # another process has done it, or even the whole swap


def _bring_in(folder: Folder, staged: str, place: str) -> None:
    files = folder.files
    for _ in range(_TRIES):
        if not files.exists(staged):
            return  # another process has done it
        files.make(place.rpartition("/")[0])
        try:
            files.move(staged, place)
        except FileNotFoundError:
            continue  # done by another process, or the folder above was removed meanwhile
        except FileExistsError:
            if files.exists(staged):
                raise StoreRefused(
                    f"{folder.table.name}: another process wrote to {place} during a publish",
                    unchanged=f"the files of the other process are kept; the rows to publish are in {staged}",
                    next_step="move the other files away: the next run finishes the publish",
                ) from None
        return
    raise TransientError(f"{folder.table.name}: {place} is removed repeatedly by another process")


def _retire(folder: Folder, path: str, name: str) -> None:
    """Take a folder out of its place in one step: while it is emptied there, moves into it would succeed."""
    if not folder.files.exists(path):
        return
    folder.files.make(folder.trash)
    try:
        folder.files.move(path, f"{folder.trash}/{name}-{uuid.uuid4().hex}")
    except FileNotFoundError:
        return  # another process has done it
    folder.files.sync(path.rpartition("/")[0])
