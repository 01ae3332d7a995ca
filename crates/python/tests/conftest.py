"""Stores in directories of their own."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Iterator

import bedload
import pyarrow as pa
import pyarrow.csv
import pytest

FLIGHTS = Path(__file__).resolve().parents[3] / "examples" / "data" / "flights.csv.gz"


def rows_of(times: list[int], unit: str = "s", zone: str | None = "UTC") -> pa.Table:
    return pa.table({"at": pa.array(times, pa.timestamp(unit, zone)), "n": pa.array(range(len(times)), pa.int64())})


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
