"""Append late rows, then query the newest hour: Bedload beside SQLite, DuckDB and a Parquet file that is rewritten.

Each round appends a minute's rows, each up to ten minutes late, and reads the newest hour into pandas. All start from
the same day of rows, take turns within a round, and must give the same rows. All but Parquet sync to the disk.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bedload
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import results

HOUR = 3_600_000
MINUTE = 60_000
LATE = 10 * MINUTE
START = 1_700_000_000_000


def rows(rng: np.random.Generator, first: int, stop: int, every: int) -> pd.DataFrame:
    arrived = np.arange(first, stop, every, dtype=np.int64)
    # The sensor makes rows of one time distinct, so that answers can be compared.
    sensors = np.arange(len(arrived), dtype=np.int64)
    times = arrived - rng.integers(0, LATE, len(arrived))
    return pd.DataFrame({"at": times, "sensor": sensors, "value": rng.random(len(arrived))})


class Bedload:
    def __init__(self, path: Path, first: pd.DataFrame) -> None:
        self.db = bedload.open(path / "bedload", create=True)
        self.table = self.db.table("readings", self.typed(first), create=True)
        self.append(first)

    def typed(self, frame: pd.DataFrame) -> pa.Table:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        return table.set_column(0, "at", table["at"].cast(pa.timestamp("ms")))

    def append(self, frame: pd.DataFrame) -> None:
        self.table.append(self.typed(frame))

    def newest(self, since: int) -> pd.DataFrame:
        return self.table.range(since).to_pandas()


class Sqlite:
    def __init__(self, path: Path, first: pd.DataFrame) -> None:
        self.db = sqlite3.connect(path / "sqlite")
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute("CREATE TABLE readings (at INTEGER, sensor INTEGER, value REAL)")
        self.db.execute("CREATE INDEX readings_at ON readings (at)")
        self.append(first)

    def append(self, frame: pd.DataFrame) -> None:
        with self.db:
            columns = (frame[name].tolist() for name in frame)
            self.db.executemany("INSERT INTO readings VALUES (?, ?, ?)", zip(*columns))

    def newest(self, since: int) -> pd.DataFrame:
        return pd.read_sql_query("SELECT * FROM readings WHERE at >= ? ORDER BY at", self.db, params=(since,))


class Duckdb:
    def __init__(self, path: Path, first: pd.DataFrame) -> None:
        self.db = duckdb.connect(path / "duckdb")
        self.db.execute('CREATE TABLE readings ("at" BIGINT, sensor BIGINT, value DOUBLE)')
        self.append(first)

    def append(self, frame: pd.DataFrame) -> None:
        self.db.execute("INSERT INTO readings SELECT * FROM frame")

    def newest(self, since: int) -> pd.DataFrame:
        return self.db.execute('SELECT * FROM readings WHERE "at" >= ? ORDER BY "at"', [since]).df()


class Parquet:
    def __init__(self, path: Path, first: pd.DataFrame) -> None:
        self.path = path / "parquet"
        self.write(pa.Table.from_pandas(first, preserve_index=False))

    def write(self, table: pa.Table) -> None:
        pq.write_table(table.sort_by("at"), self.path)

    def append(self, frame: pd.DataFrame) -> None:
        late = pa.Table.from_pandas(frame, preserve_index=False)
        self.write(pa.concat_tables([pq.read_table(self.path), late]))

    def newest(self, since: int) -> pd.DataFrame:
        return pq.read_table(self.path, filters=pc.field("at") >= since).to_pandas()


NAMES = {
    "Bedload": "bedload",
    "Sqlite": "sqlite",
    "Duckdb": "duckdb",
    "Parquet": "parquet, rewritten",
}


def checked(answer: pd.DataFrame) -> list[tuple[int, int, float]]:
    if answer["at"].dtype.kind == "M":
        answer = answer.assign(at=answer["at"].astype("datetime64[ms]").astype(np.int64))
    return sorted(answer.itertuples(index=False, name=None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--every", type=int, default=20, help="milliseconds between rows")
    parser.add_argument("--hours", type=int, default=24, help="hours of rows that are there at first")
    parser.add_argument("--picture", type=Path, help="an SVG or PNG of the medians")
    parser.add_argument("--results", type=Path, help="a file of results for bedload-bench report")
    parser.add_argument("--note", default="", help="what else ran on the machine")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    first = rows(rng, START, START + options.hours * HOUR, options.every)
    print(f"{len(first):,} rows at first; {MINUTE // options.every:,} rows a round, up to ten minutes late")
    with tempfile.TemporaryDirectory() as path:
        subjects = [kind(Path(path), first) for kind in (Bedload, Sqlite, Duckdb, Parquet)]
        times: dict[str, dict[str, list[float]]] = {
            type(subject).__name__: {"append": [], "newest hour": []} for subject in subjects
        }
        now = START + options.hours * HOUR
        for _ in range(options.rounds):
            late = rows(rng, now, now + MINUTE, options.every)
            now += MINUTE
            answers: list[pd.DataFrame] = []
            for subject in subjects:
                measured = times[type(subject).__name__]
                measured["append"].append(timed(lambda subject=subject, late=late: subject.append(late)))
                since = now - HOUR
                measured["newest hour"].append(
                    timed(lambda subject=subject, since=since, to=answers: to.append(subject.newest(since)))
                )
            wanted = checked(answers[0])
            assert wanted and all(checked(answer) == wanted for answer in answers[1:]), "answers differ"
    table = pd.DataFrame(
        {
            name: {step: statistics.median(seconds) * 1e3 for step, seconds in steps.items()}
            for name, steps in times.items()
        }
    ).T
    table["both"] = [statistics.median(map(sum, zip(*steps.values()))) * 1e3 for steps in times.values()]
    table["times Bedload"] = table["both"] / table.loc["Bedload", "both"]
    print("medians in ms:")
    print(table.round(2).to_string())
    if options.results:
        both = {name: [sum(steps) for steps in zip(*times[name].values())] for name in NAMES}
        samples: results.Samples = {}
        for name, subject in NAMES.items():
            for step, seconds in times[name].items():
                samples[subject, step] = [second * 1e3 for second in seconds]
            samples[subject, "both"] = [second * 1e3 for second in both[name]]
            pairs = zip(both[name], both["Bedload"])
            samples[subject, "times as long as bedload"] = [theirs / ours for theirs, ours in pairs]
        results.write(options.results, len(first), samples, {"times as long as bedload": ""}, options.note)
    if options.picture:
        import matplotlib

        matplotlib.use("agg")
        axes = table[["append", "newest hour"]].plot.barh(stacked=True, logx=False, figsize=(7, 2.6))
        axes.set_xlabel("milliseconds a round (median)")
        axes.invert_yaxis()
        axes.figure.tight_layout()
        axes.figure.savefig(options.picture)


def timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
