"""Every option and every error of the interface."""

from __future__ import annotations

import datetime as dt
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import bedload
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import numbers, rows_of
from tqdm import tqdm


def test_range(table: bedload.Table) -> None:
    assert numbers(table.range()) == [0, 2, 3, 1]
    assert numbers(table.range(20, 30)) == [2, 3]
    assert numbers(table.range(start=20)) == [2, 3, 1]
    assert numbers(table.range(stop=20)) == [0]
    assert numbers(table.range(reverse=True)) == [1, 3, 2, 0]
    assert numbers(table.range(reverse=True, limit=2)) == [1, 3]
    assert numbers(table.range(limit=0)) == []
    assert table.range(columns=["n"]).columns == ["n"]
    assert table.range(columns="n").columns == ["n"]
    assert table.range(columns=["n", "at"]).to_pyarrow().column_names == ["n", "at"]
    assert table.range(20).count() == table.count(20) == 3
    assert table.count() == 4
    assert [len(batch) for batch in table.range()] == [4]
    with pytest.raises(bedload.SchemaError, match="must not be negative"):
        table.range(limit=-1)
    with pytest.raises(bedload.NotFoundError, match="there is no column"):
        table.range(columns=["m"])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_before_the_last_tick(db: bedload.Database, unit: str) -> None:
    """As of ``--where 'at > -1h'``: now has nanoseconds, which no tick of another unit has."""
    second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    now = second * int(time.time())
    rows = rows_of([now - 7200 * second, now], unit, None)
    table = db.table("t", rows)
    table.append(rows)
    assert numbers(table.range(where=[("at", ">", "-1h")])) == [1]
    assert numbers(table.range(where=[("at", "<=", "-1h")])) == [0]
    assert table.get("-1h") is None
    if unit != "ns":
        with pytest.raises(bedload.SchemaError, match="between two ticks"):
            table.range(where=[("at", ">", "-1ns")])
    with pytest.raises(bedload.SchemaError, match="has a time zone"):
        table.range(where=[("at", ">", "2020-01-01T00:00Z")])


@pytest.mark.parametrize(
    ("sign", "expected"),
    [("=", [2]), ("==", [2]), ("!=", [0, 3, 1]), ("<", [0, 1]), ("<=", [0, 2, 1]), (">", [3]), (">=", [2, 3])],
)
def test_where(table: bedload.Table, sign: str, expected: list[int]) -> None:
    assert numbers(table.range(where=[("n", sign, 2)])) == expected
    assert table.range(where=[("n", sign, 2)]).count() == len(expected)


def test_where_of_types(db: bedload.Database) -> None:
    rows = {
        "at": np.array([1, 2, 3], "datetime64[s]"),
        "s": np.array(["a", "b", None], object),
        "x": np.array([0.5, 1.5, 2.5], np.float32),
        "b": np.array([True, False, True]),
        "d": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]"),
        "o": np.array([5, 6, 7], "datetime64[ms]"),
        "u": np.array([1, 2, 2**64 - 1], np.uint64),
    }
    table = db.table("t", rows, time="at", create=True)
    table.append(rows)

    def count(where: bedload._schema.Where) -> int:
        return table.range(columns=["x"], where=where).count()

    assert count({"s": "a"}) == 1
    assert count([("s", "!=", "a")]) == 1, "a row without a value meets nothing"
    assert count([("x", ">=", 1.5), ("b", "=", True)]) == 1
    assert count([("d", "<", dt.date(2020, 1, 3))]) == 2
    assert count([("o", ">", np.datetime64(5, "ms"))]) == 2
    assert count({"u": 2**64 - 1}) == 1
    assert count({"s": None}) == count([("s", "==", None)]) == 1
    assert count([("s", "!=", None)]) == count([("s", "in", ["a", "b", "c"])]) == 2
    assert count([("u", "in", [2, 2**64 - 1])]) == count([("at", "in", (2, "1970-01-01T00:00:03"))]) == 2
    assert count([("d", "in", {dt.date(2020, 1, 3)})]) == 1
    assert count([("s", "in", [])]) == 0
    for wrong in [[("s", "in", "ab")], [("s", "<", None)], [("s", "like", "a")], [("s", "in", [None])]]:
        with pytest.raises((bedload.SchemaError, TypeError)):
            count(wrong)
    assert table.range(where={"b": True}, limit=1, reverse=True).to_numpy()["x"].tolist() == [2.5]
    assert table.range(columns=["x"], where={"b": True}).to_pyarrow().column_names == ["x"]
    with pytest.raises(bedload.SchemaError, match="no comparison"):
        count([("x", "~", 1)])
    with pytest.raises(bedload.NotFoundError):
        count({"m": 1})
    with pytest.raises(bedload.SchemaError, match="between two ticks"):
        count({"at": "1970-01-01T00:00:01.5"})
    with pytest.raises(bedload.SchemaError, match="is no day"):
        count({"d": "2020-01-01T00:00:00.000000001"})
    with pytest.raises(bedload.SchemaError, match="is no day"):
        count({"d": "2020-01-01T12:00"})
    assert count([("d", "<", "-7d")]) == count([("d", "<=", "-48h")]) == 3
    with pytest.raises(bedload.SchemaError, match="is no day"):
        count({"d": "-36h"})


def test_where_takes_no_constant_that_would_be_rounded(db: bedload.Database) -> None:
    rows = {
        "at": np.array([1, 2], "datetime64[s]"),
        "n": np.array([1, 2]),
        "tiny": np.array([1, 2], np.uint8),
        "u": np.array([1, 2], np.uint64),
        "b": np.array([True, False]),
        "s": np.array(["a", "b"]),
        "d": np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"),
        "f": np.array([2**24, 0.1], np.float32),
        "x": np.array([2**53, 0.1]),
    }
    table = db.table("t", rows, time="at")
    table.append(rows)

    def found(name: str, value: Any, sign: str = "=") -> list[int]:
        return numbers(table.range(where=[(name, sign, value)]))

    for name, wrong in [
        ("n", 2.5),
        ("n", "2"),
        ("n", 2**70),
        ("tiny", 256),
        ("u", -1),
        ("b", 1),
        ("s", 5),
        ("d", np.datetime64("9000000-01-01")),
        ("f", 2**24 + 1),
        ("f", np.int64(2**24 + 1)),
        ("f", 1e300),
        ("x", 2**53 + 1),
        ("x", np.int64(2**53 + 1)),
        ("x", 10**400),
        ("x", "0.1"),
    ]:
        for sign, value in [("=", wrong), (">=", wrong), ("in", [wrong])]:
            with pytest.raises(bedload.SchemaError, match=f'column "{name}"|[Cc]ast'):
                found(name, value, sign)
    assert found("f", 2**24) == found("f", 2.0**24 + 1) == found("x", 2**53) == found("x", np.uint64(2**53)) == [1]
    assert found("f", 0.1) == found("f", np.float32(0.1)) == found("x", 0.1) == [2], "the nearest float"
    assert found("x", float("inf"), "<") == found("f", float("inf"), "<") == [1, 2]
    assert found("n", np.int8(2)) == found("b", np.False_) == found("x", False, ">=")[1:] == [2]


def test_get_first_last(table: bedload.Table) -> None:
    at = dt.datetime(1970, 1, 1, 0, 0, 20, tzinfo=dt.timezone.utc)
    assert table.get(20) == {"at": at, "n": 3}
    assert table.get("1970-01-01T00:00:20Z") == table.get(at) == table.get(20)
    assert table.get(25) is None
    assert table.get("1970-01-01T00:00:20.5") is None
    assert (table.first() or {})["n"] == 0
    assert (table.last() or {})["n"] == 1
    with pytest.raises(TypeError, match="stop"):
        table.delete(20)  # type: ignore[call-arg]
    table.delete(None, None)
    assert table.first() is None and table.last() is None


def test_delete_mark_retract_snapshot(db: bedload.Database, table: bedload.Table) -> None:
    rows = table.range()
    with db.snapshot() as snapshot:
        mark = table.mark()
        table.append(rows_of([40]))
        table.delete(20, 30)
        assert table.count() == 3
        table.retract_since(mark)
        assert table.count() == 2
        assert snapshot.tables == ["t"]
        assert numbers(snapshot.range("t", 20, reverse=True, limit=2, columns=["n"], where=[("n", "<", 9)])) == [1, 3]
        assert numbers(rows) == [0, 2, 3, 1], "a range is of its moment"
        with pytest.raises(bedload.NotFoundError):
            snapshot.range("u")
    with pytest.raises(bedload.ClosedError):
        snapshot.range("t")


def test_times(db: bedload.Database) -> None:
    zone = "America/New_York"
    table = db.table("t", rows_of([], "us", zone), create=True)
    table.append({"at": np.array(["2020-07-01T12:00"], "datetime64[s]"), "n": np.array([1])})
    noon = dt.datetime(2020, 7, 1, 16, tzinfo=dt.timezone.utc)
    assert (table.first() or {})["at"] == noon, "a naive time is one of the table's zone"
    assert str((table.first() or {})["at"].tzinfo) == zone
    for written in [
        noon,
        dt.datetime(2020, 7, 1, 12),
        "2020-07-01T12:00",
        "2020-07-01 12:00:00.000000",
        "2020-07-01T16:00Z",
        "2020-07-01T18:00:00+02:00",
        np.datetime64("2020-07-01T12"),
        pd.Timestamp("2020-07-01T12:00"),
        pd.Timestamp("2020-07-01T16:00", tz="UTC"),
        1593619200000000,
        np.int64(1593619200000000),
    ]:
        assert table.count(written) == 1 and table.get(written), written
        assert table.count(None, written) == 0, written
    assert table.count(dt.date(2020, 7, 1), dt.date(2020, 7, 2)) == 1
    assert table.count("2020-07-01T12:00:00.000000001") == 0, "a bound between two ticks"
    assert table.count("2020-07-01T11:59:59.9999999") == 1
    assert table.count("2020", "2021") == table.count("2020-07", "2020-08") == 1
    assert table.count("@1593619200000000", "@1593619200000001") == 1
    assert table.count("-1h") == 0 and table.count(None, "-1h") == 1, "before now"
    for wrong in ["1593619200", "-5", "2020-7"]:
        with pytest.raises(bedload.SchemaError, match="is not a time: write"):
            table.count(wrong)
    for wrong in ["", "noon", "2020-13-01", "2020-01-01T25:00", np.datetime64("NaT"), pd.NaT, float("nan")]:
        with pytest.raises(bedload.SchemaError):
            table.count(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        table.count(True)
    naive = db.table("naive", rows_of([], "ns", None), create=True)
    naive.append(rows_of([1_500], "ns", None))
    assert naive.get(pd.Timestamp(1_500)) == {"at": pd.Timestamp(1_500), "n": 0}
    for aware in [noon, "2020-07-01T16:00Z"]:
        with pytest.raises(bedload.SchemaError, match="has a time zone"):
            naive.count(aware)
    with pytest.raises(bedload.SchemaError, match="no zone"):
        naive.append(rows_of([1], "ns", "UTC"))


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m"])
def test_times_that_numpy_cannot_convert_are_refused(db: bedload.Database, unit: str) -> None:
    """NumPy wraps them: a deletion of old rows would remove others."""
    table = db.table("t", rows_of([], "s", None))
    far = np.datetime64(2**61 + 12_345, unit)
    for call in [table.count, table.get, lambda time: table.delete(None, time)]:
        with pytest.raises(bedload.SchemaError, match="beyond the seconds"):
            call(far)
    assert table.count(np.datetime64("-1000", "Y"), np.datetime64(9_999, "Y")) == 0


SKIPPED, REPEATED = "2020-03-08T02:30", "2020-11-01T01:30"


@pytest.mark.parametrize(("reading", "message"), [(SKIPPED, "does not exist"), (REPEATED, "occurs twice")])
def test_where_clocks_change_queries_and_rows_follow_one_rule(db: bedload.Database, reading: str, message: str) -> None:
    """A reading that a zone's clocks skip or repeat is refused wherever it comes from."""
    table = db.table("t", rows_of([], "us", "America/New_York"))
    naive = np.datetime64(reading, "us")
    written = [reading, dt.datetime.fromisoformat(reading), pd.Timestamp(reading), naive]
    written.append(dt.datetime.fromisoformat(reading).replace(fold=1))
    for given in written:
        for call in [table.count, table.get, lambda time: table.delete(time, None)]:
            with pytest.raises(bedload.SchemaError, match=message):
                call(given)
    at = np.array(["2020-07-01T12:00", reading], "datetime64[us]")
    frames = [
        {"at": at, "n": np.array([1, 2])},
        pa.table({"at": pa.array(at), "n": [1, 2]}),
        pd.DataFrame({"at": at, "n": [1, 2]}),
    ]
    for frame in frames:
        with pytest.raises(bedload.SchemaError, match=f"row 1 of column .at.: .{reading}:00. {message}"):
            table.append(frame)
    assert table.count() == 0, "a commit is whole"


def test_readings_around_a_change_are_found_again(db: bedload.Database) -> None:
    table = db.table("t", rows_of([], "us", "America/New_York"))
    readings = ["2020-03-08T01:59:59.500", "2020-03-08T03:00", "2020-11-01T00:59", "2020-11-01T02:00", "1900-01-01"]
    table.append({"at": np.array(readings, "datetime64[us]"), "n": np.arange(5)})
    for n, reading in enumerate(readings):
        found = [table.get(reading), table.get(np.datetime64(reading)), table.get(dt.datetime.fromisoformat(reading))]
        assert [(row or {})["n"] for row in found] == [n] * 3
    # The hour that occurs twice, with offsets: both of it, an hour apart.
    instants = ["2020-11-01T01:30-04:00", "2020-11-01T01:30-05:00"]
    table.append(pa.table({"at": pa.array([pd.Timestamp(at) for at in instants]), "n": [7, 8]}))
    assert [(table.get(at) or {})["n"] for at in instants] == [7, 8]
    missing = np.array(["NaT", "2020-01-01"], "datetime64[us]")
    zoned = pa.timestamp("us", "America/New_York")
    other = db.table("u", pa.schema([("at", zoned), ("seen", zoned)]), time="at")
    other.append({"at": np.array(["2020-01-01", "2020-01-02"], "datetime64[us]"), "seen": missing})
    assert other.range().to_pyarrow()["seen"].null_count == 1, "a missing time is no reading"


def test_sparse(db: bedload.Database) -> None:
    intervals = [("a", dt.timedelta(seconds=10)), ("b", np.timedelta64(10, "s")), ("c", 10), ("d", "10s")]
    for name, interval in intervals:
        table = db.table(
            name, rows_of([]), layout="sparse", interval=interval, epoch="1970-01-01T00:00:03", create=True
        )
        assert (table.layout, table.interval) == ("sparse", 10)
        table.append(rows_of([3, 13]))
        with pytest.raises(bedload.SchemaError, match="not on the grid"):
            table.append(rows_of([4]))
        assert table.append(rows_of([24]), snap="down") == {"rows": 1, "moved": 1, "collided": 0, "replaced": 0}
        assert table.append(rows_of([29, 33]), snap="nearest") == {"rows": 2, "moved": 1, "collided": 1, "replaced": 0}
        assert [row["at"].timestamp() for row in table.range().to_pyarrow().to_pylist()] == [3, 13, 23, 33]
        assert table.get(13) == {"at": dt.datetime.fromtimestamp(13, dt.timezone.utc), "n": 1}
    with pytest.raises(bedload.SchemaError, match="nearest"):
        table.append(rows_of([3]), snap="up")
    with pytest.raises(bedload.SchemaError, match="sparse"):
        table.retract_since(table.mark())
    for options, message in [
        ({"layout": "sparse"}, "needs the interval"),
        ({"layout": "round"}, "neither"),
        ({"interval": 5}, "sparse"),
        ({"layout": "sparse", "interval": dt.timedelta(milliseconds=1)}, "not whole"),
        ({"layout": "sparse", "interval": -1}, "positive"),
        ({"layout": "sparse", "interval": "ten"}, "is not a duration"),
        ({"layout": "sparse", "interval": 5, "epoch": "1970-01-01T00:00:00.5"}, "between two ticks"),
    ]:
        with pytest.raises(bedload.SchemaError, match=message):
            db.table("e", rows_of([]), **options)  # type: ignore[arg-type]
    assert db.info()["tables"][0]["layout"] == "sparse"


def test_a_sparse_table_that_exists_has_its_grid(db: bedload.Database) -> None:
    epoch = "1970-01-01T00:00:03"
    db.table("s", rows_of([]), layout="sparse", interval="10s", epoch=epoch)
    same: list[dict[str, Any]] = [
        {},
        {"layout": "sparse"},
        {"interval": dt.timedelta(seconds=10)},
        {"layout": "sparse", "interval": 10, "epoch": epoch},
        {"epoch": 3},
        {"interval": 10, "epoch": 13},
        {"epoch": -7},
    ]
    for options in same:
        assert db.table("s", rows_of([]), **options).interval == 10
        assert db.table("s", **options).interval == 10
    others: list[tuple[dict[str, Any], str]] = [
        ({"layout": "sparse", "interval": 5}, "'s' has a row every 10 s, not every 5"),
        ({"interval": "20s"}, "every 10 s, not every 20"),
        ({"layout": "sparse", "interval": 10, "epoch": 4}, "'s' has rows from 3 s on, every 10, and not one at 4"),
        ({"epoch": "1970-01-01"}, "and not one at '1970-01-01'"),
        ({"epoch": "1970-01-01T00:00:00.5"}, "between two ticks"),
        ({"interval": "1ms"}, "not whole"),
        ({"layout": "indexed", "interval": 10}, "has the layout 'sparse'"),
    ]
    for options, message in others:
        with pytest.raises(bedload.SchemaError, match=message):
            db.table("s", rows_of([]), **options)
        with pytest.raises(bedload.SchemaError, match=message):
            db.table("s", **options)


def test_key(db: bedload.Database) -> None:
    def readings(times: list[int], sensors: list[int], values: list[float]) -> pa.Table:
        at = pa.array(times, pa.timestamp("s", "UTC"))
        return pa.table({"at": at, "sensor": pa.array(sensors, pa.int32()), "value": pa.array(values)})

    first = readings([1, 1, 2], [7, 8, 7], [0.1, 0.2, 0.3])
    table = db.table("keyed", first, key=["sensor"])
    assert table.key == ["at", "sensor"]
    assert table.append(first)["replaced"] == 0
    assert table.append(readings([1, 3, 3], [8, 7, 7], [0.5, 0.6, 0.7]))["replaced"] == 2
    found = {(row["at"].timestamp(), row["sensor"]): row["value"] for row in table.range().to_pyarrow().to_pylist()}
    assert found == {(1, 7): 0.1, (1, 8): 0.5, (2, 7): 0.3, (3, 7): 0.7}
    assert table.count() == 4
    assert db.table("keyed", first, key=["sensor", "at"]).key == db.table("keyed", key="sensor").key == table.key
    assert db.table("named", first, key="sensor").key == table.key
    for other in [["value"], []]:
        with pytest.raises(bedload.SchemaError, match="has the key"):
            db.table("keyed", key=other)
    with pytest.raises(bedload.SchemaError, match="has a key"):
        table.retract_since(table.mark())
    with pytest.raises(bedload.Error, match="no column"):
        db.table("other", first, key=["nothing"])
    assert db.table("plain", first).key is None


def test_open_options(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pytest.raises(bedload.NotAStoreError):
        bedload.open(path)
    for durability in ["always", "group", "relaxed"]:
        with bedload.open(
            path,
            create=True,
            cache_bytes=8 << 20,
            head_bytes=1 << 20,
            page_bytes=4096,
            durability=durability,
            group_every=dt.timedelta(milliseconds=1),
            background=False,
        ) as db:
            table = db.table("t", rows_of([]), create=True)
            table.append(rows_of([1]))
            assert db.info()["page_bytes"] == 4096
            with pytest.raises(bedload.InUseError):
                bedload.open(path)
    with pytest.raises(bedload.SchemaError):
        bedload.open(tmp_path / "u", create=True, page_bytes=5000)
    with pytest.raises(bedload.SchemaError):
        bedload.open(tmp_path / "u", create=True, durability="never")
    with pytest.raises(TypeError, match="group_every is a timedelta, not 5"):
        bedload.open(tmp_path / "u", create=True, group_every=5)  # type: ignore[arg-type]
    assert issubclass(bedload.NoSpaceError, bedload.DiskError) and issubclass(bedload.DiskError, OSError)


def test_read_only(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with bedload.open(path, create=True) as writer:
        times = np.arange(100).astype("M8[s]")
        table = writer.table("t", {"at": times}, time="at")
        table.append({"at": times})
        with bedload.open(path, read_only=True) as reader:
            rows = reader.table("t")
            assert rows.count() == 100
            held = rows.range()
            table.append({"at": times + np.timedelta64(100, "s")})
            assert rows.count() == 100
            assert reader.refresh() and not writer.refresh()
            assert (rows.count(), held.count()) == (200, 100)
            for write in (
                lambda: rows.append({"at": times}),
                lambda: rows.delete(None, None),
                lambda: reader.drop_table("t"),
                lambda: reader.add_columns("t", pa.schema([])),
                lambda: reader.rename_column("t", "n", "m"),
                lambda: reader.drop_column("t", "n"),
                reader.flush,
            ):
                with pytest.raises(bedload.OpenForReadingError, match="read_only"):
                    write()
            assert reader.verify()["problems"] == []
            table.append({"at": times + np.timedelta64(200, "s")})
            assert reader.backup(tmp_path / "copy")["rows"] == 300
    with pytest.raises(bedload.NotAStoreError):
        bedload.open(tmp_path / "none", create=True, read_only=True)


def test_tables(db: bedload.Database, table: bedload.Table) -> None:
    with pytest.raises(bedload.NotFoundError, match="no table"):
        db.table("u")
    with pytest.raises(bedload.NotFoundError, match="no table"):
        db.table("u", rows_of([]), create=False)
    with pytest.raises(bedload.SchemaError, match="give its schema"):
        db.table("u", create=True)
    with pytest.raises(bedload.SchemaError, match="0 columns are timestamps"):
        db.table("u", pa.table({"n": [1]}))
    with pytest.raises(bedload.NotFoundError):
        db.table("u", rows_of([]), time="m")
    assert db.tables == ["t"]
    db.table("u", table)
    for create in [None, True, False]:
        assert db.table("t", rows_of([]), create=create).count() == 4, "a table that exists is opened"
    other = pa.table({"at": rows_of([])["at"]})
    for wrong, options, message in [
        (other, {}, 'has a column "n"'),
        (rows_of([]).append_column("m", rows_of([])["n"]), {}, 'has no column "m"'),
        (rows_of([]), {"time": "n"}, 'is ordered by "at"'),
        (rows_of([]), {"layout": "sparse", "interval": 1}, "has the layout 'indexed'"),
        (rows_of([]), {"interval": 1}, "'t' is indexed: it has neither an interval nor an epoch"),
        (rows_of([]), {"layout": "indexed", "epoch": 0}, "neither an interval nor an epoch"),
    ]:
        with pytest.raises(bedload.SchemaError, match=message):
            db.table("t", wrong, **options)  # type: ignore[arg-type]
    assert db.table("t", time="at").count() == 4
    with pytest.raises(bedload.SchemaError, match="is ordered by 'at', not by 'n'"):
        db.table("t", time="n")
    assert db.table("t", rows_of([], "ms")).unit == "s", "types stay those of the table"
    db.rename_table("u", "v")
    assert db.tables == ["t", "v"]
    with pytest.raises(bedload.ExistsError):
        db.rename_table("v", "t")
    db.drop_table("v")
    assert db.tables == ["t"]
    assert table.columns == {"at": 'Timestamp(s, "UTC")', "n": "Int64"}
    assert (table.name, table.time, table.unit, table.zone) == ("t", "at", "s", "UTC")
    assert (table.layout, table.interval) == ("indexed", None)


def test_what_does_not_fit(table: bedload.Table) -> None:
    good = rows_of([1])
    for wrong, message in [
        (good.append_column("m", [[1]]), "has no column"),
        (good.drop(["n"]), "have no column"),
        (good.set_column(1, "n", [["x"]]), 'column "n" is'),
        (good.set_column(1, "n", [[1.5]]), "would change"),
        (rows_of([1500], "ms"), "not a whole second"),
        (good.set_column(0, "at", pa.array([None], pa.timestamp("s", "UTC"))), "no value in the time column"),
    ]:
        with pytest.raises(bedload.SchemaError, match=message):
            table.append(wrong)
    table.append(good.set_column(1, "n", [pa.array([2.0])]))
    table.append(rows_of([2000], "ms"))
    for wrong in [5, [1, 2], object()]:
        with pytest.raises(TypeError, match="holds no rows"):
            table.append(wrong)
    with pytest.raises(bedload.SchemaError, match="dimensions"):
        table.append({"at": np.zeros((2, 2)), "n": np.zeros(2)})
    assert table.count() == 6


def test_a_stream_that_fails_keeps_what_was_committed(table: bedload.Table) -> None:
    def batches() -> object:
        for _ in range(3):
            yield rows_of(list(range(200_000))).to_batches()[0]
        raise RuntimeError("the source broke")

    reader = pa.RecordBatchReader.from_batches(rows_of([]).schema, batches())
    with pytest.raises(bedload.Error, match="the source broke") as failed:
        table.append(reader)
    assert failed.value.rows_appended == 400_000
    assert table.count() == 400_004


def test_a_stream_of_long_texts_is_several_commits(db: bedload.Database) -> None:
    rows = pa.table({"at": pa.array(range(200), pa.timestamp("s")), "text": ["x" * 500_000] * 200})
    (batch,) = rows.to_batches()
    table = db.table("t", rows.schema)

    def batches(last: pa.RecordBatch) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(rows.schema, iter([batch.slice(0, 0), batch, batch, batch, last]))

    no_time = pa.RecordBatch.from_pylist([{"at": None, "text": "y"}], rows.schema)
    with pytest.raises(bedload.SchemaError) as failed:
        table.append(batches(no_time))
    assert failed.value.rows_appended == table.count() == 400
    assert table.append(batches(batch.slice(100)))["rows"] == 700
    assert table.count() == 1100


def test_backup_verify_info(tmp_path: Path, db: bedload.Database, table: bedload.Table) -> None:
    db.flush()
    assert db.verify()["problems"] == []
    assert db.backup(tmp_path / "copy")["rows"] == 4
    assert bedload.inspect(tmp_path / "copy") == []
    assert bedload.restore(tmp_path / "copy", tmp_path / "again")["problems"] == []
    with bedload.open(tmp_path / "again") as again:
        assert again.table("t").count() == 4
    with pytest.raises(bedload.ExistsError):
        db.backup(tmp_path / "copy")
    info = db.info()
    assert info["format_version"] >= 1 and info["path"] == db.path
    (told,) = info["tables"]
    assert (told["rows"], told["first"], told["last"]) == (4, (table.first() or {})["at"], (table.last() or {})["at"])
    order = {"rows": 4, "k": 1, "l": 2, "late": 2, "overlapping": 0}
    assert told["arrival_order"] == {**order, "window": order}
    assert (told["time"], told["key"], told["retention"]) == ("at", None, None)
    assert (told["layout"], told["interval"], told["density"]) == ("indexed", None, None)
    assert told["columns"] == [
        {"name": "at", "type": 'Timestamp(s, "UTC")', "nullable": False},
        {"name": "n", "type": "Int64", "nullable": True},
    ]
    metrics = db.metrics()
    assert metrics["commits"] >= 1 and metrics["rows"] >= 1 and metrics["log_syncs"] >= 1
    assert metrics["flush_longest_seconds"] <= metrics["flush_seconds"]


def test_damage_is_an_error(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True) as db:
        db.table("t", rows_of([]), create=True).append(rows_of(list(range(10_000))))
    file = tmp_path / "s" / "data"
    content = bytearray(file.read_bytes())
    content[32768:] = bytes(byte ^ 0x55 for byte in content[32768:])
    file.write_bytes(content)
    assert bedload.inspect(tmp_path / "s") != []
    with pytest.raises(bedload.CorruptError, match="damaged"):
        with bedload.open(tmp_path / "s") as db:
            db.table("t").count()


def test_salvage_copies_what_is_whole_and_tells_the_rest(tmp_path: Path) -> None:
    rows = 100_000
    with bedload.open(tmp_path / "s", create=True) as db:
        db.table("t", rows_of([]), create=True).append(rows_of(list(range(rows))))
        db.table("empty", rows_of([], zone=None))
    file = tmp_path / "s" / "data"
    content = bytearray(file.read_bytes())
    damage = slice(len(content) // 2, len(content) // 2 + 16384)
    content[damage] = bytes(byte ^ 0x55 for byte in content[damage])
    file.write_bytes(content)
    told = bedload.salvage(tmp_path / "s", tmp_path / "saved")
    assert file.read_bytes() == content
    assert not told["complete"] and told["problems"] == bedload.inspect(tmp_path / "s") != []
    saved, empty = told["tables"]
    assert empty == {"name": "empty", "rows": 0, "missing": 0, "gaps": []}
    assert (saved["name"], saved["rows"] + saved["missing"]) == ("t", rows)
    ((first, last),) = saved["gaps"]
    assert first < last and first.utcoffset() == dt.timedelta(0)
    with bedload.open(tmp_path / "saved") as db:
        table = db.table("t")
        assert table.count() == saved["rows"] < rows
        assert table.count(first, last + dt.timedelta(seconds=1)) <= 2
    with pytest.raises(bedload.ExistsError):
        bedload.salvage(tmp_path / "s", tmp_path / "saved")
    with pytest.raises(bedload.NotAStoreError):
        bedload.salvage(tmp_path / "none", tmp_path / "new")
    whole = bedload.salvage(tmp_path / "saved", tmp_path / "again")
    assert whole["complete"] and whole["problems"] == []
    assert whole["tables"][0] == {"name": "t", "rows": saved["rows"], "missing": 0, "gaps": []}


def test_closed(tmp_path: Path) -> None:
    db = bedload.open(tmp_path / "s", create=True)
    table = db.table("t", rows_of([]), create=True)
    table.append(rows_of([1]))
    rows, snapshot = table.range(), db.snapshot()
    db.close()
    db.close()
    assert db.closed and "closed" in repr(db)
    for call in [table.count, rows.count, lambda: snapshot.range("t"), db.info, lambda: table.append(rows_of([1]))]:
        with pytest.raises(bedload.ClosedError):
            call()
    bedload.open(tmp_path / "s").close()


def test_closing_ends_what_is_being_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for ends_with_snapshot in [False, True]:
        db = bedload.open(path, create=True)
        table = db.table("t", rows_of([]))
        table.append(rows_of(list(range(100_000))))
        snapshot = db.snapshot()
        rows = snapshot.range("t") if ends_with_snapshot else table.range()
        iterator, exhausted = iter(rows), iter(rows)
        stream = pa.RecordBatchReader.from_stream(rows)
        in_memory = rows.to_pyarrow()
        assert len(next(iterator)) == 8192 and stream.read_next_batch().num_rows == 8192
        assert sum(len(batch) for batch in exhausted) == 100_000
        if ends_with_snapshot:
            snapshot.close()
        else:
            db.close()
        for _ in range(2):
            with pytest.raises(bedload.ClosedError, match="is closed"):
                next(iterator)
            with pytest.raises((pa.ArrowException, OSError), match="is closed"):
                stream.read_next_batch()
        assert next(exhausted, None) is None
        assert in_memory.num_rows == 100_000
        db.close()
        bedload.open(path).close()
        shutil.rmtree(path)


@pytest.mark.parametrize("read", [iter, pa.RecordBatchReader.from_stream])
@pytest.mark.parametrize("of", ["table", "snapshot"])
def test_closing_ends_readers_whose_rows_are_gone(tmp_path: Path, read: Callable[[Any], Any], of: str) -> None:
    path = tmp_path / "s"
    db = bedload.open(path, create=True)
    db.table("t", rows_of([])).append(rows_of(list(range(100_000))))
    reader = read(db.table("t").range() if of == "table" else db.snapshot().range("t"))
    exhausted = read(db.table("t").range())
    next(reader)
    assert len(list(exhausted)) == 13
    db.close()
    bedload.open(path).close()
    with pytest.raises((bedload.ClosedError, pa.ArrowException, OSError), match="is closed"):
        next(reader)
    assert next(exhausted, None) is None


def test_reprs(db: bedload.Database, table: bedload.Table) -> None:
    assert repr(table) == "<bedload.Table 't' (at: Timestamp(s, \"UTC\"), n: Int64), ordered by 'at'>"
    assert "1 tables: t" in repr(db)
    shown = repr(table.range("1970-01-01", limit=3, reverse=True, where={"n": 3}))
    assert shown.startswith("<bedload.Rows of 't', from 1970-01-01, where n = 3, latest first, at most 3>")
    assert "1970-01-01T00:00:20 | 3" in shown
    assert repr(table.range(50)).endswith("no rows")
    assert isinstance(db._native.path, Path)


def test_progress_and_parquet(tmp_path: Path, table: bedload.Table) -> None:
    with tqdm(file=io.StringIO()) as bar:
        table.append(rows_of(list(range(100, 1100))), progress=bar)
        assert bar.n == 1000
        table.range().to_pyarrow(progress=bar)
        assert bar.n == 2004
    assert table.range(100).to_parquet(tmp_path / "rows.parquet", compression="zstd") == 1000
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet")["n"].to_pylist() == list(range(1000))


def test_threads_read_while_others_write(db: bedload.Database) -> None:
    table = db.table("t", rows_of([]), create=True)
    failures: list[BaseException] = []
    done = threading.Event()

    def write(first: int) -> None:
        for step in range(30):
            table.append(rows_of(list(range(first + step * 100, first + step * 100 + 100))))

    def read() -> None:
        try:
            while not done.is_set():
                times = table.range().to_numpy()["at"]
                assert len(times) % 100 == 0, "whole commits only"
                assert (np.diff(times) >= np.timedelta64(0)).all()
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 50, 10_000)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert failures == []
    assert table.count() == 9_000


INTERRUPTED = """
import sys, bedload, pyarrow as pa
schema = pa.schema([("at", pa.timestamp("s"))])
batch = pa.record_batch([pa.array(range(300_000), pa.timestamp("s"))], schema=schema)
def endless():
    while True:
        yield batch
with bedload.open(sys.argv[1], create=True, durability="relaxed") as db:
    table = db.table("t", schema, create=True)
    print("ready", flush=True)
    try:
        table.append(pa.RecordBatchReader.from_batches(schema, endless()))
    except KeyboardInterrupt as stopped:
        assert table.count() == stopped.rows_appended > 0
        print("stopped", flush=True)
"""


def test_ctrl_c(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED, tmp_path / "s"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "stopped\n"
    assert child.wait(30) == 0


INTERRUPTED_SOURCE = """
import os, signal, sys, bedload, pyarrow as pa
schema = pa.schema([("at", pa.timestamp("s"))])
def endless():
    for number in range(10**9):
        if number == 1000:
            os.kill(os.getpid(), signal.SIGINT)
        yield pa.record_batch([pa.array(range(1000), pa.timestamp("s"))], schema=schema)
with bedload.open(sys.argv[1], create=True, durability="relaxed") as db:
    table = db.table("t", schema, create=True)
    try:
        table.append(pa.RecordBatchReader.from_batches(schema, endless()))
    except KeyboardInterrupt as stopped:
        assert 0 < table.count() == stopped.rows_appended < 10**6
        print("stopped", flush=True)
"""


def test_ctrl_c_in_a_generator_of_rows(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED_SOURCE, tmp_path / "s"]
    assert subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60).stdout == "stopped\n"


INTERRUPTED_WORK = """
import os, shutil, signal, sys, threading, bedload
path, name = sys.argv[1:]
calls = {
    "to_pyarrow": lambda: table.range().to_pyarrow(),
    "to_pandas": lambda: table.range().to_pandas(),
    "to_numpy": lambda: table.range(reverse=True).to_numpy(),
    "to_parquet": lambda: table.range().to_parquet(path + ".parquet"),
    "batches": lambda: [len(batch) for batch in table.range()],
    "count": lambda: table.range(where=[("x", "<", 0.5)]).count(),
    # No row has this value, and every leaf may have it.
    "search": lambda: table.range(where=[("x", "=", 0.3)]).count(),
    "next match": lambda: next(iter(table.range(where=[("x", "=", 0.3)])), None),
    "verify": lambda: db.verify(),
    "backup": lambda: (shutil.rmtree(path + ".copy", ignore_errors=True), db.backup(path + ".copy")),
}
def reads():
    return int(db.metrics()["page_reads"])
def interrupt(at):
    while reads() < at:
        pass
    os.kill(os.getpid(), signal.SIGINT)
# Whether the call ended before its work did.
def stopped(at, whole):
    interrupter = threading.Thread(target=interrupt, args=(at,))
    interrupter.start()
    try:
        calls[name]()
        interrupter.join()
    except KeyboardInterrupt:
        # Checks and copies go on by themselves, so there the wait for them ended if any page was
        # left.
        return reads() < (whole if name in ("verify", "backup") else whole * 3 // 4)
# How many pages the call reads if it is left alone.
with bedload.open(path, cache_bytes=1 << 20) as db:
    table = db.table("t")
    calls[name]()
    whole = reads()
# A machine that is busy elsewhere may let the work end first.
for attempt in range(20):
    with bedload.open(path, cache_bytes=1 << 20) as db:
        table = db.table("t")
        if stopped(whole // 20, whole):
            assert table.count() == 3_000_000, "the store can be used on"
            print("stopped")
            break
"""


@pytest.mark.parametrize(
    "call",
    [
        "to_pyarrow",
        "to_pandas",
        "to_numpy",
        "to_parquet",
        "batches",
        "count",
        "search",
        "next match",
        "verify",
        "backup",
    ],
)
def test_ctrl_c_ends_reads_and_checks(tmp_path: Path, long_store: Path, call: str) -> None:
    shutil.copytree(long_store, tmp_path / "s")
    command = [sys.executable, "-c", INTERRUPTED_WORK, tmp_path / "s", call]
    assert subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120).stdout == "stopped\n"


KILLED = """
import sys, bedload, pyarrow as pa
with bedload.open(sys.argv[1], create=True) as db:
    table = db.table("t", pa.schema([("at", pa.timestamp("s"))]), create=True)
    first = table.count()
    for step in range(first, 10**9, 10):
        table.append(pa.table({"at": pa.array(range(step, step + 10), pa.timestamp("s"))}))
        print(step + 10, flush=True)
"""


def test_a_killed_interpreter_loses_no_acknowledged_batch(tmp_path: Path) -> None:
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "s"], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        acknowledged = int(child.stdout.readline())
        time.sleep(0.2)
        os.kill(child.pid, signal.SIGKILL)
        acknowledged = max([acknowledged, *(int(line) for line in child.stdout if line.endswith("\n"))])
        assert child.wait() == -signal.SIGKILL
        with bedload.open(tmp_path / "s") as db:
            found = db.table("t").range().to_numpy()["at"].astype(int).tolist()
        assert found == list(range(len(found))) and len(found) % 10 == 0 and len(found) >= acknowledged


def test_another_table_of_the_name_is_another_table(db: bedload.Database, table: bedload.Table) -> None:
    rows = table.range()
    db.rename_table("t", "old")
    other = db.table("t", {"at": np.array([1, 2], "datetime64[ms]"), "m": np.array([1, 2])}, time="at")
    other.append({"at": np.array([1, 2], "datetime64[ms]"), "m": np.array([1, 2])})
    uses: list[Callable[[], Any]] = [
        table.count,
        table.first,
        table.mark,
        lambda: table.get(1),
        lambda: table.delete(None, "2020"),
        lambda: table.set_retention("1s"),
        lambda: table.append(rows_of([1])),
    ]
    for use in uses:
        with pytest.raises(bedload.NotFoundError, match="another one by now"):
            use()
    assert other.count() == 2 and db.table("old").count() == rows.count() == 4
    db.drop_table("t")
    with pytest.raises(bedload.NotFoundError):
        other.count()


def test_threads_that_ask_for_a_new_table_at_once(db: bedload.Database) -> None:
    schema = pa.schema([("at", pa.timestamp("s"))])
    failures: list[BaseException] = []

    def ask(name: str, start: threading.Barrier) -> None:
        try:
            start.wait()
            db.table(name, schema)
        except BaseException as error:
            failures.append(error)

    for number in range(10):
        start = threading.Barrier(4)
        threads = [threading.Thread(target=ask, args=(f"table {number}", start)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert len(db.tables) == 10


def test_versions() -> None:
    assert bedload.__version__.count(".") == 2


def test_info_tells_what_tables_are_made_of(db: bedload.Database) -> None:
    rows = rows_of([10, 20])
    db.table("key", rows, key=["n"]).set_retention("1h")
    sparse = db.table("sparse", rows, layout="sparse", interval=10)
    sparse.append(rows)
    sparse.append(rows)
    db.flush()
    key, grid = db.info()["tables"]
    assert (key["key"], key["retention"]) == (["at", "n"], 3600)
    assert (grid["layout"], grid["interval"], grid["arrival_order"]) == ("sparse", 10, None)
    density = grid["density"]
    assert (density["rows"], density["blocks"], density["replaced"]) == (2, 1, 2)
    assert density["density"] == 2 / density["rows_per_block"] < density["advised_below"]
    assert density["advises_indexed"] and density["payload_bytes"] > 0 and density["disk_bytes"] > 0


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_retention_that_is_read_can_be_set_again(db: bedload.Database, unit: str) -> None:
    table = db.table("t", rows_of([], unit))
    assert table.retention is None
    for keep in ("7d", 1, 2**63 - 1):
        table.set_retention(keep)
        read = table.retention
        table.set_retention(read)
        assert table.retention == read
    assert table.retention == 2**63 - 1
    other = db.table("t")
    other.set_retention(dt.timedelta(days=2))
    assert table.retention == other.retention == np.timedelta64(2, "D") // np.timedelta64(1, unit)
    table.set_retention(None)
    assert table.retention is None
    db.drop_table("t")
    with pytest.raises(bedload.NotFoundError):
        _ = table.retention


@pytest.mark.parametrize("keep", [dt.timedelta(seconds=15), "15s", 15, np.timedelta64(15, "s")])
def test_rows_are_kept_for_a_time(db: bedload.Database, table: bedload.Table, keep: Any) -> None:
    table.set_retention(keep)
    assert numbers(table.range()) == [2, 3, 1]
    table.append(rows_of([40, 12]))
    db.flush()
    assert numbers(table.range()) == [1, 0]
    table.set_retention(None)
    table.append(rows_of([100]))
    db.flush()
    assert table.count() == 3


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_rows_are_kept_for_centuries(db: bedload.Database, unit: str) -> None:
    """As nanoseconds an ``int64`` holds 292 years."""
    table = db.table("t", rows_of([], unit))
    table.append(rows_of([1, 2], unit))
    for keep in ["200000d", dt.timedelta(days=200_000), np.timedelta64(200_000, "D"), np.timedelta64(28_572, "W")]:
        table.set_retention(keep)
    assert table.count() == 2
    for wrong in [np.timedelta64("NaT"), np.timedelta64(1, "Y"), np.timedelta64(5, "ps")]:
        with pytest.raises(bedload.SchemaError):
            table.set_retention(wrong)
    table.set_retention(np.timedelta64(1, "h"))
    with pytest.raises(bedload.SchemaError, match="longer than a table's times reach"):
        db.table("sparse", rows_of([], "ns"), layout="sparse", interval="200000d")


def test_no_time_is_no_retention(table: bedload.Table) -> None:
    for keep in (0, -1, dt.timedelta(0)):
        with pytest.raises(bedload.SchemaError):
            table.set_retention(keep)
    with pytest.raises(TypeError):
        table.set_retention(1.5)  # type: ignore[arg-type]
    assert table.count() == 4


def test_columns_are_added_and_older_tables_keep_theirs(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True, durability="relaxed") as db:
        older = db.table("t", rows_of([]))
        older.append(rows_of(range(1000)))
        db.flush()
        older.append(rows_of(range(1000, 1010)))
        held = older.range()
        state = pa.schema([("state", pa.dictionary(pa.int8(), pa.string())), ("when", pa.date64())])
        newer = db.add_columns("t", state)
        assert list(older.columns) == ["at", "n"]
        assert list(newer.columns) == ["at", "n", "state", "when"] == list(db.table("t").columns)
        assert (newer.columns["state"], newer.columns["when"]) == ("Utf8", "Date32")
        assert pa.table(held).column_names == pa.table(older.range()).column_names == ["at", "n"]
        assert pa.schema(older).names == ["at", "n"]
        older.append(rows_of(range(1010, 1020)))
        rows = rows_of([1020]).append_column("state", pa.array(["on"]))
        rows = rows.append_column("when", pa.array([dt.date(2026, 3, 1)]))
        newer.append(rows)
        with pytest.raises(bedload.SchemaError, match="state"):
            newer.append(rows_of([1021]))
        with pytest.raises(bedload.SchemaError, match="state"):
            older.append(rows)
        read = pa.table(newer.range())
        assert read["state"].null_count == read["when"].null_count == 1020
        last = {"n": 0, "state": "on", "when": dt.date(2026, 3, 1)}
        assert {name: newer.last()[name] for name in last} == last  # type: ignore[index]
        assert list(older.last() or {}) == ["at", "n"]
        assert pa.table(newer.range(where=[("state", "==", "on")]))["n"].to_pylist() == [0]
        for wrong, message in [
            (pa.schema([("n", pa.string())]), 'has a column "n"'),
            (pa.schema([pa.field("m", pa.int64(), nullable=False)]), "must be nullable"),
            (pa.schema([("m", pa.list_(pa.int64()))]), "cannot store"),
        ]:
            with pytest.raises(bedload.SchemaError, match=message):
                db.add_columns("t", wrong)
        with pytest.raises(bedload.NotFoundError):
            db.add_columns("u", state)
        db.table("u", rows_of([]), layout="sparse", interval=1)
        with pytest.raises(bedload.SchemaError, match="is sparse"):
            db.add_columns("u", state)
    with bedload.open(tmp_path / "s") as db:
        assert pa.table(db.table("t").range()) == read


def test_columns_are_added_while_rows_are_appended(tmp_path: Path) -> None:
    with bedload.open(tmp_path / "s", create=True, durability="relaxed") as db:
        table = db.table("t", rows_of([]))
        batch = rows_of(range(300_000)).to_batches()[0]

        def batches() -> Any:
            yield batch
            db.add_columns("t", pa.table({"m": pa.array([], pa.float64())}))
            yield batch

        told = table.append(pa.RecordBatchReader.from_batches(batch.schema, batches()))
        assert told["rows"] == 600_000
        assert pa.table(db.table("t").range())["m"].null_count == 600_000
