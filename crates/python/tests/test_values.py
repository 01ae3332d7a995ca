"""Rows of plain Python values: columns of lists, rows as dicts, and lists of them."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import bedload
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bedload._times import TimeType, bounds

ZONE = "America/New_York"
NEW_YORK = ZoneInfo(ZONE)
AT = dt.datetime(2026, 3, 1)

#: Each type that a table keeps, with two values of which the second is an extreme one.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), [1, -(2**7)]),
    "i64": (pa.int64(), [2**53 + 1, -(2**63)]),
    "u8": (pa.uint8(), [1, 2**8 - 1]),
    "u64": (pa.uint64(), [1, 2**64 - 1]),
    "f32": (pa.float32(), [0.5, float(np.float32(0.1))]),
    "f64": (pa.float64(), [0.1, -0.0]),
    "text": (pa.string(), ["a", "ä\0"]),
    "bytes": (pa.binary(), [b"", b"\xff"]),
    "bytes3": (pa.binary(3), [b"abc", b"\0\0\0"]),
    "day": (pa.date32(), [dt.date(2026, 3, 1), dt.date(1, 1, 1)]),
    "us": (pa.timestamp("us"), [AT, dt.datetime.max]),
    "zoned": (pa.timestamp("s", ZONE), [AT.replace(tzinfo=NEW_YORK), dt.datetime(1950, 1, 1, tzinfo=NEW_YORK)]),
    "ns": (pa.timestamp("ns"), [pd.Timestamp("2026-03-01T00:00:00.000000001"), pd.Timestamp(1)]),
    "time_s": (pa.time32("s"), [dt.time(6, 30), dt.time(23, 59, 59)]),
    "time_us": (pa.time64("us"), [dt.time(6, 30), dt.time.max]),
    "for_us": (pa.duration("us"), [dt.timedelta(1), dt.timedelta(microseconds=-1)]),
    "for_ns": (pa.duration("ns"), [pd.Timedelta(1, "ns"), np.timedelta64(5, "ns")]),
    "decimal": (pa.decimal128(18, 2), [Decimal("1.50"), Decimal("-9999999999999999.99")]),
    "decimal256": (pa.decimal256(76, 3), [Decimal(1), Decimal("0.001")]),
}
SCHEMA = pa.schema([("at", pa.timestamp("s")), *((name, kind) for name, (kind, _) in COLUMNS.items())])


@pytest.fixture
def table(db: bedload.Database) -> bedload.Table:
    return db.table("t", SCHEMA, time="at")


@pytest.fixture
def readings(db: bedload.Database) -> bedload.Table:
    return db.table("readings", pa.schema({"at": pa.timestamp("us"), "celsius": pa.float64()}))


def celsius(table: bedload.Table) -> list[Any]:
    return table.range().to_pyarrow()["celsius"].to_pylist()


def test_lists_of_values_of_each_type(table: bedload.Table) -> None:
    at = [AT + dt.timedelta(seconds=second) for second in range(3)]
    columns = {name: [*values, None] for name, (_, values) in COLUMNS.items()}
    assert table.append({"at": at, **columns})["rows"] == 3
    read = table.range().to_pyarrow()
    for name, (kind, values) in COLUMNS.items():
        assert read[name].combine_chunks() == pa.array([*values, None], kind), name
    assert read["at"].to_pylist() == at


def test_a_row_that_was_read_is_appended_as_it_is(db: bedload.Database, table: bedload.Table) -> None:
    other = db.table("other", SCHEMA, time="at")
    for row in range(3):
        values = {name: values[row] if row < 2 else None for name, (_, values) in COLUMNS.items()}
        table.append({"at": AT + dt.timedelta(seconds=row), **values})
        last = table.last()
        assert last is not None
        assert other.append(last)["rows"] == 1
        assert other.last() == last
    assert other.range().to_pyarrow() == table.range().to_pyarrow()
    rows = [row for second in range(3) if (row := table.get(AT + dt.timedelta(seconds=second)))]
    db.drop_table("other")
    other = db.table("other", SCHEMA, time="at")
    assert other.append(rows)["rows"] == 3
    assert other.range().to_pyarrow() == table.range().to_pyarrow()


def test_both_readings_of_a_repeated_hour_are_appended_again(db: bedload.Database) -> None:
    table = db.table("t", pa.schema([("at", pa.timestamp("us", ZONE))]))
    twice = dt.datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK)
    table.append({"at": [twice, twice.replace(fold=1)]})
    for row in (table.first(), table.last()):
        table.append(row)
    ticks = table.range().to_pyarrow()["at"].cast(pa.int64()).to_pylist()
    assert ticks == [1_793_511_000_000_000] * 2 + [1_793_514_600_000_000] * 2
    with pytest.raises(bedload.SchemaError, match="row 0 of column 'at': .*occurs twice"):
        table.append({"at": [twice.replace(tzinfo=None)]})


def test_aware_times_are_converted_and_naive_ones_are_of_the_zone(db: bedload.Database) -> None:
    table = db.table("t", pa.schema([("at", pa.timestamp("ms", ZONE))]))
    noon = dt.datetime(2026, 3, 1, 12)
    table.append({"at": [noon, noon.replace(tzinfo=ZoneInfo("Asia/Tokyo")), dt.date(2026, 3, 1)]})
    utc = [moment.astimezone(dt.timezone.utc).hour for moment in table.range().to_pyarrow()["at"].to_pylist()]
    assert utc == [3, 5, 17]
    naive = db.table("naive", pa.schema([("at", pa.timestamp("ms"))]))
    with pytest.raises(bedload.SchemaError, match="row 1 of column 'at': .* has a time zone"):
        naive.append({"at": [noon, noon.replace(tzinfo=NEW_YORK)]})
    with pytest.raises(bedload.SchemaError, match="row 0 of column 'at' is not a whole millisecond"):
        naive.append({"at": [noon.replace(microsecond=1)]})
    assert naive.count() == 0


def test_missing_values_are_null(readings: bedload.Table) -> None:
    at = [AT, np.datetime64("2026-03-01T00:00:01"), pd.Timestamp("2026-03-01T00:00:02"), AT.replace(second=3)]
    readings.append({"at": at, "celsius": [1.0, None, pd.NA, 2]})
    assert celsius(readings) == [1.0, None, None, 2.0]
    assert readings.append({"at": [AT.replace(second=4)], "celsius": [None]})["rows"] == 1
    assert readings.append({"at": np.array([AT.replace(second=5)], object), "celsius": (3.5,)})["rows"] == 1
    assert celsius(readings)[4:] == [None, 3.5]
    for time in (None, pd.NaT, np.datetime64("NaT", "s")):
        with pytest.raises(bedload.SchemaError, match="no value in the time column"):
            readings.append({"at": [time], "celsius": [1.0]})


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("i8", [128], "values would change"),
        ("u64", [-1], "values would change"),
        ("u64", [2**64], "integers beyond 64 bits"),
        ("i64", [-1, 2**63], "integers beyond 64 bits"),
        ("i64", [2**53 + 1, 0.5], "row 0 .* would be rounded"),
        ("i64", [0.5], "values would change"),
        ("i64", [float("nan")], "values would change"),
        ("i64", [True], "is Boolean"),
        ("i64", ["1"], "is Utf8"),
        ("f64", [2**53 + 1], "values would change"),
        ("f64", [2**1024, 0.5], "row 0 .* would be rounded"),
        ("f32", [0.1], "values would change"),
        ("text", ["a", 1], "mixes values that are integer and text"),
        ("text", [uuid.UUID(int=1)], "a value of type UUID"),
        ("text", [["a"]], "a value of type list"),
        ("bytes3", [b"ab"], '"bytes3"'),
        ("day", [dt.datetime(2026, 3, 1, 6)], "not a whole second|values would change"),
        ("us", ["2026-03-01"], "is Utf8"),
        ("us", [1], "is Int64"),
        ("ns", [dt.datetime.max], "beyond|is no Timestamp"),
        ("time_s", [dt.time(1, 2, 3, 4)], "lies between two ticks"),
        ("for_us", [pd.Timedelta(1, "ns")], "not whole in ticks"),
        ("decimal", [Decimal("0.001")], "has more digits"),
        ("decimal", [Decimal("NaN")], "is no number"),
        ("decimal", [Decimal(10) ** 16], "has more digits"),
        ("ns", [np.datetime64("2300-01-01"), np.datetime64("2020-01-01T00:00:00.000000001")], "is no Timestamp"),
        ("us", [np.datetime64("2300-01-01"), np.datetime64("2020-01-01T00:00:00.000000001")], "not a whole micro"),
        ("i64", [np.int64(2**53 + 1), np.float64(7)], "row 0 .* would be rounded"),
        ("i64", [np.bool_(True), np.int64(5)], "mixes values that are bool and integer"),
        ("u64", [np.uint64(2**63 + 1), np.int64(-1)], "integers beyond 64 bits"),
    ],
)
def test_values_that_would_change_are_refused(
    table: bedload.Table, column: str, values: list[Any], message: str
) -> None:
    at = [AT] * len(values)
    with pytest.raises(bedload.SchemaError, match=message):
        table.append({"at": at, column: values}, allow_missing=True)
    assert table.count() == 0


def test_integers_become_decimals_and_floats_where_they_are_exact(table: bedload.Table) -> None:
    class Level(enum.IntEnum):
        LOW = 1

    table.append({"at": AT, "decimal": 7, "f64": 2**53, "i8": Level.LOW, "decimal256": 10**70}, allow_missing=True)
    row = table.last() or {}
    assert (row["decimal"], row["f64"], row["i8"], row["decimal256"]) == (Decimal(7), 2.0**53, 1, Decimal(10**70))


def test_numpy_scalars_of_several_types_keep_their_values(table: bedload.Table) -> None:
    columns = {
        "u64": [np.uint64(2**63 + 1), np.int64(1)],
        "f64": [np.float32(0.5), np.int64(2**53)],
        "us": [np.datetime64("2300-01-01"), np.datetime64("2020-01-01T00:00:00.000001")],
        "ns": [np.datetime64("NaT")] * 2,
        "for_ns": [np.timedelta64(1, "D"), np.timedelta64(1, "ns")],
    }
    table.append({"at": [AT] * 2, **columns}, allow_missing=True)
    read = table.range().to_pyarrow()
    assert read["u64"].to_pylist() == [2**63 + 1, 1]
    assert read["f64"].to_pylist() == [0.5, 2.0**53]
    assert read["us"].to_pylist() == [dt.datetime(2300, 1, 1), dt.datetime(2020, 1, 1, microsecond=1)]
    assert read["ns"].to_pylist() == [None, None]
    assert read["for_ns"].cast(pa.int64()).to_pylist() == [86_400 * 10**9, 1]


@pytest.mark.parametrize(("zone", "day"), [("America/Sao_Paulo", "2018-11-04"), ("America/Havana", "2020-11-01")])
def test_a_day_begins_as_its_text_does(db: bedload.Database, zone: str, day: str) -> None:
    """The clocks of Sao Paulo skipped midnight, and those of Havana showed it twice."""
    schema = pa.schema([("at", pa.timestamp("s", zone))])
    date = dt.date.fromisoformat(day)
    columns = [[date], np.array([day], "datetime64[D]"), pa.array([date]), [date, pd.Timestamp(f"{day} 12:00")]]
    for number, column in enumerate(columns):
        table = db.table(f"t{number}", schema)
        table.append({"at": column})
        for time in (day, date, np.datetime64(day, "D")):
            assert table.get(time) is not None
            assert table.count(time) == len(column)
    first_of_day = table.range().to_pyarrow()["at"].cast(pa.int64())[0].as_py()
    assert bounds(np.datetime64(day, "M"), None, TimeType("s", zone)) == bounds(day[:7], None, TimeType("s", zone))
    assert bounds(np.datetime64(day, "D"), dt.date.fromisoformat(day), TimeType("s", zone)) == (first_of_day,) * 2


def test_arrays_of_half_floats_and_lengths_of_time(db: bedload.Database) -> None:
    at = np.array(["2026-03-01", "2026-03-02"], "datetime64[s]")
    columns = {
        "at": at,
        "half": np.array([0.5, 65504], np.float16),
        "took": np.array([1, "NaT"], "timedelta64[ns]"),
        "hours": np.array([1, -2], "timedelta64[h]"),
    }
    table = db.table("t", columns, time="at")
    assert list(table.columns.values()) == ["Timestamp(s)", "Float16", "Duration(ns)", "Duration(s)"]
    table.append(columns)
    read = table.range().to_numpy()
    assert read["half"].dtype == np.float16 and (read["half"] == columns["half"]).all()
    for name, dtype in [("took", "timedelta64[ns]"), ("hours", "timedelta64[s]")]:
        assert read[name].dtype == dtype
        np.testing.assert_array_equal(read[name], columns[name])
    assert "0.5 | PT0.000000001S | PT3600S" in repr(table.range())
    wrong = [("Y", 1, "use timedelta64 of s"), ("ps", 1, "use timedelta64 of s"), ("W", 2**60, "beyond those")]
    for unit, length, message in wrong:
        with pytest.raises(bedload.SchemaError, match=message):
            table.append({**columns, "took": np.array([0, length], f"timedelta64[{unit}]")})
    with pytest.raises(bedload.SchemaError, match="values would change"):
        db.table("seconds", pa.schema([("at", pa.timestamp("s")), ("took", pa.duration("s"))]), time="at").append(
            {"at": at, "took": columns["took"]}
        )


def test_nulls_of_polars(readings: bedload.Table) -> None:
    nulls = pl.Series([None, None])
    readings.append({"at": [AT, AT], "celsius": nulls})
    readings.append(pl.DataFrame({"at": [AT, AT], "celsius": nulls}))
    assert celsius(readings) == [None] * 4


def test_a_name_that_a_row_lacks_is_null_only_if_it_may_be(db: bedload.Database) -> None:
    schema = pa.schema({"at": pa.timestamp("s"), "id": pa.int64(), "x": pa.float64()})
    table = db.table("t", schema, key=["id"])
    rows = [{"at": AT, "id": 1, "x": 0.5}, {"x": 1.5, "id": 2, "at": AT}, {"at": AT, "id": 3}]
    with pytest.raises(bedload.SchemaError, match="row 2 has no column 'x', which another row has"):
        table.append(rows)
    assert table.append(rows, allow_missing=True)["rows"] == 3
    assert table.range().to_pyarrow()["x"].to_pylist() == [0.5, 1.5, None]
    for name in ("at", "id"):
        lacking = [rows[0], {column: value for column, value in rows[1].items() if column != name}]
        with pytest.raises(bedload.SchemaError, match=f"row 1 has no column '{name}'"):
            table.append(lacking, allow_missing=True)
    with pytest.raises(bedload.SchemaError, match='no column "x"'):
        table.append([rows[2]])
    with pytest.raises(bedload.SchemaError, match='no column "y"'):
        table.append([{**rows[0], "y": 1}])
    assert table.append([])["rows"] == 0
    with pytest.raises(TypeError, match="list holds no rows"):
        table.append([rows[0], 1])
    assert table.count() == 3


def test_tables_are_made_of_values(db: bedload.Database) -> None:
    row = {
        "at": AT.replace(tzinfo=NEW_YORK),
        "utc": dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc),
        "fixed": dt.datetime(2026, 3, 1, tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30))),
        "naive": AT,
        "ns": pd.Timestamp(1),
        "day": AT.date(),
        "of_day": dt.time(6),
        "for": dt.timedelta(1),
        "decimal": Decimal("1.50"),
        "n": 1,
        "u": 2**63,
        "x": 0.5,
        "flag": True,
        "text": "a",
        "bytes": b"a",
    }
    table = db.table("t", [row], time="at")
    assert table.columns == {
        "at": 'Timestamp(µs, "America/New_York")',
        "utc": 'Timestamp(µs, "UTC")',
        "fixed": 'Timestamp(µs, "-03:30")',
        "naive": "Timestamp(µs)",
        "ns": "Timestamp(ns)",
        "day": "Date32",
        "of_day": "Time64(µs)",
        "for": "Duration(µs)",
        "decimal": "Decimal128(38, 2)",
        "n": "Int64",
        "u": "UInt64",
        "x": "Float64",
        "flag": "Boolean",
        "text": "Utf8",
        "bytes": "Binary",
    }
    table.append(row)
    assert table.last() == row
    with pytest.raises(bedload.SchemaError, match="times of several zones"):
        db.table("mixed", {"at": [row["at"], row["utc"]]})
