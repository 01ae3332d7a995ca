"""Rows of a range of times."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Union

import numpy as np

from . import _native
from ._columns import arrays_of
from ._errors import Error
from ._times import TimeType, of_ticks
from ._unfinished import unfinished

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_PREVIEW = 5


class Rows:
    """Rows of one moment, ordered by time, read again each time they are asked for.

    An Arrow stream itself (``__arrow_c_stream__``): pyarrow, Polars, pandas and DuckDB take it as it stands. The
    rows are those of the moment at which the range was made, whatever is appended or deleted meanwhile.
    """

    def __init__(self, native: "_native.Rows", title: str, kinds: Dict[str, TimeType]) -> None:
        self._native = native
        self._title = title
        self._kinds = kinds

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> List[str]:
        """Names of the columns."""
        return self._native.column_names()

    def count(self) -> int:
        """How many rows there are; no column is copied unless there is a ``where``."""
        return self._native.count()

    def mark(self) -> "_native.Mark":
        """The moment of these rows, for :meth:`Table.since`: the rows that are not among them are
        those since this mark."""
        return self._native.mark()

    def __iter__(self) -> Iterator["_native.Batch"]:
        """Batches of at most 8,192 rows, each an Arrow stream of its own with ``len()``."""
        return iter(self._native)

    def to_pyarrow(self, progress: Any = None) -> "pyarrow.Table":
        """A ``pyarrow.Table``; ``progress`` is a tqdm bar, or anything with ``update(rows)``."""
        import pyarrow

        return pyarrow.table(self._native.read(progress))

    def to_polars(self, progress: Any = None) -> "polars.DataFrame":
        """A ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self._native.read(progress))

    def to_pandas(self, progress: Any = None, **options: Any) -> "pandas.DataFrame":
        """A ``pandas.DataFrame``, by way of pyarrow, whose ``Table.to_pandas`` takes the options."""
        return self.to_pyarrow(progress).to_pandas(**options)

    def to_numpy(self, progress: Any = None) -> Dict[str, np.ndarray]:
        """A dict of arrays. Times are ``datetime64`` in UTC, or as they are if the column has no zone, lengths of time
        ``timedelta64``, and missing ones ``NaT``; missing numbers are masked; missing text is ``None``."""
        return arrays_of(self._native.read(progress).numpy())

    def to_parquet(self, path: "Union[str, os.PathLike[str]]", **options: Any) -> int:
        """Writes a Parquet file batch by batch and returns the number of rows; pyarrow's
        ``ParquetWriter`` takes the options.

        The file appears under its name when it is whole and on the disk: rows may be deleted from
        the store then. One that was there is replaced, and its mode, owner and group are kept as
        far as that is permitted. An open file, a device, and a file named by a URI or in a
        ``filesystem`` are written directly, and not synced.
        """
        import pyarrow
        from pyarrow import parquet

        rows = 0
        reader = pyarrow.RecordBatchReader.from_stream(self)
        schema = _marked(reader.schema)
        with unfinished(path, options) as place, parquet.ParquetWriter(place, schema, **options) as writer:
            pending: List[Any] = []
            waiting = 0
            for batch in reader:
                pending.append(batch)
                waiting += batch.num_rows
                rows += batch.num_rows
                if waiting >= 1 << 18:
                    writer.write_table(pyarrow.Table.from_batches(pending))
                    pending, waiting = [], 0
            if pending:
                writer.write_table(pyarrow.Table.from_batches(pending))
        return rows

    def _first(self) -> Optional[Dict[str, Any]]:
        for batch in self._native:
            return row_of(batch.column_names(), batch.row(0), self._kinds)
        return None

    def __repr__(self) -> str:
        lines = [f"<bedload.Rows {self._title}>"]
        try:
            shown = 0
            for batch in self._native:
                arrays = arrays_of(batch.numpy(shown=True))
                if shown == 0:
                    lines.append("  " + " | ".join(arrays))
                for place in range(min(len(batch), _PREVIEW - shown)):
                    lines.append("  " + " | ".join(str(values[place]) for values in arrays.values()))
                shown += len(batch)
                if shown > _PREVIEW:
                    lines.append("  …")
                if shown >= _PREVIEW:
                    break
            if shown == 0:
                lines.append("  no rows")
        except Error as error:
            lines.append(f"  {error}")
        return "\n".join(lines)


def _marked(schema: "pyarrow.Schema") -> "pyarrow.Schema":
    """The schema with a mark at times, and times of day, in seconds. Parquet has none, so they are
    written as milliseconds, and the mark tells the command what they were."""
    import pyarrow

    for position, field in enumerate(schema):
        has_unit = pyarrow.types.is_timestamp(field.type) or pyarrow.types.is_time32(field.type)
        if has_unit and field.type.unit == "s":
            schema = schema.set(position, field.with_metadata({"bedload.unit": "s"}))
    return schema


def row_of(names: Iterable[str], values: Iterable[Any], kinds: Dict[str, TimeType]) -> Dict[str, Any]:
    """A row as a dict; ticks of columns of times become times."""
    return {
        name: of_ticks(value, kinds[name]) if value is not None and name in kinds else value
        for name, value in zip(names, values)
    }
