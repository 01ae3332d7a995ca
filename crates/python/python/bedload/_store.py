"""Stores, tables and snapshots."""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
import time
from decimal import Decimal, InvalidOperation
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Tuple, Type, Union

from . import _native
from ._columns import source_of
from ._errors import ExistsError, NotFoundError, SchemaError
from ._rows import Rows, row_of
from ._times import (
    I64_MAX,
    I64_MIN,
    NANOS,
    Interval,
    Time,
    TimeType,
    bounds,
    interval_ticks,
    nanos_of,
    of_ticks,
    tick_of_day,
    whole,
)

if TYPE_CHECKING:
    import polars

Path = Union[str, "os.PathLike[str]"]

#: In nanoseconds.
_DAY = 86_400_000_000_000

#: A date, or days before today.
_DATE = re.compile(r"\d{4,}-\d\d-\d\d|-\d.*")

#: ``{"carrier": "UA"}``, or comparisons such as ``[("delay", ">", 60)]`` and
#: ``[("carrier", "in", ["UA", "B6"])]``, all of which rows must meet. Rows without a value meet
#: ``{"delay": None}`` and nothing else; ``("delay", "!=", None)`` leaves them out.
Where = Union[Mapping[str, Any], Iterable[Tuple[str, str, Any]]]


class _Schema:
    """Columns of a table, and how times are read for it."""

    def __init__(self, columns: List["_native.Described"], time: int) -> None:
        self.columns = columns
        self.types = {name: kind for name, kind, *_ in columns}
        self.kinds = {name: TimeType(unit, zone) for name, _, unit, zone, _ in columns if unit is not None}
        self.time = columns[time][0]

    def conditions(self, where: Optional[Where]) -> List[Tuple[str, str, Any]]:
        if where is None:
            return []
        given = [(name, "=", value) for name, value in where.items()] if isinstance(where, Mapping) else list(where)
        return [self._condition(*condition) for condition in given]

    def _condition(self, name: str, sign: str, value: Any) -> Tuple[str, str, Any]:
        if sign == "in":
            if isinstance(value, (str, bytes)):
                raise SchemaError(f'{value!r} is one value: "in" takes a list of them')
            return name, sign, [self._constant(name, one) for one in value]
        return name, sign, None if value is None else self._constant(name, value)

    def _constant(self, name: str, value: Any) -> Any:
        if name in self.kinds:
            ticks = whole(value, self.kinds[name])
            if ticks is None:
                raise SchemaError(f"{value!r} lies between two ticks of column {name!r}")
            return ticks
        if self.types.get(name) == "Date32":
            if isinstance(value, str) and not _DATE.fullmatch(value):
                raise SchemaError(f"{value!r} is no day, which column {name!r} has: write 2013-02-08 or -7d")
            nanos = nanos_of(value, TimeType("s", None))
            if isinstance(value, str) and value.startswith("-"):
                # As ticks are counted from the last one before now, days are from today.
                nanos = time.time_ns() // _DAY * _DAY - _native.duration_nanos(value[1:])
            day, rest = divmod(nanos, _DAY)
            if rest:
                raise SchemaError(f"{value!r} is no day, which column {name!r} has")
            return day
        kind, _, unit = self.types.get(name, "").rstrip(")").partition("(")
        if kind == "Duration":
            return interval_ticks(value, unit.replace("µ", "u"))
        if kind in ("Time32", "Time64"):
            return tick_of_day(value, unit.replace("µ", "u"))
        if self.types.get(name, "").startswith("Decimal"):
            return _unrounded(value, name, self.types[name])
        return value


def _unrounded(value: Any, name: str, kind: str) -> Any:
    """A number that a column of decimals holds with all its digits."""
    try:
        _, digits, exponent = Decimal(str(value)).as_tuple()
    except InvalidOperation:
        exponent = "n"
    if not isinstance(exponent, int):
        raise SchemaError(f"{value!r} is no number, which column {name!r} has")
    # The type ends with its scale, as in Decimal128(18, 2).
    finest = -int(kind.rpartition(",")[2].rstrip(")"))
    number = "".join(map(str, digits))
    if number.strip("0") and exponent + len(number) - len(number.rstrip("0")) < finest:
        raise SchemaError(f"{value!r} has more digits than column {name!r}, which is {kind}")
    return value


def _range(
    native: Any,
    name: Optional[str],
    table: str,
    schema: _Schema,
    start: Optional[Time],
    stop: Optional[Time],
    columns: Optional[Iterable[str]],
    where: Optional[Where],
    reverse: bool,
    limit: Optional[int],
) -> Rows:
    kind = schema.kinds[schema.time]
    if isinstance(columns, str):
        columns = [columns]
    if limit is not None and limit < 0:
        raise SchemaError(f"the limit is {limit}; it must not be negative")
    args = (
        *bounds(start, stop, kind),
        None if columns is None else list(columns),
        schema.conditions(where),
        reverse,
        limit,
    )
    rows = native.range(*args) if name is None else native.range(name, *args)
    title = [f"of {table!r}"]
    if start is not None:
        title.append(f"from {start}")
    if stop is not None:
        title.append(f"before {stop}")
    if where is not None:
        title.append("where " + " and ".join(f"{column} {sign} {value!r}" for column, sign, value in args[3]))
    if reverse:
        title.append("latest first")
    if limit is not None:
        title.append(f"at most {limit}")
    return Rows(rows, ", ".join(title), schema.kinds)


class Table:
    """A table of an open store: rows ordered by time. Any number of threads may use it."""

    def __init__(self, native: "_native.Table") -> None:
        self._native = native
        self._schema = _Schema(*native.describe())

    @property
    def name(self) -> str:
        """The table's name."""
        return self._native.name

    @property
    def time(self) -> str:
        """The name of the column of times."""
        return self._schema.time

    @property
    def zone(self) -> Optional[str]:
        """The zone of the times, in which a time without one is read."""
        return self._schema.kinds[self.time].zone

    @property
    def unit(self) -> str:
        """The unit in which times are counted: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``."""
        return self._schema.kinds[self.time].unit

    @property
    def columns(self) -> Dict[str, str]:
        """Names and Arrow types of the columns."""
        return dict(self._schema.types)

    @property
    def layout(self) -> str:
        """``"indexed"`` or ``"sparse"``."""
        return "indexed" if self._native.grid() is None else "sparse"

    @property
    def key(self) -> Optional[List[str]]:
        """The columns that tell a row from others, its time first; none if every row is kept."""
        return self._native.key()

    @property
    def interval(self) -> Optional[int]:
        """Ticks between two rows of a sparse table."""
        grid = self._native.grid()
        return None if grid is None else grid[0]

    def __arrow_c_schema__(self) -> Any:
        return self._native.__arrow_c_schema__()

    def append(
        self, rows: Any, *, snap: str = "refuse", allow_missing: bool = False, progress: Any = None
    ) -> Dict[str, int]:
        """Appends rows, which are durable when it returns, and tells how many: ``rows``, and of a sparse table
        ``moved`` to its grid and ``collided`` with a later row of the same commit. Of a
        table with a key, ``replaced`` counts the rows that gave way to others.

        ``rows`` is anything that gives an Arrow stream (a frame of pandas, Polars, pyarrow or DuckDB), a dict of NumPy
        arrays or of Arrow columns, or a structured array. Columns are found by name. A naive time is one of the table's
        zone.

        Up to 262,144 rows, with up to 256 MiB of text and bytes, are one commit, all of them or none. A longer stream
        is several: if one fails, those before it stay, and the exception's ``rows_appended`` counts their rows. One
        longer batch is one commit, unless it has more than 1 GiB of text and bytes.

        ``snap`` says what is done with a row of a sparse table that is off its grid: ``"refuse"``, ``"nearest"`` or
        ``"down"``. With ``allow_missing``, columns that the rows lack are null, except the time, columns of a key and
        those that require values; without it they are an error. ``progress`` is a tqdm bar, or anything with
        ``update(rows)``.
        """
        polars = sys.modules.get("polars")
        if polars is not None and isinstance(rows, polars.DataFrame):
            from ._polars import with_typed_nulls

            rows = with_typed_nulls(rows, self)
        return self._native.append(source_of(rows), snap, allow_missing, progress)

    def range(
        self,
        start: Optional[Time] = None,
        stop: Optional[Time] = None,
        *,
        columns: Optional[Iterable[str]] = None,
        where: Optional[Where] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
    ) -> Rows:
        """Rows with ``start <= time < stop``, as of now, ascending, or descending if ``reverse``."""
        return _range(self._native, None, self.name, self._schema, start, stop, columns, where, reverse, limit)

    def count(self, start: Optional[Time] = None, stop: Optional[Time] = None) -> int:
        """How many rows have ``start <= time < stop``."""
        return self.range(start, stop).count()

    def get(self, time: Time) -> Optional[Dict[str, Any]]:
        """The row of a time as a dict, the last to arrive if there are several; ``None`` if there is none."""
        ticks = whole(time, self._schema.kinds[self.time])
        values = None if ticks is None else self._native.get(ticks)
        if values is None:
            return None
        return row_of(self._schema.types, values, self._schema.kinds)

    def first(self) -> Optional[Dict[str, Any]]:
        """The row of the least time, the first to arrive if there are several."""
        return self.range(limit=1)._first()

    def last(self) -> Optional[Dict[str, Any]]:
        """The row of the greatest time, the last to arrive if there are several."""
        return self.range(reverse=True, limit=1)._first()

    def delete(self, start: Optional[Time], stop: Optional[Time]) -> None:
        """Removes the rows with ``start <= time < stop``; ``None`` is no bound."""
        kind = self._schema.kinds[self.time]
        self._native.delete(*bounds(start, stop, kind))

    def set_retention(self, keep: Optional[Interval]) -> None:
        """Keeps rows for this long from now on, counted back from the newest row; ``None`` for ever. A row with a time
        ahead of the clock counts as one of now. Rows that are too old when they arrive are deleted.

        ``keep`` is a ``timedelta``, text such as ``"7d"`` or ticks. Older rows go when rows are flushed, so they may be
        seen for up to a sixteenth of the time longer; of a sparse table until all of a file is older.
        """
        unit = self._schema.kinds[self.time].unit
        self._native.set_retention(None if keep is None else interval_ticks(keep, unit) * NANOS[unit])

    def mark(self) -> "_native.Mark":
        """This moment, for :meth:`retract_since`."""
        return self._native.mark()

    def retract_since(self, mark: "_native.Mark") -> None:
        """Takes back all rows appended since the mark, whoever appended them. Not for a sparse
        table or one with a key.
        """
        self._native.retract_since(mark)

    def scan_polars(self) -> "polars.LazyFrame":
        """A Polars ``LazyFrame`` that reads what a query needs: its columns, its range of times, its first rows. Each
        collection reads the rows of its own moment."""
        from ._polars import scan

        return scan(self, self._schema.kinds[self.time])

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._schema.types.items())
        return f"<bedload.Table {self.name!r} ({columns}), ordered by {self.time!r}>"


class Snapshot:
    """All tables as they were at one moment. Pages replaced since keep their space until it is closed or dropped."""

    def __init__(self, native: "_native.Snapshot") -> None:
        self._native = native

    @property
    def tables(self) -> List[str]:
        """Names of the tables."""
        return self._native.tables()

    def range(
        self,
        table: str,
        start: Optional[Time] = None,
        stop: Optional[Time] = None,
        *,
        columns: Optional[Iterable[str]] = None,
        where: Optional[Where] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
    ) -> Rows:
        """As :meth:`Table.range`, of this moment."""
        schema = _Schema(*self._native.describe(table))
        return _range(self._native, table, table, schema, start, stop, columns, where, reverse, limit)

    def close(self) -> None:
        """Lets go of the moment. Its rows end with it. In a forked child nothing is closed."""
        self._native.close()

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


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
        write. Returns what :meth:`verify` would tell of it. Ctrl-C ends the wait and not the copying.
        """
        return self._native.backup(os.fspath(to))

    def info(self) -> Dict[str, Any]:
        """Sizes of the store (bytes) and of its tables (rows, first and last time, order of arrival as K and L)."""
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
        """Flushes and closes. Tables, snapshots and rows of it raise :class:`bedload.ClosedError` from then on. An
        append in another thread ends with it after the commit that it has begun. In a forked child, whose parent goes
        on with the store, nothing is closed."""
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
