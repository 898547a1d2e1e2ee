"""Audit many files: on all cores, with a cache, within bounds of time per file."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn

from twice.audit.auditing import FileResult, audit_text
from twice.audit.cache import Cache, digest, file_digest
from twice.audit.config import AuditConfig
from twice.audit.files import LARGEST, decode, is_test_file, shown_path
from twice.audit.findings import Finding, Severity
from twice.audit.languages.reading import prepare
from twice.audit.places import Place
from twice.audit.rules import rules

Progress = Callable[[int, int], None]
SECONDS_PER_FILE = 20
_BATCH = 6  # few, so that no worker is left with a long one when the other workers are done
_FEW = 16


@dataclass
class Audited:
    """What an audit found, file by file, in the order of their paths."""

    results: list[FileResult] = field(default_factory=list)
    from_cache: int = 0

    @property
    def findings(self) -> list[Finding]:
        """All findings, ordered by place."""
        return sorted((one for result in self.results for one in result.findings), key=Finding.sort_key)


@dataclass(frozen=True)
class _Answer:
    path: str
    content: str
    neighbours: dict[str, str]
    result: FileResult
    lasting: bool = True  # False: another time it may go better


class TookTooLong(BaseException):
    """A file took more time than one file may take."""


def audit_files(
    files: Sequence[Path],
    config: AuditConfig,
    *,
    processes: int | None = None,
    use_cache: bool = True,
    progress: Progress | None = None,
) -> Audited:
    """Audit files; what is known from last time is not read again."""
    cache = Cache.open(config.root, config.fingerprint()) if use_cache else Cache(None)
    audited = Audited()
    todo: list[Path] = []
    for file in files:
        known = _known(file, config, cache)
        if known is not None:
            audited.results.append(known)
            audited.from_cache += 1
        else:
            todo.append(file)
    done = len(audited.results)
    try:
        for answer in _answers(todo, config, processes):
            audited.results.append(answer.result)
            if answer.lasting and answer.content:
                cache.put(answer.path, answer.content, answer.neighbours, answer.result)
            done += 1
            if progress is not None:
                progress(done, len(files))
    finally:
        cache.save()
    audited.results.sort(key=lambda result: result.path)
    return audited


def _known(file: Path, config: AuditConfig, cache: Cache) -> FileResult | None:
    if not cache.entries:
        return None
    path = shown_path(file, config.root)
    if path not in cache.entries:
        return None
    content = file_digest(file)
    test = is_test_file(file, path, config)
    return cache.get(path, _judged(content, test=test), file.parent) if content else None


def _judged(content: str, *, test: bool) -> str:
    """Mark the content of test code: the same file is judged when another folder is given."""
    return f"{content} test" if test else content


def _answers(files: Sequence[Path], config: AuditConfig, processes: int | None) -> Iterator[_Answer]:
    count = processes or _cores()
    if len(files) <= _FEW or count == 1:
        with _quick_memory():
            for batch in _batches(files):
                yield from _audit_batch(batch, config)
        return
    batches = _batches(files)
    rules()  # reporting the findings needs them too: loaded before the processes start, they are loaded once
    with ProcessPoolExecutor(count, initializer=_begin) as pool:
        waiting: dict[Future[list[_Answer]], Sequence[Path]] = {}
        try:
            while batches or waiting:
                while batches and len(waiting) < 3 * count:
                    batch = batches.pop(0)
                    waiting[pool.submit(_audit_batch, batch, config)] = batch
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    batch = waiting.pop(future)
                    try:
                        yield from future.result()
                    except BrokenProcessPool:
                        # A worker died, of hunger for memory most likely: say so for what it had in hand.
                        for lost in (batch, *waiting.values(), *batches):
                            yield from (_lost(file, config) for file in lost)
                        return
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _batches(files: Sequence[Path]) -> list[Sequence[Path]]:
    return [files[start : start + _BATCH] for start in range(0, len(files), _BATCH)]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _begin() -> None:
    """Prepare a worker: Ctrl-C is the parent's business, and its garbage is freed between batches."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()
    prepare()
    rules()
    gc.collect()
    gc.freeze()  # what is loaded now stays


def _audit_batch(files: Sequence[Path], config: AuditConfig) -> list[_Answer]:
    answers = [_audit_file(file, config) for file in files]
    gc.collect(0)  # only what is new since the last time: what was kept then (caches, mostly) stays anyway
    return answers


@contextmanager
def _quick_memory() -> Iterator[None]:
    """Trees are made and dropped as a whole: collecting while they grow only costs time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _audit_file(file: Path, config: AuditConfig) -> _Answer:
    path = shown_path(file, config.root)
    neighbours: dict[str, str] = {}
    try:
        data = file.read_bytes()
    except OSError as error:
        what = "folder" if os.path.isdir(file) else "file"  # noqa: PTH112 - Path's own raises for some
        return _Answer(path, "", {}, _unreadable(path, f"the {what} cannot be read: {error.strerror}"))
    test = is_test_file(file, path, config)
    content = _judged(digest(data), test=test)
    if len(data) > LARGEST:
        return _Answer(
            path, content, {}, _unreadable(path, f"the file is larger than {LARGEST // 1_000_000} MB and was not read")
        )
    text = decode(data)
    if text is None:
        return _Answer(path, content, {}, _unreadable(path, "the file is binary and was not read"))

    def neighbour(relative: str) -> str | None:
        other = file.parent / relative
        try:
            found = other.read_bytes()
        except OSError:
            neighbours[relative] = ""
            return None
        neighbours[relative] = digest(found)
        return decode(found)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 4000))
    try:
        with _time_limit(SECONDS_PER_FILE):
            result = audit_text(path, text, config, neighbour, test=test)
    except (TookTooLong, RecursionError, MemoryError) as error:
        why = (
            f"took more than {SECONDS_PER_FILE} s"
            if isinstance(error, TookTooLong)
            else f"is too much for one reading ({type(error).__name__})"
        )
        return _Answer(path, content, {}, _unreadable(path, f"the file {why} and was left"), lasting=False)
    finally:
        sys.setrecursionlimit(limit)
    return _Answer(path, content, neighbours, result)


def _lost(file: Path, config: AuditConfig) -> _Answer:
    path = shown_path(file, config.root)
    return _Answer(
        path, "", {}, _unreadable(path, "the process that read the file was killed, most likely for lack of memory")
    )


def _unreadable(path: str, message: str) -> FileResult:
    from twice.audit.auditing import UNREADABLE

    finding = Finding(
        UNREADABLE, Severity.WARNING, Place(1), message, instead="read it by hand, or leave it out (exclude)", path=path
    )
    return FileResult(path, (finding,))


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """Raise TookTooLong after some time on a processor, where signals can do that."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def late(_number: int, _frame: FrameType | None) -> NoReturn:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
