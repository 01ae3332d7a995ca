"""Costs of the way between Arrow and a store: append of a long Arrow table, and a full read into pyarrow.

The bounds are the same calls without Python's libraries around them: an append of batches that need no cast, and a scan
whose batches are dropped.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

import bedload
import numpy as np
import pyarrow as pa


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "at": pa.array(np.arange(options.rows) * 10 - rng.integers(0, 1000, options.rows), pa.timestamp("ms")),
            "sensor": np.arange(options.rows) % 1024,
            "value": rng.random(options.rows),
        }
    )
    print(
        f"{options.rows:,} rows, {table.nbytes / 1e6:.0f} MB of Arrow; peak memory {peak():,.0f} MiB before the store"
    )
    seconds: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as path, bedload.open(Path(path) / "s", create=True) as db:
            stored = db.table("t", table, create=True)
            timed(seconds, "append", lambda stored=stored: stored.append(table))
            db.flush()
            timed(seconds, "scan, batches dropped", lambda stored=stored: sum(len(batch) for batch in stored.range()))
            timed(seconds, "read into pyarrow", lambda stored=stored: stored.range().to_pyarrow())
            timed(seconds, "scan again", lambda stored=stored: sum(len(batch) for batch in stored.range()))
    for name, measured in seconds.items():
        median = statistics.median(measured)
        print(f"{name:24}{median * 1e3:9.1f} ms {options.rows / median / 1e6:8.2f} M rows/s")
    ratio = statistics.median(
        read / scan for read, scan in zip(seconds["read into pyarrow"], seconds["scan, batches dropped"])
    )
    print(f"read into pyarrow / scan: {ratio:.2f}; peak memory {peak():,.0f} MiB")


def timed(seconds: dict[str, list[float]], name: str, call: object) -> None:
    begun = time.perf_counter()
    call()  # type: ignore[operator]
    seconds.setdefault(name, []).append(time.perf_counter() - begun)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
