"""Programs that go from mark to mark."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import bedload
import pyarrow as pa
import pytest
from conftest import numbers, rows_of


def test_rows_since_a_mark_are_those_that_were_not_visible_at_it(db: bedload.Database, table: bedload.Table) -> None:
    mark = table.mark()
    assert table.since(mark).count() == 0
    table.append(rows_of([25, 5]))
    new = table.since(mark)
    table.append(rows_of([40]))
    for _ in range(2):
        assert numbers(new) == [1, 0], "late rows too, in order of time, as of the call"
        assert numbers(table.since(new.mark())) == [0]
        db.flush()
    assert numbers(table.since(mark)) == [1, 0, 0]
    assert new.columns == ["at", "n"] and table.since(mark, columns="n").columns == ["n"]
    assert table.since(mark, where={"n": 1}).count() == 1
    assert repr(new).startswith("<bedload.Rows of 't', since a mark>")
    with pytest.raises(bedload.NotFoundError):
        table.since(mark, columns=["m"])


def test_the_mark_of_rows_is_their_moment(db: bedload.Database, table: bedload.Table) -> None:
    rows = table.range("1970-01-01T00:00:20", limit=1)
    snapshot = db.snapshot()
    table.append(rows_of([1]))
    assert numbers(table.since(rows.mark())) == [0]
    assert numbers(table.since(snapshot.range("t").mark())) == [0]
    snapshot.close()
    with pytest.raises(bedload.ClosedError):
        snapshot.range("t").mark()


def test_marks_of_what_cannot_be_followed_are_refused(db: bedload.Database, table: bedload.Table) -> None:
    other = db.table("other", rows_of([]))
    with pytest.raises(bedload.SchemaError, match="the mark is not one of table"):
        other.since(table.mark())
    sparse = db.table("sparse", rows_of([]), layout="sparse", interval=1)
    with pytest.raises(bedload.SchemaError, match="is sparse"):
        sparse.since(sparse.mark())
    with pytest.raises(TypeError):
        table.since(5)  # type: ignore[arg-type]


def test_a_saved_mark_goes_on_in_another_opening(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True) as db:
        table = db.table("t", rows_of([]))
        table.append(rows_of([1, 2]))
        mark = table.range().mark()
        saved, pickled = str(mark), pickle.dumps(mark)
        assert repr(mark) == f'bedload.Mark("{saved}")'
        table.append(rows_of([0]))
        db.backup(tmp_path / "copy")
    with bedload.open(tmp_path / "s") as db:
        for again in (bedload.Mark(saved), pickle.loads(pickled)):
            assert str(again) == saved
            assert db.table("t").since(again).to_pyarrow()["at"].cast(pa.int64()).to_pylist() == [0]
    with bedload.open(tmp_path / "copy") as copy:
        with pytest.raises(bedload.SchemaError, match="another copy of the store"):
            copy.table("t").since(bedload.Mark(saved))
    with pytest.raises(bedload.SchemaError, match="not a whole saved mark"):
        bedload.Mark(saved[:-1])


def test_columns_that_were_renamed_keep_their_names_for_older_tables(db: bedload.Database) -> None:
    table = db.table("t", rows_of([]))
    mark = table.mark()
    table.append(rows_of([1]))
    newer = db.rename_column("t", "n", "number")
    assert table.since(mark).columns == ["at", "n"]
    assert newer.since(mark).columns == ["at", "number"]
    assert newer.since(mark, where={"number": 0}).count() == 1


def test_a_reader_that_follows_gets_every_row_once(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True, durability="relaxed", head_bytes=1 << 16) as db:
        writer = db.table("t", rows_of([]))
        writer.append(rows_of([0]))
        with bedload.open(tmp_path / "s", read_only=True) as reader:
            table = reader.table("t")
            rows = table.range()
            seen = rows.to_pyarrow()["at"].cast(pa.int64()).to_pylist()
            count = 50

            def write() -> None:
                for first in range(1, count):
                    # Each commit is earlier than the one before it.
                    writer.append(rows_of([-first * 100 - row for row in range(100)]))
                db.flush()

            thread = threading.Thread(target=write)
            thread.start()
            while thread.is_alive() or reader.refresh():
                reader.refresh()
                rows = table.since(rows.mark())
                seen += rows.to_pyarrow()["at"].cast(pa.int64()).to_pylist()
            thread.join()
        assert len(seen) == len(set(seen)) == writer.count() == 1 + (count - 1) * 100
