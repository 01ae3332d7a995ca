"""Changes of several tables in one commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bedload
import pyarrow as pa
import pytest
from conftest import numbers, rows_of


def commits(db: bedload.Database) -> float:
    return db.metrics()["commits"]


def test_changes_of_several_tables_are_one_commit(db: bedload.Database, table: bedload.Table) -> None:
    hours = db.table("hours", rows_of([]))
    hours.append(rows_of([0, 100]))
    before = commits(db)
    with db.write() as batch:
        batch.append(table, rows_of([40, 5]))
        batch.delete(hours, 0, 50)
        batch.append(hours, [])
        batch.append(hours, pa.Table.from_batches([*rows_of([0]).to_batches(), *rows_of([1]).to_batches()]))
        assert batch.appended is None
        assert (table.count(), hours.count(), commits(db)) == (4, 2, before)
    assert commits(db) == before + 1
    assert batch.appended == {"rows": 4, "moved": 0, "collided": 0, "replaced": 0}
    assert numbers(table.range()) == [1, 0, 2, 3, 1, 0]
    assert numbers(hours.range()) == [0, 0, 1]


def test_a_period_is_replaced_and_no_reader_sees_it_half(db: bedload.Database, table: bedload.Table) -> None:
    snapshot = db.snapshot()
    with db.write() as batch:
        batch.delete(table, None, None)
        batch.append(table, {"at": table.range(20).to_pyarrow()["at"], "n": [7, 8, 9]})
        assert numbers(table.range()) == [0, 2, 3, 1]
    assert numbers(table.range()) == [7, 8, 9]
    assert numbers(snapshot.range("t")) == [0, 2, 3, 1]
    with db.write() as batch:
        batch.append(table, rows_of([1]))
        batch.delete(table, None, None)
    assert table.count() == 0


def test_nothing_is_committed_if_the_block_raises(db: bedload.Database, table: bedload.Table) -> None:
    with pytest.raises(KeyError):
        with db.write() as batch:
            batch.delete(table, None, None)
            batch.append(table, rows_of([1]))
            raise KeyError("unrelated")
    assert batch.appended is None and table.count() == 4
    with pytest.raises(bedload.ClosedError, match="begin again with write"):
        batch.delete(table, None, None)
    with pytest.raises(bedload.SchemaError, match='no column "m"'):
        with db.write() as batch:
            batch.delete(table, None, None)
            batch.append(table, rows_of([1]).append_column("m", [[1]]))
    with pytest.raises(bedload.SchemaError, match="no value in the time column"):
        with db.write() as batch:
            batch.delete(table, None, None)
            batch.append(table, {"at": [None], "n": [1]})
    with pytest.raises(bedload.NotFoundError):
        with db.write() as batch:
            batch.delete(table, None, None)
            db.table("dropped", rows_of([]))
            batch.append(db.table("dropped"), rows_of([1]))
            db.drop_table("dropped")
    assert table.count() == 4
    with db.write() as batch:
        pass
    with pytest.raises(bedload.ClosedError):
        batch.append(table, rows_of([1]))


def test_options_of_appends_are_those_of_tables(db: bedload.Database, table: bedload.Table) -> None:
    sparse = db.table("sparse", rows_of([]), layout="sparse", interval=10)
    key = db.table("key", rows_of([]), key=["n"])
    key.append(rows_of([1, 1]))
    with db.write() as batch:
        batch.append(sparse, rows_of([13, 20]), snap="down")
        batch.append(table, {"at": rows_of([1])["at"]}, allow_missing=True)
        batch.append(key, rows_of([1, 1]))
    assert batch.appended == {"rows": 5, "moved": 1, "collided": 0, "replaced": 2}
    assert sparse.range().to_pyarrow()["at"].cast(pa.int64()).to_pylist() == [10, 20]
    with pytest.raises(bedload.SchemaError, match="is not one of"):
        db.write().append(sparse, rows_of([1]), snap="up")
    with pytest.raises(bedload.SchemaError, match="the only change of it"):
        with db.write() as batch:
            batch.delete(key, None, None)
            batch.append(key, rows_of([1]))
    assert key.count() == 2


def test_tables_of_other_stores_and_rows_beyond_the_memory_are_refused(tmp_path: Path, table: bedload.Table) -> None:
    with bedload.open(tmp_path / "small", create=True, head_bytes=1 << 16) as small:
        with pytest.raises(bedload.SchemaError, match="is one of another store"):
            small.write().append(table, rows_of([1]))
        own = small.table("t", rows_of([]))
        with pytest.raises(bedload.SchemaError):
            with small.write() as batch:
                batch.delete(own, None, None)
                batch.append(own, rows_of(list(range(100_000))))
        assert own.count() == 0
        batch = small.write()
    with pytest.raises(bedload.ClosedError):
        batch.append(own, rows_of([1]))
    with bedload.open(tmp_path / "small", read_only=True) as reader:
        with pytest.raises(bedload.OpenForReadingError):
            with reader.write() as batch:
                batch.append(reader.table("t"), rows_of([1]))


def test_a_batch_keeps_no_store_open(tmp_path: Path) -> None:
    def batch_of(db: bedload.Database) -> Any:
        batch = db.write()
        batch.append(db.table("t", rows_of([])), rows_of([1]))
        return batch

    with bedload.open(tmp_path / "s", create=True) as db:
        batch = batch_of(db)
    with pytest.raises(bedload.ClosedError, match="is closed"):
        with batch:
            pass
    with bedload.open(tmp_path / "s") as again:
        assert again.table("t").count() == 0
