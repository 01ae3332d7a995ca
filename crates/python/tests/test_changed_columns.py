"""Columns that are renamed or dropped, and rows that lack some."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Callable

import bedload
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

TIMES = ["2026-03-01T00:00:00", "2026-03-01T00:00:01"]


def read(rows: Any) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = pa.table(rows).to_pydict()
    return columns


def rows_of(first: int, count: int, names: tuple[str, str] = ("at", "n")) -> pa.Table:
    values = range(first, first + count)
    return pa.table({names[0]: pa.array(values, pa.timestamp("s", "UTC")), names[1]: pa.array(values, pa.int64())})


def test_a_column_is_renamed_and_older_tables_keep_its_name(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True, durability="relaxed") as db:
        kinds: dict[str, dict[str, Any]] = {
            "plain": {},
            "keyed": {"key": ["n"]},
            "sparse": {"layout": "sparse", "interval": 1},
        }
        for name, options in kinds.items():
            older = db.table(name, rows_of(0, 0), **options)
            older.append(rows_of(0, 1000))
            db.flush()
            older.append(rows_of(1000, 10))
            held, snapshot = older.range(), db.snapshot()
            db.rename_column(name, "at", "when")
            newer = db.rename_column(name, "n", "count")
            assert list(newer.columns) == list(db.table(name).columns) == ["when", "count"]
            assert newer.time == "when" and newer.key == (["when", "count"] if name == "keyed" else None)
            older.append(rows_of(1010, 10))
            newer.append(rows_of(1020, 10, ("when", "count")))
            for table, names in [(older, ("at", "n")), (newer, ("when", "count"))]:
                assert list(table.columns) == pa.schema(table).names == list(names)
                assert read(table.range()) == read(rows_of(0, 1030, names))
                where = {names[1]: 1025}
                assert pa.table(table.range(where=where, columns=names[1])).to_pydict() == {names[1]: [1025]}
                assert table.range(where=[(names[1], "<", 7)]).count() == 7
                assert list(table.get(5) or {}) == list(table.last() or {}) == list(names)
                lazy = table.scan_polars().filter(pl.col(names[1]) > 1027).collect()
                assert lazy.columns == list(names) and lazy.height == 2
            for table, other in [(older, "count"), (newer, "n")]:
                with pytest.raises(bedload.NotFoundError, match=f'no column "{other}"'):
                    table.range(columns=[other])
                with pytest.raises(bedload.NotFoundError, match=f'no column "{other}"'):
                    table.range(where={other: 1})
            with pytest.raises(bedload.SchemaError, match='no column "at"'):
                newer.append(rows_of(0, 1))
            assert read(held) == read(snapshot.range(name)) == read(rows_of(0, 1010))
            # A table that exists is asked for by the names that it has.
            with pytest.raises(bedload.SchemaError, match="exists and has no column"):
                db.table(name, rows_of(0, 0))
            db.table(name, rows_of(0, 0, ("when", "count")))
    with bedload.open(tmp_path / "s") as db:
        assert read(db.table("keyed").range()) == read(rows_of(0, 1030, ("when", "count")))
        assert db.verify()["problems"] == []


def test_what_cannot_be_renamed(db: bedload.Database) -> None:
    table = db.table("t", rows_of(0, 0))
    for old, new, kind, message in [
        ("m", "x", bedload.NotFoundError, "no column"),
        ("n", "at", bedload.SchemaError, 'has a column "at"'),
        ("n", "n", bedload.SchemaError, 'has a column "n"'),
        ("n", "", bedload.SchemaError, "empty"),
        ("n", "_sequence", bedload.SchemaError, "_sequence"),
    ]:
        with pytest.raises(kind, match=message):
            db.rename_column("t", old, new)
    with pytest.raises(bedload.NotFoundError):
        db.rename_column("u", "n", "m")
    assert db.table("t").columns == table.columns


def test_a_reader_keeps_the_name_until_it_asks_again(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True) as db:
        db.table("t", rows_of(0, 0)).append(rows_of(0, 10))
        with bedload.open(tmp_path / "s", read_only=True) as reader:
            older = reader.table("t")
            newer = db.rename_column("t", "n", "m")
            newer.append(rows_of(10, 10, ("at", "m")))
            assert read(older.range()) == read(rows_of(0, 10))
            assert reader.refresh()
            assert read(older.range()) == read(rows_of(0, 20))
            assert read(reader.table("t").range()) == read(rows_of(0, 20, ("at", "m")))


def wide_rows(first: int, count: int) -> pa.Table:
    notes = pa.array([f"note {n}" for n in range(first, first + count)], pa.string())
    note = pa.field("note", pa.string(), nullable=False)
    return rows_of(first, count).add_column(1, note, notes)


def test_a_column_is_dropped_and_older_tables_keep_it(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True, durability="relaxed") as db:
        for name, options in {"plain": {}, "keyed": {"key": ["n"]}}.items():
            older = db.table(name, wide_rows(0, 0), **options)
            older.append(wide_rows(0, 1000))
            db.flush()
            older.append(wide_rows(1000, 10))
            held, snapshot = older.range(), db.snapshot()
            newer = db.drop_column(name, "note")
            assert list(newer.columns) == list(db.table(name).columns) == ["at", "n"]
            older.append(wide_rows(1010, 10))
            newer.append(rows_of(1020, 10))
            for table in [newer, db.table(name)]:
                assert read(table.range()) == read(rows_of(0, 1030))
                assert list((table.get(1005) or {}).items())[1:] == [("n", 1005)]
                assert pa.table(table.range(where={"n": 1025}))["n"].to_pylist() == [1025]
                with pytest.raises(bedload.NotFoundError, match='no column "note"'):
                    table.range(columns=["note"])
            assert list(older.columns) == ["at", "note", "n"]
            assert [(older.get(n) or {})["note"] for n in (5, 1015, 1025)] == ["note 5", "note 1015", None]
            found = pa.table(older.range())
            assert found["n"].to_pylist() == list(range(1030))
            assert found["note"].to_pylist() == [f"note {n}" for n in range(1020)] + [None] * 10
            assert read(held) == read(snapshot.range(name)) == read(wide_rows(0, 1010))
            with pytest.raises(bedload.SchemaError, match='no column "note"'):
                newer.append(wide_rows(0, 1))
            # Another column of the name.
            newest = db.add_columns(name, pa.schema([("note", pa.int64())]))
            assert pa.table(newest.range())["note"].null_count == 1030
            assert (older.get(5) or {})["note"] == "note 5"
    with bedload.open(tmp_path / "s") as db:
        assert pa.table(db.table("keyed").range()).column_names == ["at", "n", "note"]
        assert db.verify()["problems"] == []


def test_what_cannot_be_dropped(db: bedload.Database) -> None:
    db.table("keyed", rows_of(0, 0), key=["n"])
    db.table("sparse", rows_of(0, 0), layout="sparse", interval=1)
    for table, column, kind, message in [
        ("keyed", "m", bedload.NotFoundError, "no column"),
        ("keyed", "at", bedload.SchemaError, "time of the table"),
        ("keyed", "n", bedload.SchemaError, "table's key"),
        ("sparse", "n", bedload.SchemaError, "sparse"),
        ("other", "n", bedload.NotFoundError, "other"),
    ]:
        with pytest.raises(kind, match=message):
            db.drop_column(table, column)
    assert list(db.table("keyed").columns) == ["at", "n"]


def test_columns_are_dropped_while_rows_are_appended(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True, durability="relaxed") as db:
        table = db.table("t", wide_rows(0, 0))
        batches = wide_rows(0, 600_000).to_batches(max_chunksize=300_000)

        def given() -> Any:
            yield batches[0]
            db.drop_column("t", "note")
            yield batches[1]

        assert table.append(pa.RecordBatchReader.from_batches(batches[0].schema, given()))["rows"] == 600_000
        assert read(db.table("t").range()) == read(rows_of(0, 600_000))
        assert read(table.range()) == read(wide_rows(0, 600_000))


def test_columns_are_renamed_while_rows_are_appended(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True, durability="relaxed") as db:
        table = db.table("t", rows_of(0, 0))
        batches = rows_of(0, 600_000).to_batches(max_chunksize=300_000)

        def given() -> Any:
            yield batches[0]
            db.rename_column("t", "n", "m")
            db.add_columns("t", pa.schema([("n", pa.string())]))
            yield batches[1]

        assert table.append(pa.RecordBatchReader.from_batches(batches[0].schema, given()))["rows"] == 600_000
        found = pa.table(db.table("t").range())
        assert found.column_names == ["at", "m", "n"]
        assert found["m"].to_pylist() == list(range(600_000)) and found["n"].null_count == 600_000
        assert read(table.range(stop=10)) == read(rows_of(0, 10))


def as_dict() -> Any:
    return {"at": np.array(TIMES, "M8[ms]"), "n": np.array([1, 2])}


#: The same rows in every form in which they can be given, with a column less than the table has.
FORMS: dict[str, Callable[[], Any]] = {
    "dict": as_dict,
    "dict of Arrow columns": lambda: {"n": pa.array([1, 2]), "at": pa.array(as_dict()["at"])},
    "structured array": lambda: np.array(list(zip(as_dict()["at"], [1, 2])), [("at", "M8[ms]"), ("n", "i8")]),
    "pandas": lambda: pd.DataFrame(as_dict()),
    "pandas with an index": lambda: pd.DataFrame(as_dict()).set_index("at"),
    "polars": lambda: pl.DataFrame(as_dict()),
    "pyarrow": lambda: pa.table(as_dict()),
    "batch": lambda: pa.table(as_dict()).to_batches()[0],
    "reader": lambda: pa.table(as_dict()).to_reader(max_chunksize=1),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_lack_columns(db: bedload.Database, form: str) -> None:
    columns = [
        ("at", pa.timestamp("ms")),
        ("state", pa.string()),
        ("n", pa.int64()),
        ("seen", pa.timestamp("s", "UTC")),
    ]
    table = db.table("t", pa.schema(columns), time="at")
    with pytest.raises(bedload.SchemaError, match=r'no column "state"; with allow_missing=True it is null'):
        table.append(FORMS[form]())
    with pytest.raises(bedload.SchemaError, match="allow_missing"):
        table.append(FORMS[form](), allow_missing=False)
    assert table.count() == 0
    assert table.append(FORMS[form](), allow_missing=True)["rows"] == 2
    found = pa.table(table.range())
    assert found["n"].to_pylist() == [1, 2]
    assert found["state"].null_count == found["seen"].null_count == 2


def test_columns_that_no_row_may_lack(db: bedload.Database) -> None:
    columns = [
        pa.field("at", pa.timestamp("s")),
        pa.field("sensor", pa.string()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("state", pa.string()),
    ]
    table = db.table("t", pa.schema(columns), key=["sensor"])
    whole = {"at": pa.array([dt.datetime(2026, 3, 1)]), "sensor": pa.array(["a"]), "n": pa.array([1])}
    for name in whole:
        lacking = {other: values for other, values in whole.items() if other != name}
        with pytest.raises(bedload.SchemaError, match=f'no column "{name}"$'):
            table.append(pa.table(lacking), allow_missing=True)
    with pytest.raises(bedload.SchemaError, match='no column "other"'):
        table.append(pa.table({**whole, "other": pa.array([1])}), allow_missing=True)
    # As many columns as the table has, one of them twice.
    twice = pa.table([*whole.values(), pa.array([2])], names=[*whole, "n"])
    with pytest.raises(bedload.SchemaError, match='two columns are named "n"'):
        table.append(twice, allow_missing=True)
    assert table.count() == 0
    table.append(pa.table(whole), allow_missing=True)
    nulls = pl.DataFrame({"at": [dt.datetime(2026, 3, 2)], "sensor": ["a"], "n": [2], "state": [None]})
    table.append(nulls, allow_missing=True)
    assert pa.table(table.range())["n"].to_pylist() == [1, 2]
