"""Lazy queries, order of arrays, the index in memory."""

from __future__ import annotations

import datetime as dt

import bedload
import matplotlib
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from bedload._polars import bounds
from bedload._times import TimeType

matplotlib.use("agg")

UTC = dt.timezone.utc
AT = pl.col("at")


def moment(second: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=second)


@pytest.fixture
def table(db: bedload.Database) -> bedload.Table:
    rows = pa.table(
        {"at": pa.array(range(1000), pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC")), "n": range(1000)}
    )
    table = db.table("t", rows, create=True)
    table.append(rows)
    return table


PREDICATES = [
    (AT >= moment(10)) & (AT < moment(20)),
    (AT > moment(10)) & (moment(20) >= AT),
    AT == moment(5),
    AT.is_between(moment(3), moment(6)),
    AT.is_between(moment(3), moment(6), closed="none"),
    (AT < moment(5)) | (AT > moment(990)),
    (AT < moment(50)) & (pl.col("n") % 7 == 0),
    ~(AT < moment(500)),
    AT.dt.minute() == 3,
    AT != moment(5),
]


@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
def test_lazy_queries_answer_as_eager_ones(table: bedload.Table, predicate: pl.Expr) -> None:
    lazy, eager = table.scan_polars(), table.range().to_polars()
    assert lazy.filter(predicate).collect().equals(eager.filter(predicate))
    assert lazy.filter(predicate).select("n").head(3).collect().equals(eager.filter(predicate).select("n").head(3))
    assert lazy.head(7).filter(predicate).collect().equals(eager.head(7).filter(predicate))
    assert lazy.select(pl.len()).collect().item() == 1000


def test_times_are_pushed_down() -> None:
    kind = TimeType("us", "UTC")
    assert bounds((AT >= moment(10)) & (AT < moment(20)), "at", kind) == (10_000_000, 20_000_001)
    assert bounds(AT.is_between(moment(3), moment(6)), "at", kind) == (3_000_000, 6_000_001)
    assert bounds((AT < moment(5)) | (AT > moment(990)), "at", kind) == (None, None)
    assert bounds(AT >= dt.datetime(1970, 1, 1), "at", kind) == (None, None), "not of one kind"


def test_lazy_queries_see_new_rows(table: bedload.Table) -> None:
    lazy = table.scan_polars()
    table.append(pa.table({"at": pa.array([5_000_000_000], pa.timestamp("us", "UTC")), "n": [1]}))
    assert lazy.select(pl.len()).collect().item() == 1001


@pytest.mark.parametrize(
    "values",
    [
        np.array([10, 30, 40, 20, 20, 50]),
        np.array([10, 30, 40, 20, 20, 50], np.uint8),
        np.array([-1.0, -0.5, 4.0, -0.75, -0.75, 5.0]),
        np.array([10, 30, 40, 20, 20, 50], "datetime64[s]"),
        [10, 30, 40, 20, 20, 50],
    ],
)
def test_sortedness(values: object) -> None:
    found = bedload.sortedness(values)
    assert (found.rows, found.k, found.l, found.late, found.inversions) == (6, 2, 2, 2, 1)
    assert found.displacement.tolist() == [0, 2, 2, -2, -2, 0]
    assert (found.k_share, found.l_share, found.late_share) == (2 / 6, 2 / 6, 2 / 6)
    axes = found.plot()
    assert axes.get_title() == "K 33.3%, L 2 rows, late 33.3%"
    assert found.plot(axes, points=2) is axes


def test_sortedness_of_what_has_no_order() -> None:
    assert bedload.sortedness([]).k_share == 0.0
    masked = np.ma.MaskedArray([1, 2, 3], mask=[False, True, False])
    for wrong in [[float("nan")], np.array(["NaT"], "datetime64[s]"), np.zeros((2, 2)), ["a"], masked]:
        with pytest.raises(bedload.SchemaError):
            bedload.sortedness(wrong)
    assert bedload.sortedness(np.ma.MaskedArray([1, 3, 2])).late == 1


@pytest.mark.parametrize(
    "values",
    [
        [2**63 + 1, 2**63, np.int64(2)],
        [np.uint64(2**53 + 1), np.int64(2**53)],
        [np.datetime64("2300-01-01"), np.datetime64("2020-01-01T00:00:00.000001")],
        [np.timedelta64(1, "ns"), np.timedelta64(0, "s")],
        [np.timedelta64(2, "ns"), np.timedelta64(1, "ns")],
    ],
)
def test_sortedness_of_mixed_scalars_is_exact(values: list[object]) -> None:
    assert bedload.sortedness(values).inversions == len(values) - 1


def test_sortedness_refuses_lists_that_an_array_would_round() -> None:
    with pytest.raises(bedload.SchemaError, match="row 0 .* would be rounded"):
        bedload.sortedness([2**53 + 1, 2**53, 0.5])
    with pytest.raises(bedload.SchemaError, match="missing values"):
        bedload.sortedness([1, None])
    far = [np.datetime64("2300-01-01"), np.datetime64("2020-01-01T00:00:00.000000001")]
    with pytest.raises(bedload.SchemaError, match="beyond those that 64 bits count"):
        bedload.sortedness(far)


def test_sortedness_of_flights(flights: pa.Table) -> None:
    found = bedload.sortedness(flights["departure"].to_numpy())
    assert (found.rows, found.k, found.l) == (328_521, 156_941, 770)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_index(dtype: type) -> None:
    rng = np.random.default_rng(1)
    index = bedload.Index(dtype)
    keys = rng.permutation(10_000).astype(dtype)
    if dtype is np.int64:
        keys -= 5_000
    index.insert(keys, np.arange(10_000))
    assert len(index) == 10_000 and "10,000 keys" in repr(index)
    assert index.get(keys).tolist() == list(range(10_000))
    assert index.get([20_000]).mask.tolist() == [True]
    found, values = index.range()
    assert found.dtype == dtype and (np.diff(found.astype(np.int64)) == 1).all()
    assert (keys[values.astype(np.int64)] == found).all()
    assert index.range(10, 20, limit=3)[0].tolist() == [10, 11, 12]
    assert index.remove([10, 11, 50_000]) == 2
    assert index.range(10, 13)[0].tolist() == [12]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_index_of_fields_that_lie_at_odd_places(dtype: type) -> None:
    pairs = np.zeros(100, [("key", dtype), ("flag", "?"), ("value", np.uint64)])
    pairs["key"], pairs["value"] = np.arange(100), np.arange(100) * 7
    index = bedload.Index(dtype)
    index.insert(pairs["key"], pairs["value"])
    assert index.get(pairs["key"]).tolist() == pairs["value"].tolist()
    assert index.remove(pairs["key"]) == 100


def test_index_refuses() -> None:
    with pytest.raises(bedload.SchemaError):
        bedload.Index(np.int32)
    with pytest.raises(bedload.SchemaError):
        bedload.Index(np.uint64).insert([-1], [1])
    with pytest.raises(bedload.SchemaError):
        bedload.Index().insert([1.5], [1])
    masked = np.ma.array([1, 2], mask=[False, True])
    for keys, values in [(masked, [1, 2]), ([1, 2], masked)]:
        with pytest.raises(bedload.SchemaError, match="masked"):
            bedload.Index().insert(keys, values)
    with pytest.raises(bedload.SchemaError, match="1 keys and 2 values"):
        bedload.Index().insert([1], [1, 2])
