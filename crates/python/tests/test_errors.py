"""Errors that others cause: damaged files, tables dropped and stores closed meanwhile."""

from __future__ import annotations

import errno
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any

import bedload
import numpy as np
import pyarrow as pa
import pytest

SLOTS = (0, 32_768)
PAGES_FROM = 65_536


def rows_of(times: Any) -> pa.Table:
    return pa.table({"at": pa.array(times, pa.timestamp("s")), "n": pa.array(range(len(times)), pa.int64())})


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRCS = _crc_table()


def crc32c(content: bytes) -> int:
    crc = 0xFFFF_FFFF
    for byte in content:
        crc = crc >> 8 ^ CRCS[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFF_FFFF


def little(number: int, length: int = 4) -> bytes:
    return number.to_bytes(length, "little")


class DataFile:
    """The pages of a store, which can be changed with their checksums, as docs/format.md describes them."""

    def __init__(self, store: Path) -> None:
        self.path = store / "data"
        self.content = bytearray(self.path.read_bytes())
        sound = [slot for slot in SLOTS if self.content[slot : slot + 8] == b"bedload\n"]
        self.slot = max(sound, key=lambda slot: int.from_bytes(self.content[slot + 32 : slot + 40], "little"))
        self.page_bytes = int.from_bytes(self.content[self.slot + 12 : self.slot + 16], "little")

    def places(self) -> range:
        return range(1, (len(self.content) - PAGES_FROM) // self.page_bytes + 1)

    def page(self, place: int) -> slice:
        begin = PAGES_FROM + (place - 1) * self.page_bytes
        return slice(begin, begin + self.page_bytes)

    def write(self, place: int, offset: int, value: bytes) -> None:
        """Changes a page, and the checksums of all pages that lead to it."""
        page = self.page(place)
        before = bytes(self.content[page.start : page.start + 4])
        self.content[page.start + offset : page.start + offset + len(value)] = value
        after = little(crc32c(self.content[page.start + 4 : page.stop]))
        self.content[page.start : page.start + 4] = after
        for other in self.places():
            if (found := self.content[self.page(other)].find(little(place) + before)) > 0:
                self.write(other, found, little(place) + after)
        self.write_superblock(little(place) + before, little(place) + after)

    def write_superblock(self, before: bytes, after: bytes) -> None:
        block = slice(self.slot, self.slot + 4092)
        self.content[block] = self.content[block].replace(before, after)
        self.content[block.stop : block.stop + 4] = little(crc32c(self.content[block]))

    def save(self) -> None:
        self.path.write_bytes(self.content)


def test_pages_that_contradict_each_other_are_damage(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True) as db:
        db.table("t", rows_of([])).append(rows_of(range(10_000)))
    assert bedload.inspect(tmp_path / "s") == []
    file = DataFile(tmp_path / "s")
    trunk = [place for place in file.places() if file.content[file.page(place)][32:34] == little(0xBED3, 2)]
    for place in trunk:
        # More runs than a page holds.
        file.write(place, 32 + 4, little(0xFFFF, 2))
    file.save()
    with pytest.raises(bedload.CorruptError, match="page .* is damaged"):
        with bedload.open(tmp_path / "s") as db:
            db.table("t").range().to_pyarrow()


def test_a_format_from_before_the_first_release(tmp_path: Path) -> None:
    bedload.open(tmp_path / "s", create=True).close()
    file = DataFile(tmp_path / "s")
    file.content[file.slot + 8 : file.slot + 12] = little(1)
    file.write_superblock(b"", b"")
    file.save()
    with pytest.raises(bedload.OlderFormatError, match="format version 1, which was never released"):
        bedload.open(tmp_path / "s")


def test_errors_of_the_system_have_its_number(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="^cannot create .*: no such file or directory$") as failed:
        bedload.open(tmp_path / "none" / "s", create=True)
    assert isinstance(failed.value, bedload.DiskError)
    assert failed.value.errno == errno.ENOENT
    # As it comes from another process.
    failed.value.rows_appended = 5
    copy = pickle.loads(pickle.dumps(failed.value))
    assert type(copy) is bedload.DiskError and str(copy) == str(failed.value)
    assert (copy.errno, copy.rows_appended) == (errno.ENOENT, 5)


def test_closing_ends_an_append(tmp_path: Path) -> None:
    db = bedload.open(tmp_path / "s", create=True, durability="relaxed")
    table = db.table("t", rows_of([]))
    batch = rows_of(range(300_000)).to_batches()[0]
    waiting, closed = threading.Event(), threading.Event()
    failures: list[bedload.ClosedError] = []

    def batches() -> Any:
        yield batch
        yield batch
        waiting.set()
        assert closed.wait(30)
        for _ in range(5):
            yield batch

    def append() -> None:
        try:
            table.append(pa.RecordBatchReader.from_batches(batch.schema, batches()))
        except bedload.ClosedError as error:
            failures.append(error)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        assert waiting.wait(30)
        db.close()
        with bedload.open(tmp_path / "s") as again:
            closed.set()
            thread.join()
            (failure,) = failures
            assert failure.rows_appended == again.table("t").count() == 600_000
    finally:
        closed.set()
        thread.join()


def test_an_append_goes_on_under_another_name(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True, durability="relaxed") as db:
        table = db.table("t", rows_of([]))
        batch = rows_of(range(300_000)).to_batches()[0]

        def batches() -> Any:
            yield batch
            db.rename_table("t", "u")
            yield batch

        told = table.append(pa.RecordBatchReader.from_batches(batch.schema, batches()))
        assert told["rows"] == db.table("u").count() == 600_000


def test_a_snapshot_has_the_tables_of_its_moment(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True, durability="relaxed") as db:
        # Many, so that there is time to rename one.
        for number in range(100):
            db.table(str(number), rows_of([]))
        db.table("t", rows_of([])).append(rows_of([1]))
        done = threading.Event()

        def rename() -> None:
            names = ["t", "u"]
            while not done.is_set():
                db.rename_table(*names)
                names.reverse()

        thread = threading.Thread(target=rename)
        thread.start()
        try:
            for _ in range(2_000):
                snapshot = db.snapshot()
                assert len(snapshot.tables) == 101
            assert snapshot.range(snapshot.tables[-1]).count() == 1
        finally:
            done.set()
            thread.join()
        snapshot.close()
        with pytest.raises(bedload.ClosedError):
            _ = snapshot.tables


class Dropping:
    """The compiled part of a store, in which another thread drops a table after each look at the sizes."""

    def __init__(self, native: Any) -> None:
        self.native = native

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)

    def info(self) -> Any:
        told = self.native.info()
        self.native.drop_table("t")
        return told


def test_sizes_of_a_table_that_is_dropped_meanwhile(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True) as db:
        db.table("t", rows_of([])).append(rows_of([1]))
        same = bedload.Database(Dropping(db._native))  # type: ignore[arg-type]
        (told,) = same.info()["tables"]
        assert (told["name"], told["rows"], str(told["last"])) == ("t", 1, "1970-01-01 00:00:01")
        assert db.info()["tables"] == []


def test_a_store_that_is_dropped_lets_other_threads_run(tmp_path: Path) -> None:
    """Whoever drops the last reference to a store waits for its flush and its sync."""
    turns = 0
    done = threading.Event()

    def run() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0)

    # No thread has to give up the interpreter, so that others run only where one lets them.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    thread = threading.Thread(target=run)
    thread.start()
    rng = np.random.default_rng(1)
    columns = {"at": rng.permutation(200_000).astype("M8[ms]"), "x": rng.random(200_000)}
    try:
        # A machine that is busy elsewhere may let the other thread wait.
        for attempt in range(20):
            db = bedload.open(tmp_path / str(attempt), create=True, durability="relaxed")
            db.table("t", columns).append(columns)
            before = turns
            del db
            if turns > before:
                break
        else:
            pytest.fail("no other thread ran")
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_rows_of_a_stream_are_counted_from_its_first(db: bedload.Database) -> None:
    schema = pa.schema({"at": pa.timestamp("s", "America/New_York"), "n": pa.int32(), "text": pa.string()})
    table = db.table("t", schema)
    skipped = int(np.datetime64("2020-03-08T02:30", "s").astype(int))

    def batches(rows: int, last: dict[str, Any]) -> pa.Table:
        """A batch of so many rows, and one of two rows, the second of them ``last``."""
        batch = pa.table({"at": pa.array([0] * rows, pa.timestamp("s")), "n": [1] * rows, "text": ["a"] * rows})
        row = {"at": 0, "n": 1, "text": "a", **last}
        second = {"at": pa.array([0, row["at"]], pa.timestamp("s")), "n": [1, row["n"]], "text": ["a", row["text"]]}
        return pa.concat_tables([batch, pa.table(second)])

    for last, message in [({"n": 2**40}, 'row 4 of column "n"'), ({"at": skipped}, 'row 4 of column "at": .*exist')]:
        with pytest.raises(bedload.SchemaError, match=message):
            table.append(batches(3, last))
        with pytest.raises(bedload.SchemaError, match=message), db.write() as changes:
            changes.append(table, batches(3, last))
    with pytest.raises(bedload.SchemaError, match="row 4 has 100 bytes"):
        table._native.append(batches(3, {"text": "a" * 100}), "refuse", batch_bytes=50)
    with pytest.raises(bedload.SchemaError, match='row 4 of column "n"'):
        table._native.append(batches(3, {"text": "aa", "n": 2**40}), "refuse", batch_bytes=2)
    assert table.count() == 4, "slices before the row were committed"


@pytest.mark.parametrize("layout", ["indexed", "sparse"])
def test_rows_of_later_commits_are_counted_from_the_first(db: bedload.Database, layout: str) -> None:
    rows = 262_144
    at = np.arange(rows + 2).astype("datetime64[s]")
    frame = pa.table({"at": at, "text": np.full(rows + 2, "a", object)})
    is_sparse = layout == "sparse"
    table = db.table("t", frame, layout=layout, interval="2s" if is_sparse else None)
    if is_sparse:
        frame = frame.set_column(0, "at", [pa.array(np.arange(rows + 2) * 2, pa.timestamp("s"))])
        odd = {"at": np.array([1], "datetime64[s]"), "text": ["a"]}
        message = f"row {rows + 2} has the time"
    else:
        odd = {"at": np.array(["NaT"], "datetime64[s]"), "text": ["a"]}
        message = f"row {rows + 2} has no value in the time column"
    stream = pa.concat_tables([frame.slice(0, rows), frame.slice(rows), pa.table(odd)])
    with pytest.raises(bedload.SchemaError, match=message) as caught:
        table.append(stream)
    assert caught.value.rows_appended == rows
