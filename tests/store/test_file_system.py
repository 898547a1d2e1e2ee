"""What the store asks of a file system: the same answers from a local disk and from Hadoop's client."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from twice.errors import EnvironmentProblem, StoreRefused, TransientError
from twice.store.file_system import Entry, LocalFiles, problem


@pytest.fixture(params=["local", pytest.param("hadoop", marks=pytest.mark.spark)])
def files(request, tmp_path):
    if request.param == "local":
        return LocalFiles()
    from twice.store.hadoop import HadoopFiles

    return HadoopFiles(request.getfixturevalue("spark"), f"file://{tmp_path}")


def test_a_file_is_written_read_and_emptied(files, tmp_path):
    path = f"{tmp_path}/a/b/entry.json"
    assert files.read(path) is None
    files.make(f"{tmp_path}/a/b")
    files.write(path, "Zoë ☃\n")
    assert files.read(path) == "Zoë ☃\n"
    files.sync(path)
    files.sync(f"{tmp_path}/a/b")
    files.clear(path)
    assert files.read(path) == ""
    assert files.exists(path)
    with pytest.raises(TransientError):
        files.write(path, "again")


def test_a_folder_is_listed_with_sizes_and_times(files, tmp_path):
    assert files.entries(f"{tmp_path}/nothing") == []
    files.make(f"{tmp_path}/t/d=1")
    files.write(f"{tmp_path}/t/part", "four")
    folder, file = (entry for entry in files.entries(f"{tmp_path}/t") if not entry.hidden)
    assert (folder.name, folder.is_folder) == ("d=1", True)
    assert (file.name, file.is_folder, file.size) == ("part", False, 4)
    seen = file.changed
    files.move(f"{tmp_path}/t", f"{tmp_path}/u")
    assert [entry.changed for entry in files.entries(f"{tmp_path}/u") if entry.name == "part"] == [seen]


@pytest.mark.parametrize(
    ("name", "hidden"), [("_SUCCESS", True), (".x.crc", True), ("_v=1", False), (".v=1", True), ("part-0", False)]
)
def test_readers_pass_over_the_same_names_as_spark(name, hidden):
    assert Entry(name, False, 1, 1).hidden is hidden


def test_a_folder_moves_once_and_never_over_another(files, tmp_path):
    files.make(f"{tmp_path}/a")
    files.write(f"{tmp_path}/a/1", "x")
    files.make(f"{tmp_path}/b")
    files.move(f"{tmp_path}/a", f"{tmp_path}/b")  # an empty folder is no obstacle
    assert files.read(f"{tmp_path}/b/1") == "x"
    with pytest.raises(FileNotFoundError):
        files.move(f"{tmp_path}/a", f"{tmp_path}/c")
    files.make(f"{tmp_path}/a")
    files.write(f"{tmp_path}/a/2", "y")
    with pytest.raises(FileExistsError):
        files.move(f"{tmp_path}/a", f"{tmp_path}/b")
    with pytest.raises(FileNotFoundError):
        files.move(f"{tmp_path}/a", f"{tmp_path}/gone/b")
    assert files.read(f"{tmp_path}/a/2") == "y"
    assert files.read(f"{tmp_path}/b/1") == "x"


def test_a_folder_is_removed_and_may_be_gone_already(files, tmp_path):
    files.make(f"{tmp_path}/a/b/c")
    files.write(f"{tmp_path}/a/b/1", "x")
    files.remove(f"{tmp_path}/a")
    files.remove(f"{tmp_path}/a")
    assert not files.exists(f"{tmp_path}/a")


def test_of_many_that_want_one_place_one_succeeds(tmp_path):
    files = LocalFiles()
    for number in range(20):
        for worker in range(4):
            files.make(f"{tmp_path}/{number}-{worker}")
            files.write(f"{tmp_path}/{number}-{worker}/entry", str(worker))

        def take(worker, number=number):
            try:
                files.move(f"{tmp_path}/{number}-{worker}", f"{tmp_path}/place-{number}")
            except FileExistsError:
                return 0
            return 1

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(take, range(4))) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, EnvironmentProblem),
        (errno.EDQUOT, EnvironmentProblem),
        (errno.EACCES, StoreRefused),
        (errno.EROFS, StoreRefused),
        (errno.ENAMETOOLONG, StoreRefused),
        (errno.EIO, TransientError),
        (errno.ESTALE, TransientError),
    ],
)
def test_what_a_disk_refuses_says_what_to_do(code, kind):
    found = problem(OSError(code, os.strerror(code)), "/data/t")
    assert type(found) is kind
    assert os.strerror(code) in found.message
    assert found.unchanged
    assert found.next_step


def test_a_mistake_in_twice_is_not_taken_for_an_occupied_target():
    from twice.store.hadoop import HadoopFiles

    class Occupied(HadoopFiles):
        def __init__(self) -> None:
            """Without Hadoop's client: to use it is the mistake."""

        def entries(self, path: str) -> list[Entry]:
            return [Entry("part-0", False, 1, 1)]

    with pytest.raises(AttributeError):
        Occupied().move("a", "b")
