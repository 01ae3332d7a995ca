"""Conditions of ranges, by the types of columns."""

from __future__ import annotations

import datetime as dt
from typing import Any

import bedload
import numpy as np
import pyarrow as pa
import pytest


@pytest.fixture
def table(db: bedload.Database) -> bedload.Table:
    rows = pa.table(
        {
            "at": pa.array([1, 2, 3], pa.timestamp("s")),
            "took": pa.array([-1_500, 0, 90_000], pa.duration("ms")),
            "short": pa.array([0, 23_400, 86_399], pa.time32("s")),
            "clock": pa.array([0, 23_400_000_001, 86_399_999_999], pa.time64("us")),
            "raw": pa.array([b"", b"a\x00", b"\xff"]),
            "fixed": pa.array([b"aa", b"ab", b"\xff\xff"], pa.binary(2)),
            "day": pa.array([dt.date(2013, 1, 1), dt.date(2013, 2, 8), None]),
        }
    )
    table = db.table("t", rows, time="at")
    table.append(rows)
    return table


@pytest.mark.parametrize(
    ("column", "sign", "value", "expected"),
    [
        ("took", ">", dt.timedelta(0), [3]),
        ("took", "=", "90s", [3]),
        ("took", "<", np.timedelta64(0, "s"), [1]),
        ("took", "in", [0, dt.timedelta(milliseconds=-1_500)], [1, 2]),
        ("short", ">=", dt.time(6, 30), [2, 3]),
        ("short", "=", "06:30", [2]),
        ("short", "=", "T0630", [2]),
        ("short", "<=", "06:30:00.0", [1, 2]),
        ("short", "=", 86_399, [3]),
        ("clock", ">", dt.time(6, 30), [2, 3]),
        ("clock", "=", dt.time(6, 30, 0, 1), [2]),
        ("clock", "!=", "06:30:00.000001", [1, 3]),
        ("raw", "=", b"a\x00", [2]),
        ("raw", ">", bytearray(b"a"), [2, 3]),
        ("raw", "in", [b"", b"\xff"], [1, 3]),
        ("fixed", "<", b"ab", [1]),
        ("fixed", "in", [b"ab", b"\xff\xff"], [2, 3]),
        ("day", "=", "2013-02-08", [2]),
        ("day", "<", "2013-01-02", [1]),
    ],
)
def test_types(table: bedload.Table, column: str, sign: str, value: Any, expected: list[int]) -> None:
    rows = table.range(where=[(column, sign, value)])
    assert [row["at"].second for row in rows.to_pyarrow().to_pylist()] == expected


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("took", dt.timedelta(microseconds=1), "is not whole"),
        ("took", "1us", "is not whole"),
        ("short", dt.time(0, 0, 0, 1), "between two ticks"),
        ("short", dt.time(tzinfo=dt.timezone.utc), "no time of day without a zone"),
        ("clock", "06:30:00.1234567", "between two ticks"),
        ("clock", "24:00", "no time of day"),
        ("clock", "noon", "no time of day"),
        ("clock", 1.5, "no time of day"),
        ("raw", "a", "is no value of column"),
        ("fixed", b"a", "is no value of column"),
        ("fixed", "ab", "is no value of column"),
        ("day", "2013", "is no day"),
        ("day", "2013-02", "is no day"),
        ("day", "2013-02-08T00:00", "is no day"),
    ],
)
def test_values_that_do_not_fit(table: bedload.Table, column: str, value: Any, message: str) -> None:
    for sign, given in [("=", value), (">=", value), ("in", [value])]:
        with pytest.raises(bedload.SchemaError, match=message):
            table.range(where=[(column, sign, given)])
