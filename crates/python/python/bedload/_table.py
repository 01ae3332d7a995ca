"""Tables and snapshots."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Tuple, Type

from . import _native
from ._columns import source_of
from ._errors import SchemaError
from ._rows import Rows, row_of
from ._schema import Schema, Where
from ._times import NANOS, Interval, Time, bounds, interval_ticks, whole
from ._values import Target

if TYPE_CHECKING:
    import polars


def _range(
    native: Any,
    name: Optional[str],
    table: str,
    schema: Schema,
    start: Optional[Time],
    stop: Optional[Time],
    columns: Optional[Iterable[str]],
    where: Optional[Where],
    reverse: bool,
    limit: Optional[int],
) -> Rows:
    kind = schema.kinds[schema.time]
    if limit is not None and limit < 0:
        raise SchemaError(f"the limit is {limit}; it must not be negative")
    args = (
        *bounds(start, stop, kind),
        _names(columns),
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


def _names(columns: Optional[Iterable[str]]) -> Optional[List[str]]:
    return [columns] if isinstance(columns, str) else None if columns is None else list(columns)


class Table:
    """A table of an open store: rows ordered by time. Any number of threads may use it."""

    def __init__(self, native: "_native.Table") -> None:
        self._native = native
        self._schema = Schema(*native.describe())

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

        ``rows`` is anything that gives an Arrow stream (a frame of pandas, Polars, pyarrow or
        DuckDB), a dict of columns (NumPy arrays, Arrow columns or lists of Python values), a dict
        of values, which is one row, a list of such rows, or a structured array. Columns are found
        by name. A naive time is one of the table's zone. A value that the column's type would
        change is a :class:`bedload.SchemaError`.

        Up to 262,144 rows, with up to 256 MiB of text and bytes, are one commit, all of them or none. A longer stream
        is several: if one fails, those before it stay, and the exception's ``rows_appended`` counts their rows. One
        longer batch is one commit, unless it has more than 1 GiB of text and bytes.

        ``snap`` says what is done with a row of a sparse table that is off its grid: ``"refuse"``,
        ``"nearest"`` or ``"down"``. With ``allow_missing``, columns that all rows lack, or one
        does, are null, except the time, columns of a key and those that require values; without it
        they are an error. ``progress`` is a tqdm bar, or anything with ``update(rows)``.

        >>> import bedload, datetime, pyarrow, tempfile
        >>> db = bedload.open(tempfile.mkdtemp() + "/store", create=True)
        >>> schema = pyarrow.schema({"at": pyarrow.timestamp("s"), "celsius": pyarrow.float64()})
        >>> table = db.table("readings", schema)
        >>> at = datetime.datetime(2026, 3, 1)
        >>> table.append({"at": at, "celsius": 20.5})["rows"]
        1
        >>> table.append([{"at": at, "celsius": None}, table.last()])["rows"]
        2
        """
        return self._native.append(self._source(rows, allow_missing), snap, allow_missing, progress)

    def _source(self, rows: Any, allow_missing: bool) -> Any:
        polars = sys.modules.get("polars")
        if polars is not None and isinstance(rows, polars.DataFrame):
            from ._polars import with_typed_nulls

            rows = with_typed_nulls(rows, self)
        return source_of(rows, self._target(allow_missing))

    def _target(self, allow_missing: bool) -> Target:
        required = {*self._schema.required, *(self.key or ())}
        return Target(self._schema.types, self._schema.kinds, lambda name: allow_missing and name not in required)

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

    def since(
        self,
        mark: "_native.Mark",
        *,
        columns: Optional[Iterable[str]] = None,
        where: Optional[Where] = None,
    ) -> Rows:
        """The rows that are visible now and were not at a mark, in order of time, late ones among
        them. A program that goes on from the mark of the rows it has read (:meth:`Rows.mark`) gets
        every row once, whatever is appended meanwhile; :meth:`mark` is another moment.

        In a table with a key, a row that took the place of another is new. Rows that were deleted
        are not told. Not for a sparse table.

        >>> import bedload, tempfile
        >>> from datetime import datetime
        >>> db = bedload.open(tempfile.mkdtemp() + "/store", create=True)
        >>> table = db.table("t", {"at": datetime(2026, 3, 1)})
        >>> mark = table.mark()
        >>> told = table.append({"at": [datetime(2026, 3, 2), datetime(2026, 3, 1)]})
        >>> new = table.since(mark)
        >>> new.count(), table.since(new.mark()).count()
        (2, 0)
        """
        rows = self._native.since(mark, _names(columns), self._schema.conditions(where))
        return Rows(rows, f"of {self.name!r}, since a mark", self._schema.kinds)

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
        self._native.delete(*self._bounds(start, stop))

    def _bounds(self, start: Optional[Time], stop: Optional[Time]) -> Tuple[Optional[int], Optional[int]]:
        return bounds(start, stop, self._schema.kinds[self.time])

    @property
    def retention(self) -> Optional[int]:
        """For how many ticks rows are kept, counted back from the newest; ``None`` for ever.
        :meth:`set_retention` takes it back unchanged.

        >>> import bedload, tempfile, numpy as np
        >>> db = bedload.open(tempfile.mkdtemp() + "/store", create=True)
        >>> table = db.table("t", {"at": np.array(["2026-01-01"], "M8[s]")})
        >>> table.set_retention("7d")
        >>> table.retention
        604800
        """
        nanos = self._native.retention()
        return None if nanos is None else nanos // NANOS[self.unit]

    def set_retention(self, keep: Optional[Interval]) -> None:
        """Keeps rows for this long from now on, counted back from the newest row; ``None`` for ever. A row with a time
        ahead of the clock counts as one of now. Rows that are too old when they arrive are deleted.

        ``keep`` is a ``timedelta``, text such as ``"7d"`` or ticks. Older rows go when rows are flushed, so they may be
        seen for up to a sixteenth of the time longer; of a sparse table until all of a file is older.
        """
        unit = self._schema.kinds[self.time].unit
        self._native.set_retention(None if keep is None else interval_ticks(keep, unit) * NANOS[unit])

    def mark(self) -> "_native.Mark":
        """This moment, for :meth:`retract_since` and :meth:`since`."""
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
        schema = Schema(*self._native.describe(table))
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
