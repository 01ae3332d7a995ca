"""Rows as dicts of columns that are no arrays of NumPy's."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import bedload
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

ZONE = "America/New_York"
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=ZoneInfo(ZONE))
ARROW = pa.array([NOON], pa.timestamp("us", ZONE))


@pytest.mark.parametrize(
    "times",
    [
        ARROW,
        pa.chunked_array([ARROW.slice(1), ARROW]),
        pl.Series([NOON]),
        pl.Series([NOON]).dt.convert_time_zone("Asia/Tokyo"),
        pd.Series([NOON]),
        pd.DatetimeIndex([NOON]),
        pd.array([NOON]),
    ],
    ids=lambda times: type(times).__name__,
)
def test_times_keep_their_zone(db: bedload.Database, times: Any) -> None:
    table = db.table("t", {"at": times, "x": [1.5]})
    assert table.append({"at": times, "x": [1.5]})["rows"] == 1
    assert table.get(NOON) == {"at": NOON, "x": 1.5}


@pytest.mark.parametrize(
    "numbers",
    [
        pa.array([0.5, None, float("nan")]),
        pa.chunked_array([[0.5], [None, float("nan")]]),
        pl.Series([0.5, None, float("nan")], strict=False),
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array([0.5, None, float("nan")]))),
    ],
    ids=lambda numbers: type(numbers).__name__,
)
def test_nulls_are_told_from_nan(db: bedload.Database, numbers: Any) -> None:
    table = db.table("t", pa.schema({"at": pa.timestamp("s"), "x": pa.float64()}))
    table.append({"at": np.arange(3).astype("M8[s]"), "x": numbers})
    assert table.range().to_pyarrow()["x"].is_null().to_pylist() == [False, True, False]


def test_nullable_types_of_pandas(db: bedload.Database) -> None:
    columns = {
        "n": pd.array([2**53 + 1, None], "Int64"),
        "x": pd.array([0.5, None], "Float64"),
        "flag": pd.array([True, None], "boolean"),
        "text": pd.array(["a", None], "string"),
        "kind": pd.Series(["b", None], dtype="category"),
    }
    rows = {"at": np.arange(2).astype("M8[s]"), **columns}
    table = db.table("t", rows)
    table.append(rows)
    read = table.range(columns=list(columns)).to_pyarrow().to_pylist()
    assert read == [{"n": 2**53 + 1, "x": 0.5, "flag": True, "text": "a", "kind": "b"}, dict.fromkeys(columns)]


def test_nan_in_series_of_numpy_is_a_number(db: bedload.Database) -> None:
    table = db.table("t", {"at": np.zeros(0, "M8[s]"), "x": np.zeros(0)})
    table.append({"at": np.arange(2).astype("M8[s]"), "x": pd.Series([0.5, np.nan])})
    assert table.range().to_pyarrow()["x"].null_count == 0


@pytest.mark.parametrize("column", ["at", "other", "day"])
def test_days_beyond_those_of_a_table_are_refused(db: bedload.Database, column: str) -> None:
    rows = {
        "at": np.array(["2024-01-01"], "M8[s]"),
        "other": np.array(["2024-01-01"], "M8[s]"),
        "day": np.array(["2024-01-01"], "M8[D]"),
    }
    table = db.table("t", rows, time="at")
    with pytest.raises(bedload.SchemaError, match=f'"{column}" has days beyond'):
        table.append(rows | {column: np.array([2**31], "M8[D]")})
    assert table.append(rows | {column: np.array([10_000_000], "M8[D]")})["rows"] == 1


def test_columns_of_several_lengths_are_named(db: bedload.Database) -> None:
    rows = {"at": np.zeros(2, "M8[s]"), "x": np.zeros(3)}
    with pytest.raises(bedload.SchemaError, match='"x" has 3 rows, and the first column has 2'):
        db.table("t", rows)
    with pytest.raises(bedload.SchemaError, match="no columns"):
        db.table("t", {})


def test_parts_of_days_are_not_dropped(db: bedload.Database) -> None:
    table = db.table("t", {"at": np.zeros(0, "M8[s]")})
    millis = np.array([-1, 86_400_001])
    for part in millis:
        days = pa.Array.from_buffers(pa.date64(), 1, [None, pa.py_buffer(np.array([part]))])
        with pytest.raises(bedload.SchemaError, match="not a whole second"):
            table.append(pa.table({"at": days}))
    assert table.count() == 0
