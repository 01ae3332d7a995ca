"""Costs of the way between Arrow and a store: the same append and the same read from Python and from Rust.

Each round is a process of either. The Rust program is `crates/store/examples/copies.rs`, built in release mode.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

import bedload
import numpy as np
import pyarrow as pa

RUST = Path(__file__).resolve().parents[3] / "target" / "release" / "examples" / "copies"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rust", type=Path, default=RUST)
    parser.add_argument("--once", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(measure(options.once, options.rows)))
        return
    this = [sys.executable, __file__, "--rows", str(options.rows), "--once"]
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as path:
            rust = run([options.rust, path, str(options.rows)])
        with tempfile.TemporaryDirectory() as path:
            python = run([*this, path])
        rounds.append((rust, python))
    print(f"{options.rows:,} rows, medians of {options.rounds} rounds")
    append = [(rust["append"], python["append"]) for rust, python in rounds]
    show("append", append)
    scan = [(statistics.median(rust["scan"]), statistics.median(python["read"])) for rust, python in rounds]
    show("read into pyarrow, and a scan that drops its batches", scan)
    kept = [(statistics.median(rust["scan, kept"]), statistics.median(python["read"])) for rust, python in rounds]
    show("read into pyarrow, and a scan that keeps them", kept)
    memory = statistics.median(python["peak"] for _, python in rounds)
    before = statistics.median(python["before"] for _, python in rounds)
    print(f"peak memory of the Python process {memory:,.0f} MiB, {before:,.0f} MiB of it before the store is opened")


def run(command: list) -> dict:
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def show(name: str, pairs: list[tuple[float, float]]) -> None:
    rust, python = (statistics.median(times) for times in zip(*pairs))
    ratio = statistics.median(python / rust for rust, python in pairs)
    print(f"{name}: Rust {rust:.0f} ms, Python {python:.0f} ms, ratio {ratio:.2f}")


def measure(path: Path, rows: int) -> dict:
    """The calls of the Rust program, from Python."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "at": pa.array(np.arange(rows) * 10 - rng.integers(0, 1000, rows), pa.timestamp("ms")),
            "sensor": np.arange(rows) % 1024,
            "value": rng.random(rows),
        }
    )
    before = peak()
    with bedload.open(path / "python", create=True) as db:
        stored = db.table("t", table, create=True)
        append = milliseconds(lambda: stored.append(table))
        db.flush()
        read = [milliseconds(lambda: stored.range().to_pyarrow()) for _ in range(3)]
    return {"append": append, "read": read, "before": before, "peak": peak()}


def milliseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e3


def peak() -> float:
    """The most memory that the process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
