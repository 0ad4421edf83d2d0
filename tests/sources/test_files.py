"""Files: what a listing finds, what becomes of files that change, and the rows of each piece. No JVM."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import InvalidDefinition, InvalidParameterValue, StorageError
from headrace.sources import file_reader, files, listing
from headrace.sources.connector import Outside, Resolved, Segment
from headrace.sources.definition import OFFSET, PARTITION, Definition
from headrace.sources.file_reader import FileGone
from headrace.sources.handover import Extent, Range
from headrace.sql.statements import Include
from headrace.state.storage import LocalStorage
from headrace.types import SqlType
from tests.support.waiting import eventually

COLUMNS = (("id", SqlType("bigint")), ("word", SqlType("varchar")))


class Segments:
    """The log of a connector, in memory."""

    def __init__(self):
        self.held: dict[str, list] = {}
        self.weights: dict[str, int] = {}
        self.written = itertools.count()

    def parts(self) -> list[Segment]:
        return [Segment(path, len(entries), self.weights[path]) for path, entries in self.held.items()]

    def read(self, part: Segment) -> list:
        if part.path not in self.held:
            raise FileNotFoundError(part.path)
        return json.loads(json.dumps(self.held[part.path]))

    def append(self, entries, *, weight: int) -> None:
        path = f"{next(self.written)}"
        self.held[path], self.weights[path] = list(entries), weight

    def join(self) -> None:
        """All of them become one."""
        whole = [entry for entries in self.held.values() for entry in entries]
        path = f"{next(self.written)}"
        self.held, self.weights = {path: whole}, {path: sum(self.weights.values())}


class Source:
    def __init__(self, folder: Path, encode: str, pattern: str = "*", encode_options=(), **options: str):
        given = {"connector": "file", "path": f"{folder}/{pattern}", "settle.seconds": "3600", **options}
        self.definition = Definition(
            connector="file", columns=COLUMNS, encode=encode, encode_options=tuple(encode_options),
            include=(Include(what="file", name="file"),), options=tuple(given.items()),
        )  # fmt: skip
        files.check(self.definition)
        self.folder, self.segments = folder, Segments()
        self.open()

    def open(self) -> None:
        """As after a restart."""
        outside = Outside(segments=self.segments, storage_at=lambda root, settings: LocalStorage(root))
        self.feed = files.feed(self.definition, Resolved(starts={0: 0}), outside)

    def list(self) -> Extent:
        return self.feed.extents(fresh=True)[0]

    def read(self, start: int = 0) -> tuple[list, list]:
        """All pieces from one on: rows with their keys, and what was bad."""
        found, bad = [], []
        end = self.list().end
        for task in self.feed.tasks([Range(0, start, end)], 2) if end > start else []:
            for decoded in self.feed.reader.read(task):
                found += decoded.rows.select([PARTITION, OFFSET, "id", "word", "file"]).to_pylist()
                bad += decoded.bad
        return found, bad

    def ids(self, start: int = 0) -> list:
        return [row["id"] for row in self.read(start)[0]]


def parquet(path: Path, ids: range, **options) -> None:
    table = pa.table({"id": pa.array(ids, pa.int64()), "word": [f"w{id}" for id in ids]})
    pq.write_table(table, path, **options)


def test_parquet_files_in_the_order_they_came(tmp_path):
    parquet(tmp_path / "b.parquet", range(3))
    os.utime(tmp_path / "b.parquet", (1, 1))
    parquet(tmp_path / "a.parquet", range(3, 5))
    (tmp_path / "_scratch.parquet").write_bytes(b"")
    source = Source(tmp_path, "parquet", "*.parquet")
    found, bad = source.read()
    assert [row["id"] for row in found] == [0, 1, 2, 3, 4] and not bad
    assert [(row[PARTITION], row[OFFSET]) for row in found] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert found[0]["file"] == "b.parquet"
    parquet(tmp_path / "c.parquet", range(5, 6))
    assert source.ids(2) == [5]
    source.open()
    assert source.ids() == [0, 1, 2, 3, 4, 5]


def test_large_files_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "PIECE_ROWS", 7)
    parquet(tmp_path / "a.parquet", range(50), row_group_size=10)
    source = Source(tmp_path, "parquet")
    assert source.list().end == 8 and source.ids() == list(range(50))
    monkeypatch.setattr(listing, "PIECE_BYTES", 11)
    (tmp_path / "in").mkdir()
    lines = "".join(f'{{"id": {id}}}\n' for id in range(40))
    (tmp_path / "in" / "a.json").write_text(lines)
    source = Source(tmp_path / "in", "json")
    assert source.list().end == -(-len(lines) // 11) and source.ids() == list(range(40))


def test_large_rows_of_parquet_are_decoded_some_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(file_reader, "BATCH_BYTES", 10_000)
    rows = {"id": pa.array(range(300), pa.int64()), "word": [os.urandom(500).hex() for _ in range(300)]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet", row_group_size=200)
    source = Source(tmp_path, "parquet")
    (task,) = source.feed.tasks([Range(0, 0, source.list().end)], 1)
    batches = [each.rows for each in source.feed.reader.read(task)]
    assert max(batch.num_rows for batch in batches) <= 10
    assert [id for batch in batches for id in batch["id"].to_pylist()] == [*range(300)]


def test_files_of_lines_grow(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\n{"id": 2}\n{"id"')
    source = Source(tmp_path, "json")
    assert source.ids() == [1, 2]
    assert source.ids(1) == []
    with path.open("a") as more:
        more.write(': 3}\n\n{"id": 4}\r\n')
    assert source.ids(1) == [3, 4]
    source.open()
    with path.open("a") as more:
        more.write('{"id": 5}\n')
    assert source.ids() == [1, 2, 3, 4, 5]


def test_the_same_file_twice(tmp_path):
    """Listed again it is the one that is known; under another name it is another one, whatever is in it."""
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\n')
    source = Source(tmp_path, "json")
    for _ in range(3):
        assert source.list() == Extent(0, 1)
    (tmp_path / "b.json").write_text(path.read_text())
    os.rename(path, tmp_path / "c.json")
    assert sorted(row["file"] for row in source.read(1)[0]) == ["b.json", "c.json"]
    os.rename(tmp_path / "c.json", path)  # it is known, and as it was
    assert source.list().end == 3


def test_the_last_line_need_not_end_if_nobody_writes_any_more(tmp_path):
    (tmp_path / "a.csv").write_text("id,word\n1,a\n2,b")
    source = Source(tmp_path, "csv")
    assert source.ids() == [1]
    source = Source(tmp_path, "csv", **{"settle.seconds": "0"})
    os.utime(tmp_path / "a.csv", (1, 1))
    assert source.ids() == [1, 2]


def test_a_file_that_is_written_anew_is_left_alone(tmp_path, caplog):
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    source = Source(tmp_path, "json")
    assert source.ids() == [1, 2]
    path.write_text('{"id": 9}\n{"id": 8}\n{"id": 7}\n')
    assert source.ids(1) == [] and "written anew" in caplog.text
    path.write_text('{"id": 9}\n')
    assert source.ids(1) == [] and "shorter" in caplog.text
    other = tmp_path / "p"
    other.mkdir()
    parquet(other / "a.parquet", range(2))
    source = Source(other, "parquet")
    assert source.ids() == [0, 1]
    parquet(other / "a.parquet", range(5))
    assert source.ids(1) == []


def test_half_written_empty_and_broken_files(tmp_path):
    parquet(tmp_path / "whole.parquet", range(100))
    data = (tmp_path / "whole.parquet").read_bytes()
    half = tmp_path / "half.parquet"
    half.write_bytes(data[:-50])
    (tmp_path / "empty.parquet").write_bytes(b"")
    parquet(tmp_path / "none.parquet", range(0))
    source = Source(tmp_path, "parquet")
    assert source.ids() == list(range(100))
    half.write_bytes(data)
    assert len(source.ids()) == 200
    # Nobody finishes it any more: then it is a bad one.
    os.utime(tmp_path / "empty.parquet", (1, 1))
    _, bad = source.read()
    assert len(bad) == 1 and "empty.parquet" in bad[0].reason


def test_parquet_that_is_damaged_is_a_bad_record_and_not_a_broken_disk(tmp_path):
    parquet(tmp_path / "whole.parquet", range(100))
    data = (tmp_path / "whole.parquet").read_bytes()
    page = tmp_path / "page.parquet"
    page.write_bytes(data[:10] + b"\xff" * 60 + data[70:])
    footer = tmp_path / "footer.parquet"
    length = int.from_bytes(data[-8:-4], "little")
    footer.write_bytes(data[: -8 - length] + b"\xff" * length + data[-8:])
    for path in (page, footer):
        with pytest.raises(OSError) as problem:
            pq.read_table(path)
        assert problem.value.errno is None, "this is how Arrow says it"
    source = Source(tmp_path, "parquet")
    assert len(source.read()[1]) == 1, "of the footer more may come"
    os.utime(footer, (1, 1))
    found, bad = source.read()
    assert [row["id"] for row in found] == list(range(100))
    assert sorted(each.reason.split(":")[0] for each in bad) == ["footer.parquet", "page.parquet"]


def rewritten(source: Source, path: Path, how) -> tuple[list, int]:
    """What a later view gets of pieces that are known, after a file has become another one: rows, and how many less."""
    end = source.list().end
    how(path)
    found = [each for task in source.feed.tasks([Range(0, 0, end)], 1) for each in source.feed.reader.read(task)]
    return [row for each in found for row in each.rows["id"].to_pylist()], sum(each.lost for each in found)


def test_what_was_written_anew_is_lost_to_later_views(tmp_path):
    """They would have other rows than the earlier ones, at the same offsets."""
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    assert rewritten(Source(tmp_path, "json"), path, lambda it: it.write_text('{"id": 3}\n{"id": 4}\n')) == ([], 1)
    head = '{"id": 0, "word": "%s"}\n' % ("x" * 400)
    path.write_text(head + '{"id": 1}\n')
    strict = Source(tmp_path, "json", **{"retention.gaps": "fail"})
    with pytest.raises(FileGone, match="a.json was written anew"):
        rewritten(strict, path, lambda it: it.write_text(head + '{"id": 2}\n{"id": 3}\n'))
    assert rewritten(Source(tmp_path, "json"), path, lambda it: it.write_text(it.read_text() + "more")) == (
        [0, 2, 3],
        0,
    )
    path.unlink()
    path = tmp_path / "a.parquet"
    parquet(path, range(10))
    assert rewritten(Source(tmp_path, "parquet"), path, lambda it: parquet(it, range(1, 11))) == ([], 10)


def test_a_file_that_is_written_anew_and_as_long_as_before_is_told(tmp_path, caplog, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\n')
    source = Source(tmp_path, "json")
    assert source.ids() == [1]
    os.utime(path, (5, 5))  # looked into once, and then no more
    source.list()
    assert "a.json was written to after it was read" in caplog.text
    with monkeypatch.context() as closed:
        closed.setattr(files.Folder, "measure", lambda *_: pytest.fail("it is known"))
        source.list()
    path.write_text('{"id": 2}\n')
    source.list()
    assert "a.json was written anew" in caplog.text


def test_what_was_changed_in_the_middle_of_a_file_is_told(tmp_path, caplog):
    """That it begins and ends as before, and is as long, does not mean that nothing has happened."""
    path = tmp_path / "a.json"
    lines = ["".join(f'{{"id": {id}}}\n' for id in ids) for ids in (range(10, 60), range(60, 90), range(10, 60))]
    path.write_text("".join(lines))
    source = Source(tmp_path, "json")
    before = source.ids()
    path.write_text(lines[0] + lines[1].replace("7", "8") + lines[2])
    os.utime(path, (5, 5))
    assert source.list().end == 1 and len(before) == 130
    assert "a.json was written to after it was read: what was read of it stays" in caplog.text


def test_a_line_that_somebody_writes_is_not_read_again_with_each_list(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text('{"id": 1, "word": "' + "x" * 500_000)
    source, read, original = Source(tmp_path, "json"), [], LocalStorage.open_input

    class Counting:
        def __init__(self, opened):
            self.opened, self.seek = opened, opened.seek

        def read(self, size):
            read.append(size)
            return self.opened.read(size)

    @contextlib.contextmanager
    def counting(self, name):
        with original(self, name) as opened:
            yield Counting(opened)

    monkeypatch.setattr(LocalStorage, "open_input", counting)
    assert source.list().end == 0 and sum(read) >= 500_000
    read.clear()
    with path.open("a") as more:
        more.write("y" * 1000)
    assert source.list().end == 0 and sum(read) == 1000
    with path.open("a") as more:
        more.write('"}\n{"id": 2}\n{')
    assert source.ids() == [1, 2]


def test_a_piece_has_the_same_lines_after_its_file_has_grown(tmp_path):
    """The last line has settled without an end, and somebody goes on writing it."""
    path = tmp_path / "a.csv"
    path.write_text("id,word\n1,a\n2,b")
    source = Source(tmp_path, "csv", **{"settle.seconds": "0"})
    os.utime(path, (1, 1))
    before = source.read()[0]
    with path.open("a") as more:
        more.write("c\n3,d\n")
    os.utime(path, (2, 2))
    found = source.read()[0]
    assert found[:2] == before and [row["id"] for row in found] == [1, 2, 3]


def test_a_file_that_is_written_to_since_it_was_listed_has_not_settled(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\n{"id"')
    os.utime(path, (1, 1))
    source = Source(tmp_path, "json", **{"settle.seconds": "1"})
    (listed,) = source.feed.folder.list()
    with path.open("a") as more:
        more.write(": 2}\n")
    assert source.feed.folder.measure(listed, None).end == 10
    path.write_text("")
    assert source.feed.folder.measure(listed, None) is None


def test_a_line_without_an_end_is_not_held_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "PIECE_BYTES", 100)
    monkeypatch.setattr(file_reader, "LONGEST_LINE", 1000)
    monkeypatch.setattr(file_reader, "TAIL", 64)
    (tmp_path / "a.json").write_text(
        '{"id": 1}\n' + "x" * 5000 + '\n{"id": 2}\n{"id": 3, "word": "%s"}\n' % ("y" * 500)
    )
    found, bad = Source(tmp_path, "json").read()
    assert [row["id"] for row in found] == [1, 2, 3]
    assert [(each.offset, each.raw) for each in bad] == [(10, None)] and "more than 1000 bytes" in bad[0].reason


def test_a_file_that_vanishes_is_lost_or_an_error(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text('{"id": 1}\n')
    source = Source(tmp_path, "json")
    strict = Source(tmp_path, "json", **{"retention.gaps": "fail"})
    for each in (source, strict):
        each.list()
    (tmp_path / "a.json").unlink()
    (task,) = source.feed.tasks([Range(0, 0, 2)], 1)
    found = list(source.feed.reader.read(task))
    assert sum(each.rows.num_rows for each in found) == 1 and sum(each.lost for each in found) == 1
    with pytest.raises(FileGone, match="a.json vanished"):
        list(strict.feed.reader.read(strict.feed.tasks([Range(0, 0, 2)], 1)[0]))


def test_bad_lines_are_named(tmp_path):
    (tmp_path / "a.json").write_text('{"id": 1}\nnonsense\n{"id": "x"}\n{"id": 4}\n')
    found, bad = Source(tmp_path, "json").read()
    assert [row["id"] for row in found] == [1, 4]
    assert [(each.offset, each.raw) for each in bad] == [(10, b"nonsense"), (19, b'{"id": "x"}')]


def test_csv_with_and_without_a_header(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "PIECE_BYTES", 9)
    (tmp_path / "a.csv").write_text("word,more,id\nx,1,1\ny,2,2\nz,3,3\n")
    found, bad = Source(tmp_path, "csv").read()
    assert [(row["id"], row["word"]) for row in found] == [(1, "x"), (2, "y"), (3, "z")] and not bad
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.csv").write_text("1|x\n2|y\n")
    options = [("without_header", "TRUE"), ("delimiter", "|")]
    assert Source(tmp_path / "plain", "csv", encode_options=options).ids() == [1, 2]
    with pytest.raises(InvalidDefinition, match="without_header cannot be '1'"):
        Source(tmp_path / "plain", "csv", encode_options=[("without_header", "1")])
    (tmp_path / "plain" / "a.csv").write_text('"a, ""b""", "word",id\n0,x,1\n')
    assert Source(tmp_path / "plain", "csv").read()[0][0]["word"] == "x"


def test_parquet_with_other_columns(tmp_path):
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "more": [True]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["x"], "word": ["y"]}), tmp_path / "b.parquet")
    found, bad = Source(tmp_path, "parquet").read()
    assert [(row["id"], row["word"]) for row in found] == [(1, None)]
    assert len(bad) == 1 and "b.parquet" in bad[0].reason


def test_of_parquet_only_the_rows_that_do_not_fit_are_bad(tmp_path):
    pq.write_table(pa.table({"id": ["1", "x", "3", None, "y"], "word": list("abcde")}), tmp_path / "a.parquet")
    found, bad = Source(tmp_path, "parquet").read()
    assert [(row[OFFSET], row["id"], row["word"]) for row in found] == [(0, 1, "a"), (2, 3, "c"), (3, None, "d")]
    assert [each.offset for each in bad] == [1, 4] and 'a.parquet: column "id": ' in bad[0].reason
    pq.write_table(pa.table({"id": [[1], [2]]}), tmp_path / "b.parquet")  # of a type that never fits
    assert len(Source(tmp_path, "parquet", "b.parquet").read()[1]) == 1


def test_a_number_of_parquet_that_is_too_large_for_its_column_is_not_infinite(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "COLUMNS", (("id", SqlType("real")), ("word", SqlType("varchar"))))
    pq.write_table(pa.table({"id": [1.5, 1e300, float("inf")]}), tmp_path / "a.parquet")
    found, bad = Source(tmp_path, "parquet").read()
    assert [row["id"] for row in found] == [1.5, float("inf")] and [each.offset for each in bad] == [1]


def test_whoever_asks_for_what_is_there_now_does_not_keep_the_stream_waiting(tmp_path, monkeypatch):
    source = Source(tmp_path, "json")
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    looking, hold, original = threading.Event(), threading.Event(), files.Folder.measure

    def slow(self, file, before):
        looking.set()
        assert hold.wait(30)
        return original(self, file, before)

    monkeypatch.setattr(files.Folder, "measure", slow)
    using, found = threading.Lock(), []
    asking = threading.Thread(target=lambda: found.append(source.feed.extents_now(using)))
    asking.start()
    assert looking.wait(30)
    assert using.acquire(timeout=5), "the stream's turn"
    using.release()
    hold.set()
    asking.join(30)
    assert found == [{0: Extent(0, 1)}]


def test_a_portion_has_so_many_rows_and_files(tmp_path, monkeypatch):
    for number in range(30):
        parquet(tmp_path / f"{number:02}.parquet", range(10))
    source = Source(tmp_path, "parquet")
    assert source.list().end == 30
    assert source.feed.portion([Range(0, 0, 30)], 45) == [Range(0, 0, 4)]
    assert source.feed.portion([Range(0, 4, 30)], 1) == [Range(0, 4, 5)]
    monkeypatch.setattr(files, "PORTION_FILES", 3)
    assert source.feed.portion([Range(0, 4, 30)], 1000) == [Range(0, 4, 7)]
    assert [source.feed.rows(each) for each in ([Range(0, 27, 30)], [Range(0, 0, 30)], [])] == [30, 300, 0]
    tasks = source.feed.tasks([Range(0, 0, 30)], 4)
    assert [number for task in tasks for number, _ in task] == list(range(30)) and len(tasks) >= 4


def test_listing_does_not_hold_anybody_up(tmp_path, monkeypatch):
    """The list is made by a thread of its own; until it is there, what is known is answered."""
    source = Source(tmp_path, "json")
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    hold, original = threading.Event(), files.Folder.list

    def slow(self):
        assert hold.wait(30)
        return original(self)

    monkeypatch.setattr(files.Folder, "list", slow)
    assert source.feed.extents() == {0: Extent(0, 0)}
    hold.set()
    deadline = time.monotonic() + 30
    while source.feed.extents() != {0: Extent(0, 1)}:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_many_files_are_looked_into_by_the_thread_that_lists_some_at_a_time(tmp_path, monkeypatch):
    """Who reads waits for none of it, takes what is known by then, and nothing twice if somebody else has listed."""
    monkeypatch.setattr(files, "LIST_AT_A_TIME", 10)
    source = Source(tmp_path, "json")
    for number in range(100):
        (tmp_path / f"{number:03}.json").write_text(f'{{"id": {number}}}\n')
    measured_by, original = set(), files.Folder.measure

    def measure(self, file, before):
        measured_by.add(threading.current_thread().name)
        return original(self, file, before)

    monkeypatch.setattr(files.Folder, "measure", measure)
    sizes = []
    deadline = time.monotonic() + 30
    while not sizes or sizes[-1] < 50:
        sizes.append(source.feed.extents()[0].end)
        assert time.monotonic() < deadline
    assert measured_by == {"headrace-listing"}
    assert all(after - before <= 10 for before, after in itertools.pairwise(sizes))
    assert source.list().end == 100  # by this thread, while the other is at it
    while source.feed._listing is not None or not source.feed._looked.empty():
        assert source.feed.extents() == {0: Extent(0, 100)} and time.monotonic() < deadline
    assert sorted(source.ids()) == list(range(100))


@pytest.mark.parametrize(
    ("encode", "options", "error"),
    [
        ("bytes", {}, InvalidDefinition), ("json", {"path": ""}, InvalidParameterValue),
        ("json", {"refresh.interval.seconds": "0"}, InvalidParameterValue), ("json", {"x": "1"}, InvalidParameterValue),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, encode, options, error):
    with pytest.raises(error):
        Source(tmp_path, encode, **options)


def test_a_list_that_cannot_be_made_is_told_and_made_again(tmp_path, monkeypatch, caplog):
    """Whatever goes wrong in the thread that lists: it is said for as long as it lasts, and it is not the last list.
    Meanwhile what is known can be read."""
    source = Source(tmp_path, "json")
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    source.list()
    (tmp_path / "b.json").write_text('{"id": 2}\n')
    monkeypatch.setattr(source.feed, "refresh", 0.0)
    original, lists = files.Folder.list, []
    monkeypatch.setattr(files.Folder, "list", lambda self: lists.append(1) or 1 / 0)
    while len(lists) < 3:
        assert source.feed.extents() == {0: Extent(0, 1)}
        if len(lists) > 1:
            assert source.feed.trouble.message == "unexpected error: ZeroDivisionError: division by zero"
    assert caplog.text.count("cannot be listed now") == 1
    monkeypatch.setattr(files.Folder, "list", original)
    eventually(lambda: source.feed.extents() == {0: Extent(0, 2)} and source.feed.trouble is None)


def test_links_to_files_are_followed_and_what_is_no_file_is_passed_over(tmp_path):
    """A link has a size of its own, which is not that of the file; and who opens a pipe waits for ever."""
    folder, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "a.json").write_text("".join(f'{{"id": {number}}}\n' for number in range(100)))
    (folder / "a.json").symlink_to(elsewhere / "a.json")
    (folder / "folder.json").symlink_to(elsewhere)
    (folder / "nowhere.json").symlink_to(elsewhere / "none.json")
    (folder / "itself.json").symlink_to(folder / "itself.json")
    os.mkfifo(folder / "pipe.json")
    source = Source(folder, "json")
    assert source.ids() == [*range(100)]
    with (elsewhere / "a.json").open("a") as more:
        more.write('{"id": 100}\n')
    assert source.ids() == [*range(101)]


def test_a_place_that_cannot_be_reached_for_a_moment_makes_no_file_bad(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    os.utime(tmp_path / "a.json", (0, 0))  # long settled
    source = Source(tmp_path, "json")

    def fails(*_):
        raise OSError(errno.EIO, "connection reset")

    with monkeypatch.context() as broken:
        broken.setattr(LocalStorage, "open_input", fails)
        with pytest.raises(StorageError, match="cannot access"):
            source.list()
    assert source.ids() == [1]
