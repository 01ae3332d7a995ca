"""A store in a process that was forked while it was open."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import bedload
from conftest import rows_of


def _use(
    table: bedload.Table, rows: bedload.Rows, begun: Iterator[object], answers: "multiprocessing.Queue[str]"
) -> None:
    for use in (lambda: table.append(rows_of([1])), table.count, table.first, rows.to_pyarrow, lambda: next(begun)):
        try:
            answers.put(f"no error: {use()!r}")
        except bedload.InheritedError as error:
            answers.put(str(error))


def test_a_forked_child_is_told(table: bedload.Table) -> None:
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[str] = context.Queue()
    begun = iter(table.range())
    child = context.Process(target=_use, args=(table, table.range(), begun, answers))
    child.start()
    for _ in range(5):
        assert "a process must open a store for itself" in answers.get(timeout=30)
    child.join()
    assert table.count() == 4


def ends_in_child(work: Callable[..., None], *args: Any) -> bool:
    """Whether work ends in a forked child without an error."""
    child = multiprocessing.get_context("fork").Process(target=work, args=args)
    child.start()
    child.join(10)
    if child.is_alive():
        child.kill()
        child.join()
    return child.exitcode == 0


def _close(db: bedload.Database) -> None:
    assert not db.closed
    with db:
        pass
    db.close()
    assert db.closed


def test_closing_a_store_in_a_forked_child_waits_for_no_thread_of_the_parent(tmp_path: Path) -> None:
    # The second commit waits for its sync, and holds the lock that closing takes.
    every = dt.timedelta(seconds=3)
    with bedload.open(tmp_path / "s", create=True, durability="group", group_every=every) as db:
        table = db.table("t", rows_of([]))
        table.append(rows_of([1]))
        commit = threading.Thread(target=table.append, args=(rows_of([2]),))
        commit.start()
        time.sleep(0.2)
        assert ends_in_child(_close, db)
        commit.join()
        assert not db.closed
        assert table.count() == 2


def _close_snapshot(snapshot: bedload.Snapshot) -> None:
    with snapshot:
        pass
    snapshot.close()


def test_closing_a_snapshot_in_a_forked_child_waits_for_no_reader_of_the_parent(long_store: Path) -> None:
    with bedload.open(long_store) as db, db.snapshot() as snapshot:
        search = snapshot.range("t", where=[("x", "=", 0.3)])
        reader = threading.Thread(target=search.count)
        before = db.metrics()["page_reads"]
        reader.start()
        while db.metrics()["page_reads"] == before:
            pass
        assert ends_in_child(_close_snapshot, snapshot)
        reader.join()
        assert search.count() == 0
