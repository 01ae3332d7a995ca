"""Stores."""

from __future__ import annotations

import datetime as dt
import os
from types import TracebackType
from typing import Any, Dict, Iterable, List, Optional, Type, Union

from . import _native
from ._columns import source_of
from ._errors import ExistsError, NotFoundError, SchemaError
from ._table import Snapshot, Table
from ._times import I64_MAX, I64_MIN, Interval, Time, TimeType, interval_ticks, of_ticks, whole
from ._write import WriteBatch

Path = Union[str, "os.PathLike[str]"]


class Database:
    """An open store. Closing flushes; a store that is dropped, or killed, loses nothing that was acknowledged."""

    def __init__(self, native: "_native.Store") -> None:
        self._native = native

    @property
    def path(self) -> str:
        """The store's directory."""
        return os.fspath(self._native.path)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._native.closed

    @property
    def tables(self) -> List[str]:
        """Names of the tables, in the order in which they were created."""
        return self._native.tables()

    def table(
        self,
        name: str,
        schema: Any = None,
        *,
        time: Optional[str] = None,
        layout: Optional[str] = None,
        interval: Optional[Interval] = None,
        epoch: Optional[Time] = None,
        key: Optional[Iterable[str]] = None,
        create: Optional[bool] = None,
    ) -> Table:
        """The table of this name; with a ``schema``, one is created if there is none.

        ``schema`` is an Arrow schema, or rows such as :meth:`Table.append` takes (none of which is appended). A new
        table has its columns and is ordered by the column ``time``, which may be left out if only one column has times.
        A table that exists must have columns of the same names, or it is a :class:`bedload.SchemaError`; their types
        stay those of the table. An index of pandas is a column if it has a name.

        ``create=False`` never creates. ``create=True`` says what is meant: without a ``schema`` it is an error if there
        is no table.

        ``layout="sparse"`` keeps one row at each time of a grid, ``interval`` apart, ``epoch`` among them; the default
        is ``"indexed"``. A table that exists must have the layout, interval and epoch that are given.

        ``key`` names columns which, with the time, are the key of a row: a row that is appended takes the place of the
        one that has its key, and of several in one batch the last counts. A table that exists must have the same key.
        """
        columns = [key] if isinstance(key, str) else None if key is None else list(key)
        like = None
        if schema is not None:
            like = schema if hasattr(schema, "__arrow_c_schema__") else source_of(schema)
        try:
            table = Table(self._native.table(name))
        except NotFoundError:
            if create is False or (like is None and not create):
                raise
        else:
            if like is not None:
                self._native.check_table(name, like, time)
            elif time is not None and time != table.time:
                raise SchemaError(f"table {name!r} is ordered by {table.time!r}, not by {time!r}")
            if layout is not None and layout != table.layout:
                raise SchemaError(f"table {name!r} has the layout {table.layout!r}, not {layout!r}")
            _check_grid(table, interval, epoch)
            if columns is not None and {table.time, *columns} != set(table.key or ()):
                raise SchemaError(f"table {name!r} has the key {table.key!r}, not {columns!r}")
            return table
        if like is None:
            raise SchemaError(f"there is no table {name!r}: to create it, give its schema, or rows that have it")
        grid = None
        if layout == "sparse":
            if interval is None:
                raise SchemaError("a sparse table needs the interval between its rows")
            unit, zone = _native.Store.time_type(like, time)
            grid = (_every(interval, unit), 0 if epoch is None else _first(epoch, TimeType(unit, zone)))
        elif layout not in (None, "indexed"):
            raise SchemaError(f'the layout {layout!r} is neither "indexed" nor "sparse"')
        elif interval is not None or epoch is not None:
            raise SchemaError('an interval and an epoch are for tables of layout="sparse"')
        try:
            return Table(self._native.create_table(name, like, time, grid, columns))
        except ExistsError:
            # Another thread was quicker: its table has to match, as one that was there before.
            return self.table(
                name, like, time=time, layout=layout, interval=interval, epoch=epoch, key=columns, create=False
            )

    def drop_table(self, name: str) -> None:
        """Removes a table and its rows. Snapshots keep what they see of it."""
        self._native.drop_table(name)

    def rename_table(self, name: str, new: str) -> None:
        """Gives a table another name, under which it is to be asked for again."""
        self._native.rename_table(name, new)

    def add_columns(self, name: str, columns: Any) -> Table:
        """Adds columns to a table, after those it has; returns the table with all of them.

        ``columns`` is an Arrow schema, or rows that have these columns (none of which is appended). The rows of the
        table are not touched: they are null in these columns. A :class:`Table` made before keeps its columns: it reads
        and appends rows without the new ones. A sparse table gets no columns.
        """
        like = columns if hasattr(columns, "__arrow_c_schema__") else source_of(columns)
        return Table(self._native.add_columns(name, like))

    def rename_column(self, table: str, old: str, new: str) -> Table:
        """Gives a column of a table another name, also if it is the time or one of the key; returns the table with it.

        The rows are not touched. A :class:`Table` made before keeps the old name: it reads and appends rows under it.
        """
        return Table(self._native.rename_column(table, old, new))

    def drop_column(self, table: str, column: str) -> Table:
        """Drops a column of a table, other than the time and those of the key; returns the table without it.

        The rows are not touched. A :class:`Table` made before keeps the column: it reads and appends rows with it, and
        rows that were appended without it are null there. A sparse table loses no columns.
        """
        return Table(self._native.drop_column(table, column))

    def write(self) -> WriteBatch:
        """Changes of several tables as one commit, at the end of a ``with`` block; none if it
        raises.

        The changes are made in their order, and durable when the block ends. All rows together must
        fit in ``head_bytes``, or it is a :class:`bedload.SchemaError`.

        >>> import bedload, tempfile
        >>> from datetime import datetime
        >>> db = bedload.open(tempfile.mkdtemp() + "/store", create=True)
        >>> march = {"at": [datetime(2026, 3, 1), datetime(2026, 3, 2)], "celsius": [20.5, 20.7]}
        >>> table = db.table("readings", march)
        >>> for _ in range(2):
        ...     with db.write() as batch:
        ...         batch.delete(table, "2026-03", "2026-04")
        ...         batch.append(table, march)
        >>> table.count(), batch.appended["rows"]
        (2, 2)
        """
        return WriteBatch(self._native.write())

    def snapshot(self) -> Snapshot:
        """All tables at this moment; nothing is copied."""
        return Snapshot(self._native.snapshot())

    def flush(self) -> None:
        """Moves rows from memory and log into pages: the next opening is quick."""
        self._native.flush()

    def refresh(self) -> bool:
        """Moves a store that was opened with ``read_only=True`` on to what its writer has committed since; returns
        whether there may be something new. Ranges and snapshots that exist stay as they are. A store that is open for
        writing is always at its newest state, and the answer is ``False``.

        >>> import bedload, tempfile, numpy as np
        >>> path = tempfile.mkdtemp() + "/store"
        >>> writer = bedload.open(path, create=True)
        >>> reader = bedload.open(path, read_only=True)
        >>> table = writer.table("t", {"at": np.array(["2026-01-01"], "M8[s]")}, time="at")
        >>> reader.refresh(), reader.tables
        (True, ['t'])
        """
        return self._native.refresh()

    def verify(self) -> Dict[str, Any]:
        """Reads and checks everything; ``problems`` lists what is damaged, and is empty for a sound store.

        Ctrl-C ends the wait at once; the check goes on in the background until it is done.
        """
        return self._native.verify()

    def backup(self, to: Path) -> Dict[str, Any]:
        """Copies everything committed so far into a new store in the directory ``to`` and checks the copy, while others
        write, in other processes too. Returns what :meth:`verify` would tell of it. Ctrl-C ends the wait and not the
        copying.
        """
        return self._native.backup(os.fspath(to))

    def info(self) -> Dict[str, Any]:
        """Sizes of the store (bytes) and its ``tables``, each a dict.

        A table has its ``name``, ``rows``, the ``first`` and ``last`` time, its columns of ``time``
        and ``key``, ``columns`` (name, Arrow type, whether it may be null), ``retention`` and, of a
        sparse one, ``interval`` in ticks, ``layout``, and:

        - ``arrival_order``: the ``rows`` that arrived, their ``k`` and ``l``, how many were
          ``late``, and how many of these at a time that is in pages (``overlapping``); ``window``
          has the same of the last complete window. ``None`` of a sparse table.
        - ``density``: how densely the blocks of a sparse table are filled, with the names of the
          command's ``info --json``. ``None`` of an indexed one.
        """
        told = self._native.info()
        told["path"] = os.fspath(told["path"])
        for table in told["tables"]:
            kind = TimeType(*table.pop("time_type"))
            for edge in ("first", "last"):
                if table[edge] is not None:
                    table[edge] = of_ticks(table[edge], kind)
        return told

    def metrics(self) -> Dict[str, float]:
        """Counts since the store was opened, and the memory that it uses.

        Counts: ``commits``, ``rows``, ``rows_right_edge``, ``rows_root``, ``rows_held_back``,
        ``log_bytes``, ``log_syncs``, ``flushes``, ``page_bytes_written``, ``page_reads``,
        ``block_reads``, ``block_writes``, ``cache_hits``, ``cache_misses``. Seconds:
        ``commit_wait_seconds``, ``flush_seconds``, ``flush_longest_seconds``. Bytes of memory:
        ``head_bytes``, ``cache_bytes``.
        """
        return self._native.metrics()

    def close(self) -> None:
        """Flushes and closes. Tables, snapshots and rows of it raise :class:`bedload.ClosedError`
        from then on. An append in another thread ends with it after the commit that it has begun.
        In a forked child, whose parent goes on with the store, nothing is closed."""
        self._native.close()

    def __enter__(self) -> "Database":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.tables)} tables: {', '.join(self.tables)}"
        return f"<bedload.Database {self.path!r}, {state}>"


def _first(epoch: Time, kind: TimeType) -> int:
    first = whole(epoch, kind)
    if first is None:
        raise SchemaError(f"the epoch {epoch!r} lies between two ticks of the table's unit, {kind.unit}")
    return first


def _every(interval: Interval, unit: str) -> int:
    ticks = interval_ticks(interval, unit)
    if not I64_MIN <= ticks <= I64_MAX:
        raise SchemaError(f"the interval {interval!r} is longer than a table's times reach")
    return ticks


def _check_grid(table: Table, interval: Optional[Interval], epoch: Optional[Time]) -> None:
    """Refuses a table that exists and has another grid than the one that is asked for."""
    if interval is None and epoch is None:
        return
    grid = table._native.grid()
    if grid is None:
        raise SchemaError(f"table {table.name!r} is indexed: it has neither an interval nor an epoch")
    every, offset = grid
    if interval is not None and (asked := interval_ticks(interval, table.unit)) != every:
        raise SchemaError(f"table {table.name!r} has a row every {every} {table.unit}, not every {asked}")
    if epoch is not None and (_first(epoch, table._schema.kinds[table.time]) - offset) % every:
        raise SchemaError(
            f"table {table.name!r} has rows from {offset} {table.unit} on, every {every}, and not one at {epoch!r}"
        )


def open(
    path: Path,
    create: bool = False,
    *,
    cache_bytes: Optional[int] = None,
    head_bytes: Optional[int] = None,
    page_bytes: Optional[int] = None,
    durability: str = "always",
    group_every: dt.timedelta = dt.timedelta(milliseconds=10),
    background: bool = True,
    read_only: bool = False,
) -> Database:
    """Opens the store in a directory; with ``create=True`` one is created where there is none.

    ``cache_bytes`` is memory for pages (default 64 MiB), ``head_bytes`` memory for rows that are not in pages yet
    (32 MiB), ``page_bytes`` the size of a page of a new store (16 KiB; a power of two from 4 to 32 KiB).
    ``durability`` is ``"always"`` (a commit returns when its rows are on the disk), ``"group"`` (and syncs begin
    ``group_every`` apart) or ``"relaxed"`` (loss of power may undo the newest commits: at most 8 MiB of log, or, while
    the background thread does not flush, those of the last second). ``background=False`` starts no thread that flushes.

    With ``read_only=True`` the store is opened for reading, also beside a process that writes to it, and a call that
    writes raises :class:`OpenForReadingError`; :meth:`Database.refresh` moves on to later commits. Among the other
    options only ``cache_bytes`` counts then."""
    if not isinstance(group_every, dt.timedelta):
        raise TypeError(f"group_every is a timedelta, not {group_every!r}")
    seconds = group_every.total_seconds()
    return Database(
        _native.open(
            os.fspath(path), create, cache_bytes, head_bytes, page_bytes, durability, seconds, background, read_only
        )
    )


def inspect(path: Path) -> List[str]:
    """All that is damaged in a store that nobody has open, whether it can be opened or not."""
    return _native.inspect(os.fspath(path))


def restore(backup: Path, to: Path) -> Dict[str, Any]:
    """Copies a backup to where its store is to be, and checks the copy."""
    return _native.restore(os.fspath(backup), os.fspath(to))


def salvage(damaged: Path, to: Path) -> Dict[str, Any]:
    """Copies what is whole in a damaged store into a new one, in the directory ``to``, which must
    be empty or absent. The damaged store is not changed; nothing may write to it meanwhile. Ctrl-C
    ends the wait and not the copying.

    Returns a dict: ``complete`` (whether nothing was damaged), ``problems`` (what is, as
    :func:`inspect` lists it), ``log_records`` (those that were applied) and ``tables``. A table has
    its ``name``, its ``rows`` in the new store, how many of the last checkpoint are ``missing``
    (``None`` if that cannot be told), and ``gaps``: pairs of times between which rows may be
    missing, both included, with ``None`` for no bound.

    >>> import bedload, tempfile
    >>> path = tempfile.mkdtemp()
    >>> bedload.open(path + "/store", create=True).close()
    >>> bedload.salvage(path + "/store", path + "/saved")["complete"]
    True
    """
    told = _native.salvage(os.fspath(damaged), os.fspath(to))
    for table in told["tables"]:
        kind = TimeType(*table.pop("time_type"))
        table["gaps"] = [tuple(None if end is None else of_ticks(end, kind) for end in gap) for gap in table["gaps"]]
    return told
