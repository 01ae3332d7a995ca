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
import results

RUST = Path(__file__).resolve().parents[3] / "target" / "release" / "examples" / "copies"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rust", type=Path, default=RUST)
    parser.add_argument("--results", type=Path, help="a file of results for bedload-bench report")
    parser.add_argument("--note", default="", help="what else ran on the machine")
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
    samples: results.Samples = {
        ("rust", "append"): [rust["append"] for rust, _ in rounds],
        ("rust", "read, batches dropped"): [statistics.median(rust["scan"]) for rust, _ in rounds],
        ("rust", "read, batches kept"): [statistics.median(rust["scan, kept"]) for rust, _ in rounds],
        ("python", "append"): [python["append"] for _, python in rounds],
        ("python", "read, batches kept"): [statistics.median(python["read"]) for _, python in rounds],
        ("python", "memory before the store is opened"): [python["before"] for _, python in rounds],
        ("python", "memory at most"): [python["peak"] for _, python in rounds],
    }
    units = dict.fromkeys(("memory before the store is opened", "memory at most"), "MiB")
    print(f"{options.rows:,} rows, medians of {options.rounds} rounds")
    for (subject, metric), values in samples.items():
        print(f"{subject}, {metric}: {statistics.median(values):,.0f} {units.get(metric, 'ms')}")
    if options.results:
        results.write(options.results, options.rows, samples, units, options.note)


def run(command: list) -> dict:
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


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
