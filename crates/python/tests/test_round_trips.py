"""Rows go in and come out of each library with types, nulls, zones and order kept."""

from __future__ import annotations

import ctypes
import datetime as dt
import sys
from decimal import Decimal
from typing import Any, Callable

import bedload
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ZONE = "America/New_York"


def sample(zone: str | None = ZONE, unit: str = "us") -> pa.Table:
    """Rows of every type that a table keeps, out of order, with nulls."""
    at = pa.array([30, 10, 20, 10], pa.timestamp(unit, zone))
    return pa.table(
        {
            "at": at,
            "flag": pa.array([True, None, False, True]),
            "tiny": pa.array([1, -2, None, 4], pa.int8()),
            "big": pa.array([2**63, None, 0, 1], pa.uint64()),
            "half": pa.array([0.5, None, float("nan"), -0.0], pa.float32()),
            "text": pa.array(["ä", "", None, "b"]),
            "day": pa.array([dt.date(2020, 1, 1), None, dt.date(1969, 12, 31), dt.date(1, 1, 1)]),
            "other": pa.array([1, None, 3, 4], pa.timestamp("s", "UTC")),
            "key": pa.array([b"abc", None, b"xyz", b"..."], pa.binary(3)),
        }
    )


def in_order(table: pa.Table) -> pa.Table:
    order = np.argsort(table["at"].to_numpy(), kind="stable")
    return table.take(pa.array(order)).combine_chunks()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", ZONE, "+05:30"])
def test_pyarrow(db: bedload.Database, zone: str | None, unit: str) -> None:
    given_rows = sample(zone, unit)
    table = db.table("t", given_rows, time="at", create=True)
    assert table.append(given_rows)["rows"] == 4
    rows = table.range()
    assert (table.zone, table.unit) == (zone, unit)
    read = rows.to_pyarrow()
    assert read.cast(in_order(given_rows).schema).equals(in_order(given_rows)) or same(read, in_order(given_rows))
    assert read.schema.field("at").type == pa.timestamp(unit, zone)
    assert pa.table(rows).equals(read) or same(pa.table(rows), read), "a stream starts from the beginning each time"


def same(one: pa.Table, other: pa.Table) -> bool:
    """Equality in which NaN equals NaN."""
    return repr(one.to_pylist()) == repr(other.to_pylist())


def test_polars(db: bedload.Database) -> None:
    frame = pl.DataFrame(
        {
            "at": [dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 1)],
            "text": ["b", None],
            "kind": pl.Series(["x", "y"], dtype=pl.Categorical),
        }
    ).with_columns(pl.col("at").dt.replace_time_zone(ZONE))
    table = db.table("t", frame, create=True)
    table.append(frame)
    read = table.range().to_polars()
    assert read.schema["at"] == pl.Datetime("us", ZONE)
    assert read.equals(frame.with_columns(pl.col("kind").cast(pl.String)).sort("at"))
    assert pl.DataFrame(table.range()).equals(read)


def test_bytes_of_one_length_through_polars(db: bedload.Database) -> None:
    rows = pa.table({"at": pa.array([1, 2], pa.timestamp("s")), "key": pa.array([b"abc", None], pa.binary(3))})
    table = db.table("t", rows, create=True)
    table.append(rows)
    table.append(table.range().to_polars())
    assert table.range(columns=["key"]).to_pyarrow()["key"].to_pylist() == [b"abc", b"abc", None, None]


def test_zones_are_those_that_can_be_read(db: bedload.Database) -> None:
    def create(zone: str) -> bedload.Table:
        return db.table(f"of {zone}", pa.schema([("at", pa.timestamp("s", zone))]), create=True)

    for zone in ["utc", "Europe/Nowhere", "+25"]:
        with pytest.raises(bedload.SchemaError, match="zone"):
            create(zone)
    assert create("Z").zone == "UTC"
    table = create("+02")
    table.append(pa.table({"at": pa.array([1_577_829_600], pa.timestamp("s", "UTC"))}))
    first = table.first()
    assert first is not None and str(first["at"]) == "2020-01-01 00:00:00+02:00"
    assert db.tables == ["of Z", "of +02"]
    db.info()


def test_bounds_beyond_the_last_time(db: bedload.Database) -> None:
    table = db.table("t", pa.schema([("at", pa.timestamp("ns"))]), create=True)
    table.append(pa.table({"at": pa.array([-(2**63), 0, 2**63 - 1], pa.timestamp("ns"))}))
    assert [table.count(None, "2300-01-01"), table.count("2300-01-01"), table.count("2300-01-01", "2400-01-01")] == [
        3,
        0,
        0,
    ]
    assert [table.count("1600-01-01"), table.count(None, "1600-01-01"), table.count("1500-01-01", "1600-01-01")] == [
        3,
        0,
        0,
    ]
    table.delete("2300-01-01", None)
    assert table.count() == 3
    table.delete(None, "2300-01-01")
    assert table.count() == 0


def test_pandas(db: bedload.Database) -> None:
    frame = pd.DataFrame(
        {
            "at": pd.to_datetime(["2020-01-02", "2020-01-01"]).tz_localize(ZONE),
            "x": [1.5, np.nan],
            "text": ["b", None],
            "kind": pd.Categorical(["u", "v"]),
        }
    )
    table = db.table("t", frame, create=True)
    table.append(frame)
    read = table.range().to_pandas()
    assert str(read["at"].dt.tz) == ZONE
    assert read["x"].tolist()[1:] == [1.5] and np.isnan(read["x"][0])
    assert read["at"].tolist() == sorted(frame["at"])
    assert read["kind"].tolist() == ["v", "u"]


def test_pandas_indexes_without_a_name_are_left_out(db: bedload.Database) -> None:
    """A frame that was filtered or sorted has such an index, which pyarrow makes a column of."""
    at = pd.to_datetime(["2020-01-03", "2020-01-01", "2020-01-02", "2020-01-04"]).astype("M8[ns]")
    frame = pd.DataFrame({"at": at, "x": [1.0, np.nan, 3.0, 4.0]})
    table = db.table("t", frame)
    table.append(frame.dropna())
    table.append(pa.Table.from_pandas(frame.iloc[[1]]))
    assert table.range().to_pandas()["x"].tolist()[1:] == [3.0, 1.0, 4.0]
    for name, like in [
        ("sorted", frame.sort_values("at")),
        ("table", pa.Table.from_pandas(frame.dropna())),
        ("schema", pa.Schema.from_pandas(frame.dropna())),
        ("batch", pa.RecordBatch.from_pandas(frame.dropna())),
        ("levels", frame.set_index([[1, 2, 3, 4], [5, 6, 7, 8]])),
    ]:
        assert list(db.table(name, like).columns) == ["at", "x"], name
        assert list(db.table(name, like).columns) == ["at", "x"], f"{name}, which exists"
    named = frame.set_index("at")
    assert list(db.table("named", named, time="at").columns) == ["x", "at"]
    assert db.table("named").append(named)["rows"] == 4
    mixed = frame.set_index([pd.Index([1, 2, 3, 4], name="id"), [5, 6, 7, 8]])
    assert list(db.table("mixed", mixed).columns) == ["at", "x", "id"]
    # A column that only has such a name stays one, and so does one of a table that has it.
    odd = frame.rename(columns={"x": "__index_level_0__"})
    assert list(db.table("odd", odd).columns) == ["at", "__index_level_0__"]
    kept = db.table("odd")
    kept.append(frame[["at"]].sort_values("at"))
    assert kept.range().to_pandas()["__index_level_0__"].tolist() == [1, 2, 0, 3]
    plain = pa.table({"at": at, "__index_level_0__": [1, 2, 3, 4]}).replace_schema_metadata({"pandas": "no JSON"})
    assert list(db.table("plain", plain).columns) == ["at", "__index_level_0__"]


def test_pandas_ranges_with_a_name_are_columns(db: bedload.Database) -> None:
    """pandas gives the values of such an index to nobody: they are metadata of the stream."""
    at = pd.to_datetime(["2020-01-03", "2020-01-01"]).astype("M8[ns]")
    frame = pd.DataFrame({"at": at, "x": [1.0, 3.0]}, index=pd.RangeIndex(10, 14, 2, name="id"))
    table = db.table("t", frame)
    assert list(table.columns) == ["at", "x", "id"]
    table.append(frame)
    assert list(db.table("t", frame).columns) == ["at", "x", "id"]
    assert table.range().to_pandas()["id"].tolist() == [12, 10]
    assert isinstance(frame.index, pd.RangeIndex), "the frame stays as it is"
    assert list(db.table("unnamed", frame.rename_axis(None)).columns) == ["at", "x"]


def long_texts(kind: Callable[[pa.Array], pa.Array]) -> pa.Table:
    texts = [None, *(str(length) * length for length in range(9)), "long" * 24, None]
    at = pa.array(range(len(texts)), pa.timestamp("s"))
    return pa.table({"at": at, "text": kind(pa.array(texts)), "other": pa.array(texts)})


@pytest.mark.parametrize(
    "kind",
    [
        lambda texts: texts,
        lambda texts: texts.cast(pa.large_string()),
        lambda texts: texts.cast(pa.string_view()),
        lambda texts: texts.dictionary_encode(),
        lambda texts: texts.cast(pa.binary()),
        lambda texts: texts.cast(pa.large_binary()),
        lambda texts: texts.cast(pa.binary_view()),
    ],
)
def test_batches_with_more_text_than_a_commit_holds_are_cut(
    db: bedload.Database, kind: Callable[[pa.Array], pa.Array]
) -> None:
    """The limit, 1 GiB in earnest, is 200 bytes: a row has up to 192."""
    rows = long_texts(kind)
    table = db.table("t", rows)
    commits = db.metrics()["commits"]
    assert table._native.append(rows, "refuse", batch_bytes=200)["rows"] == 12
    assert db.metrics()["commits"] == commits + 2
    assert table.range().to_pyarrow().to_pylist() == rows.to_pylist()
    with pytest.raises(bedload.SchemaError, match="row 10 has 192 bytes of text") as failed:
        table._native.append(rows, "refuse", batch_bytes=191)
    assert failed.value.rows_appended == 0
    late = rows.set_column(0, "at", pa.array([*range(11), None], pa.timestamp("s")))
    with pytest.raises(bedload.SchemaError, match="no value in the time column") as failed:
        table._native.append(late, "refuse", batch_bytes=200)
    assert failed.value.rows_appended == 10
    assert table.append(rows)["rows"] == 12
    assert db.metrics()["commits"] == commits + 4, "one batch is one commit"


def test_categories_that_are_no_text(db: bedload.Database) -> None:
    at = pa.array([1, 2], pa.timestamp("s"))
    table = db.table("t", pa.schema([("at", pa.timestamp("s")), ("text", pa.string())]))
    for numbers in (pa.array([1, 2]), pa.array([1, 2]).dictionary_encode()):
        with pytest.raises(bedload.SchemaError, match='column "text" is Int64; the table\'s is Utf8'):
            table.append(pa.table({"at": at, "text": numbers}))
    counted = db.table("u", pa.schema([("at", pa.timestamp("s")), ("n", pa.int32())]))
    counted.append(pa.table({"at": at, "n": pa.array([1, 2]).dictionary_encode()}))
    assert counted.range().to_pyarrow()["n"].to_pylist() == [1, 2]


def test_numpy(db: bedload.Database) -> None:
    columns = {
        "at": np.array(["2020-01-02", "2020-01-01"], "datetime64[ms]"),
        "n": np.ma.MaskedArray(np.array([1, 2], np.int16), mask=[False, True]),
        "x": np.array([0.5, 1.5, 2.5, 3.5])[::2],
        "flag": np.array([True, False]),
        "text": np.array(["one", "two"]),
        "maybe": np.array([None, "c"], dtype=object),
        "day": np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        "swapped": np.array([1, 2], ">i4"),
    }
    table = db.table("t", columns, time="at", create=True)
    table.append(columns)
    read = table.range().to_numpy()
    assert read["at"].dtype == np.dtype("datetime64[ms]")
    assert read["at"].tolist() == sorted(columns["at"].tolist())
    assert read["n"].dtype == np.int16 and read["n"].tolist() == [None, 1]
    assert read["x"].tolist() == [2.5, 0.5]
    assert read["flag"].tolist() == [False, True]
    assert read["text"].tolist() == ["two", "one"]
    assert read["maybe"].tolist() == ["c", None]
    assert np.isnat(read["day"][0]) and read["day"][1] == np.datetime64("2020-01-01")
    assert read["swapped"].tolist() == [2, 1]


def test_structured_array(db: bedload.Database) -> None:
    rows = np.array([("2020-01-01", 1.0), ("2020-01-02", 2.0)], [("at", "datetime64[us]"), ("x", "f8")])
    table = db.table("t", rows, create=True)
    table.append(rows)
    assert table.range().to_numpy()["x"].tolist() == [1.0, 2.0]


def test_fields_that_lie_at_odd_places(db: bedload.Database) -> None:
    kind = np.dtype([("at", "M8[us]"), ("n", "i4"), ("x", "f8"), ("flag", "?"), ("time", "M8[D]")])
    assert kind.itemsize == 29
    rows = np.zeros(100, kind)
    rows["at"], rows["n"], rows["x"] = np.arange(100), np.arange(100) * 7, np.arange(100) / 8
    rows["flag"], rows["time"] = np.arange(100) % 3 == 0, np.arange(100)
    masked = np.ma.MaskedArray(rows["n"], mask=rows["flag"])
    columns = {name: rows[name] for name in kind.names or ()} | {"n": masked}
    table = db.table("t", rows, time="at")
    table.append(rows)
    assert all((table.range().to_numpy()[name] == rows[name]).all() for name in kind.names or ())
    table = db.table("masked", columns, time="at")
    table.append(columns)
    assert table.range().to_numpy()["n"].tolist() == masked.tolist()


def test_duckdb(db: bedload.Database) -> None:
    relation = duckdb.sql("SELECT TIMESTAMP '2020-01-01' + INTERVAL (i) HOUR AS at, i AS n FROM range(10) t(i)")
    table = db.table("t", relation, create=True)
    table.append(relation)
    rows = table.range("2020-01-01T03:00", "2020-01-01T06:00")
    assert rows.columns == ["at", "n"]
    assert duckdb.sql("SELECT count(*), sum(n) FROM rows").fetchall() == [(3, 12)]
    assert duckdb.sql("SELECT max(n) FROM rows").fetchall() == [(5,)], "a range is read again"


def test_a_single_batch(db: bedload.Database) -> None:
    batch = pa.RecordBatch.from_pydict({"at": pa.array([1], pa.timestamp("s"))})
    table = db.table("t", batch.schema, create=True)
    table.append(batch)
    assert table.count() == 1


def test_flights(db: bedload.Database, flights: pa.Table) -> None:
    table = db.table("departures", flights, time="departure", create=True)
    assert table.append(flights)["rows"] == 328_521
    read = table.range().to_pyarrow()
    order = np.argsort(flights["departure"].to_numpy(), kind="stable")
    expected = flights.take(pa.array(order)).combine_chunks()
    assert read.cast(expected.schema).equals(expected)


TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

values = st.tuples(
    st.integers(-(2**31), 2**33),
    st.integers(0, 10**9 - 1),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
    st.none() | st.floats(),
    st.none() | st.booleans(),
)


def frame_of(rows: list[tuple], schema: pa.Schema, unit: str) -> pa.Table:
    ticks = [seconds * TICKS[unit] + nanos * TICKS[unit] // 10**9 for seconds, nanos, *_ in rows]
    columns = [list(column) for column in zip(*rows)][2:] if rows else [[]] * 4
    return pa.table([ticks, *columns], schema=schema)


def ways_of(unit: str, zone: str | None) -> list[Callable[[pa.Table], Any]]:
    """The libraries that have times of this unit and zone, each as a way to make its frames of pyarrow's."""
    ways: list[Callable[[pa.Table], Any]] = [
        lambda frame: frame,
        lambda frame: frame.to_pandas(types_mapper=pd.ArrowDtype),
    ]
    if unit != "s" and zone != "+05:30":
        ways.append(pl.DataFrame)
    if zone is None or unit == "us":
        ways.append(duckdb.from_arrow)
    return ways


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(values, max_size=30), max_size=6),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from([None, "UTC", ZONE, "+05:30"]),
)
def test_any_frames(
    tmp_path_factory: pytest.TempPathFactory, frames: list[list[tuple]], unit: str, zone: str | None
) -> None:
    schema = pa.schema(
        [
            pa.field("at", pa.timestamp(unit, zone), nullable=False),
            ("n", pa.int64()),
            ("s", pa.string()),
            ("x", pa.float64()),
            ("b", pa.bool_()),
        ]
    )
    given_frames = [frame_of(rows, schema, unit) for rows in frames]
    ways = ways_of(unit, zone)
    with bedload.open(tmp_path_factory.mktemp("any") / "s", create=True, durability="relaxed") as db:
        table = db.table("t", schema, create=True)
        for number, frame in enumerate(given_frames):
            table.append(ways[number % len(ways)](frame))
        everything = pa.concat_tables([schema.empty_table(), *given_frames])
        order = np.argsort(everything["at"].to_numpy(), kind="stable")
        expected = everything.take(pa.array(order, pa.int64())).combine_chunks()
        rows = table.range()
        read = rows.to_pyarrow()
        assert read.schema.equals(schema)
        assert same_values(read, expected)
        pd.testing.assert_frame_equal(rows.to_pandas(), expected.to_pandas())
        if pl.DataFrame in ways:
            frame = rows.to_polars()
            assert frame.schema == pl.DataFrame(expected).schema
            assert frame.equals(pl.DataFrame(expected))
        if duckdb.from_arrow in ways:
            theirs = duckdb.sql("SELECT * FROM rows").to_arrow_table()
            assert same_values(theirs, duckdb.sql("SELECT * FROM expected").to_arrow_table())


def same_values(one: pa.Table, other: pa.Table) -> bool:
    def plain(table: pa.Table) -> list:
        table = table.set_column(0, "at", table["at"].cast(pa.int64()))
        return [repr(column.to_pylist()) for column in table.columns]

    return plain(one) == plain(other) and one.schema.types == other.schema.types


def test_days_in_milliseconds(db: bedload.Database) -> None:
    at = pa.array([1, 2, 3], pa.timestamp("s"))
    days = [dt.date(2020, 1, 1), None, dt.date(1969, 12, 31)]
    rows = pa.table({"at": at, "day": pa.array(days, pa.date64())})
    table = db.table("t", rows, time="at", create=True)
    table.append(rows)
    assert table.range().to_pyarrow()["day"].to_pylist() == days
    noon = pa.array([43_200_000, 0, 0], pa.int64()).view(pa.date64())
    with pytest.raises(bedload.SchemaError, match="values would change"):
        table.append(pa.table({"at": at, "day": noon}))


def test_a_column_that_is_there_twice(db: bedload.Database) -> None:
    at, n = pa.array([1], pa.timestamp("s")), pa.array([1])
    table = db.table("t", pa.table({"at": at, "n": n}), time="at", create=True)
    with pytest.raises(bedload.SchemaError, match='two columns are named "n"'):
        table.append(pa.Table.from_arrays([at, n, n], names=["at", "n", "n"]))
    assert table.count() == 0


def test_types_without_a_numpy_type(db: bedload.Database) -> None:
    rows = pa.table(
        {
            "at": pa.array([1, 2, 3], pa.timestamp("s")),
            "price": pa.array([Decimal("12.34"), None, Decimal("-0.01")], pa.decimal128(18, 2)),
            "raw": pa.array([b"\xff\x00", None, b""]),
            "time": pa.array([dt.time(1, 2, 3, 4), None, dt.time()], pa.time64("us")),
            "took": pa.array([dt.timedelta(milliseconds=5), None, dt.timedelta(days=-1)], pa.duration("ms")),
            "large": pa.array(["a", None, "c"], pa.large_string()),
            "category": pa.array(["a", None, "a"]).dictionary_encode(),
        }
    )
    table = db.table("t", rows, time="at", create=True)
    table.append(rows)
    table.append(pl.from_arrow(rows))
    read = table.range().to_pyarrow()
    assert read.take([0, 2, 4]).to_pylist() == rows.to_pylist()
    assert read.take([1, 3, 5]).to_pylist() == rows.to_pylist()
    assert read.schema.field("price").type == pa.decimal128(18, 2)
    assert read.schema.field("took").type == pa.duration("ms")
    assert table.range(where=[("price", ">", Decimal("12.33"))]).count() == 2
    for price in [Decimal("12.3400"), Decimal("1234e-2"), "12.34", 12.34]:
        assert table.range(where={"price": price}).count() == 2
    for sign in ["=", "!=", "<", "<=", ">", ">="]:
        for price in [Decimal("12.335"), "-0.005", 1e-9]:
            with pytest.raises(bedload.SchemaError, match="more digits than column 'price'"):
                table.range(where=[("price", sign, price)])
    with pytest.raises(bedload.SchemaError, match="is no number"):
        table.range(where={"price": Decimal("NaN")})
    with pytest.raises(bedload.Error, match="NumPy"):
        table.range().to_numpy()
    first, second = repr(table.range()).splitlines()[2:5:2]
    assert first == "  1970-01-01T00:00:01 | 12.34 | b'\\xff\\x00' | 01:02:03.000004 | PT0.005S | a | a"
    assert second == "  1970-01-01T00:00:02 | None | None | None | None | None | None"


class Months:
    """Rows whose last column, of int32, counts months: intervals that pyarrow does not make."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.rows = rows

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        schema, array = self.rows.__arrow_c_array__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        words = ctypes.cast(pointer_of(schema, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))
        # An `ArrowSchema` begins with format, name, metadata, flags and the number of children.
        children = ctypes.cast(words[5], ctypes.POINTER(ctypes.c_void_p))
        last = children[self.rows.num_columns - 1]
        ctypes.cast(last, ctypes.POINTER(ctypes.c_char_p))[0] = b"tiM"
        return schema, array


@pytest.mark.parametrize("is_flushed", [False, True])
def test_single_rows_with_months(db: bedload.Database, is_flushed: bool) -> None:
    at = pa.array([1, 2], pa.timestamp("s"))
    rows = Months(pa.record_batch({"at": at, "n": [1, 2], "months": pa.array([-14, None], pa.int32())}))
    table = db.table("t", rows)
    assert table.columns["months"] == "Interval(YearMonth)"
    table.append(rows)
    if is_flushed:
        db.flush()
    for row in (table.first(), table.get(1)):
        assert row == {"at": dt.datetime(1970, 1, 1, 0, 0, 1), "n": 1, "months": -14}
    assert (table.last() or {})["months"] is None
    assert "1970-01-01T00:00:01 | 1 | " in repr(table.range())


@pytest.mark.parametrize("is_flushed", [False, True])
def test_single_rows_of_all_types(db: bedload.Database, is_flushed: bool) -> None:
    rows = pa.table(
        {
            "at": pa.array([dt.datetime(2024, 2, 29, 12)], pa.timestamp("us")),
            "d32": pa.array([Decimal("-12.34")], pa.decimal32(9, 2)),
            "d64": pa.array([Decimal("0.0001")], pa.decimal64(18, 4)),
            "d128": pa.array([Decimal("9" * 36 + ".99")], pa.decimal128(38, 2)),
            "d256": pa.array([Decimal("-" + "9" * 70 + ".12345")], pa.decimal256(76, 5)),
            "f16": pa.array([np.float16(1.5)], pa.float16()),
            "day": pa.array([dt.date(1969, 12, 31)]),
            "t32": pa.array([dt.time(23, 59, 59, 999000)], pa.time32("ms")),
            "t64": pa.array([dt.time(1, 2, 3, 4)], pa.time64("us")),
            "took": pa.array([dt.timedelta(days=-1, milliseconds=5)], pa.duration("ms")),
            "raw": pa.array([b"\xff\x00"]),
            "fixed": pa.array([b"abc"], pa.binary(3)),
            "flag": pa.array([True]),
            "none": pa.array([None], pa.decimal128(4, 1)),
        }
    )
    table = db.table("t", rows, time="at")
    table.append(rows)
    if is_flushed:
        db.flush()
    (expected,) = rows.to_pylist()
    for row in (table.get(expected["at"]), table.first(), table.last()):
        assert row == expected
        assert [type(value) for value in row.values()] == [type(value) for value in expected.values()]


def test_single_rows_of_nanoseconds(db: bedload.Database) -> None:
    at, ticks = pa.array([1, 2], pa.timestamp("s")), pa.array([1_001_000, 1])
    rows = pa.table({"at": at, "time": ticks.cast(pa.time64("ns")), "took": ticks.cast(pa.duration("ns"))})
    table = db.table("t", rows, time="at")
    table.append(rows)
    first = table.first()
    assert first is not None
    assert first["time"] == dt.time(microsecond=1001) and first["took"] == np.timedelta64(1_001_000, "ns")
    for read in (table.last, lambda: table.get("1970-01-01T00:00:02")):
        with pytest.raises(bedload.SchemaError, match="datetime.time has not"):
            read()


@pytest.mark.parametrize("zone", [None, ZONE])
def test_nanoseconds_without_pandas(db: bedload.Database, monkeypatch: pytest.MonkeyPatch, zone: str | None) -> None:
    rows = pa.table({"at": pa.array([1_001, 2_002], pa.timestamp("ns", zone))})
    table = db.table("t", rows)
    table.append(rows)
    assert table.first() == {"at": pd.Timestamp(1_001, unit="ns", tz=zone and "UTC")}
    monkeypatch.setitem(sys.modules, "pandas", None)
    first, last = np.datetime64(1_001, "ns"), np.datetime64(2_002, "ns")
    assert table.first() == table.get(1_001) == {"at": first}
    assert table.last() == {"at": last}
    (told,) = db.info()["tables"]
    assert (told["first"], told["last"]) == (first, last)


@pytest.mark.parametrize(("zone", "ticks"), [("America/New_York", -(2**63) + 1), ("Asia/Tokyo", 2**63 - 1)])
def test_nanoseconds_that_the_clocks_of_a_zone_do_not_reach(db: bedload.Database, zone: str, ticks: int) -> None:
    rows = pa.table({"at": pa.array([ticks], pa.timestamp("ns", zone))})
    table = db.table("t", rows)
    table.append(rows)
    only = np.datetime64(ticks, "ns")
    assert table.first() == table.get(ticks) == {"at": only}
    (told,) = db.info()["tables"]
    assert told["first"] == told["last"] == only


def test_arrays_that_are_no_rows(db: bedload.Database) -> None:
    table = db.table("t", pa.schema([("at", pa.timestamp("s"))]))
    for array in (pa.array([1, 2]), pa.array(["a"]).dictionary_encode()):
        with pytest.raises(TypeError, match="an array of rows is of structs"):
            table.append(array)
        with pytest.raises(TypeError, match="an array of rows is of structs"):
            table.append(pa.chunked_array([array]))
        with pytest.raises(TypeError):
            db.table("other", array)
    table.append(pa.array([{"at": dt.datetime(2024, 1, 1)}], pa.struct([("at", pa.timestamp("s"))])))
    assert table.count() == 1 and db.tables == ["t"]


def test_null_rows_are_refused(db: bedload.Database) -> None:
    at, n = pa.array([1, 2, 3], pa.timestamp("s")), pa.array([1, 2, 3])
    table = db.table("t", pa.table({"at": at, "n": n}))
    rows = pa.StructArray.from_arrays([at, n], ["at", "n"], mask=pa.array([False, True, False]))
    for masked in (rows, pa.chunked_array([rows])):
        with pytest.raises(bedload.SchemaError, match="must have no null rows"):
            table.append(masked)
    table.append(pa.chunked_array([rows[:1], rows[2:]]))
    assert table.range().to_pyarrow()["n"].to_pylist() == [1, 3]


def test_a_column_of_polars_without_a_type(db: bedload.Database) -> None:
    noon = dt.datetime(2024, 1, 1, 12)
    typed = pl.DataFrame({"at": [noon], "n": [7], "text": ["x"], "day": [noon.date()]})
    table = db.table("t", typed)
    table.append(typed)
    untyped = typed.select("at", n=pl.lit(None), text=pl.lit(None), day=pl.lit(None))
    assert untyped.schema["n"] == pl.Null
    table.append(untyped)
    assert table.range().to_polars().select("n", "text", "day").rows() == [
        (7, "x", noon.date()),
        (None, None, None),
    ]
    with pytest.raises(bedload.SchemaError, match="more"):
        table.append(untyped.with_columns(more=pl.lit(None)))
