"""Stores in directories of their own."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Iterator

import bedload
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

FLIGHTS = Path(__file__).resolve().parents[3] / "examples" / "data" / "flights.csv.gz"


def rows_of(times: list[int], unit: str = "s", zone: str | None = "UTC") -> pa.Table:
    return pa.table({"at": pa.array(times, pa.timestamp(unit, zone)), "n": pa.array(range(len(times)), pa.int64())})


def numbers(rows: bedload.Rows) -> list[int]:
    return rows.to_pyarrow()["n"].to_pylist()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[bedload.Database]:
    with bedload.open(tmp_path / "store", create=True) as db:
        yield db


@pytest.fixture
def table(db: bedload.Database) -> bedload.Table:
    table = db.table("t", rows_of([]), create=True)
    table.append(rows_of([10, 30, 20, 20]))
    return table


@pytest.fixture(scope="session")
def flights() -> pa.Table:
    """The 328,521 departures of a year, in the order in which they were scheduled."""
    with gzip.open(FLIGHTS) as file:
        table = pyarrow.csv.read_csv(file)
    return table.filter(pa.compute.is_valid(table["departure"]))


@pytest.fixture(scope="session")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "s"
    rows = 3_000_000
    columns = {"at": np.arange(rows).astype("datetime64[ms]"), "x": np.random.default_rng(1).random(rows)}
    with bedload.open(path, create=True, durability="relaxed", page_bytes=4096) as db:
        db.table("t", columns).append(columns)
    return path
