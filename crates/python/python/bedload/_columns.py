"""Rows as dicts of columns."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import _native
from ._errors import SchemaError
from ._times import I64_MAX, NANOS, SECONDS_OF_STEPS
from ._values import NO_TARGET, Target, is_of_numpy, is_value, typed

_KEPT = ("D", "s", "ms", "us", "ns")


def _given(name: str, values: Any, target: Target) -> Tuple[str, Any, Optional[np.ndarray], Optional[str]]:
    if _is_null_series(values):
        values = [None] * len(values)
    if isinstance(values, (list, tuple)) and not is_of_numpy(values):
        listed, arrow_type = typed(name, values, target)
        return name, listed, None, arrow_type
    values = _with_nulls(values)
    if _is_arrow(values):
        return name, values, None, None
    missing = None
    if isinstance(values, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(values)
        values = values.data
    values = np.asarray(values)
    if values.ndim != 1:
        raise SchemaError(f"column {name!r} has {values.ndim} dimensions; it must have one")
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    kind = values.dtype.kind
    if kind in "mM":
        return _ticks(name, values, missing)
    if kind in "OUT":
        listed = values.tolist()
        if missing is not None:
            listed = [None if gone else value for value, gone in zip(listed, missing)]
        listed, arrow_type = typed(name, listed, target)
        return name, listed, None, arrow_type
    # A field of a structured array may be unaligned, or at a stride that its size does not divide.
    return name, np.require(values, requirements=["C", "A"]), missing, None


def _ticks(
    name: str, values: np.ndarray, missing: Optional[np.ndarray]
) -> Tuple[str, np.ndarray, Optional[np.ndarray], str]:
    """An array of times or lengths of time as ticks and their Arrow type."""
    unit, count = np.datetime_data(values.dtype)
    per_step = 1
    if values.dtype.kind == "M":
        if unit not in _KEPT or count != 1:
            raise SchemaError(f"column {name!r} is {values.dtype}: use datetime64 of s, ms, us, ns or D")
        kind = "Date32" if unit == "D" else f"Timestamp({unit})"
    else:
        if unit not in NANOS and unit not in SECONDS_OF_STEPS:
            raise SchemaError(f"column {name!r} is {values.dtype}: use timedelta64 of s, ms, us or ns")
        per_step = count * SECONDS_OF_STEPS.get(unit, 1)
        kind = f"Duration({'s' if unit in SECONDS_OF_STEPS else unit})"
    absent = np.isnat(values)
    if absent.any():
        missing = absent if missing is None else missing | absent
    ticks = values.astype(np.int64)
    if missing is not None:
        ticks = np.where(missing, 0, ticks)
    if per_step > 1 and ticks.size:
        if max(-int(ticks.min()), int(ticks.max())) * per_step > I64_MAX:
            raise SchemaError(f"column {name!r} is {values.dtype} and has lengths beyond those that a table keeps")
        ticks = ticks * per_step
    return name, ticks, missing, kind


def _is_arrow(values: Any) -> bool:
    """Whether a column is taken as Arrow data. As an array of NumPy's it would lose its zone, and nulls would become
    NaN. A series of pandas over such an array stays one: its NaN is a number here."""
    if not (hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__")):
        return False
    return not isinstance(getattr(values, "dtype", None), np.dtype)


def _is_null_series(values: Any) -> bool:
    """Whether this is a series of Polars of nulls alone, which Polars gives with a buffer that Arrow has not."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(values, polars.Series) and values.dtype == polars.Null


def _with_nulls(values: Any) -> Any:
    """A column of a type of pandas' own as one of Arrow data."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return values
    of_pandas = isinstance(values, (pandas.api.extensions.ExtensionArray, pandas.Index, pandas.Series))
    if not of_pandas or isinstance(values.dtype, np.dtype):
        return values
    series = pandas.Series(values, copy=False)
    if hasattr(series, "__arrow_c_stream__"):
        return series
    # Before version 3, pandas gives only frames as Arrow data, and needs pyarrow for that, too.
    import pyarrow

    return pyarrow.Array.from_pandas(series)


def source_of(rows: Any, target: Target = NO_TARGET) -> Any:
    """A source of Arrow data: ``rows`` itself, or a batch made of columns, rows or a structured
    array."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(rows, polars.DataFrame) and any(map(_is_null_series, rows)):
        rows = {series.name: series for series in rows}
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return _with_index(rows)
    if isinstance(rows, np.ndarray) and rows.dtype.names:
        rows = {name: rows[name] for name in rows.dtype.names}
    if isinstance(rows, (list, tuple)) and all(isinstance(row, Mapping) for row in rows):
        rows = _columns_of(rows, target)
    if isinstance(rows, Mapping):
        if all(map(is_value, rows.values())):
            rows = {name: [value] for name, value in rows.items()}
        return _native.batch_of_columns([_given(str(name), values, target) for name, values in rows.items()])
    # A relation of DuckDB gives a reader of pyarrow's.
    if callable(reader := getattr(rows, "fetch_arrow_reader", None)):
        return reader()
    raise TypeError(
        f"{type(rows).__name__} holds no rows: give a frame of pandas, Polars, pyarrow or DuckDB, "
        "a dict of columns, a row as a dict, a list of them or a structured array"
    )


def _columns_of(rows: Sequence[Mapping[Any, Any]], target: Target) -> Dict[str, List[Any]]:
    """The columns of rows that are dicts."""
    if not rows:
        return {name: [] for name in target.types}
    columns: Dict[str, List[Any]] = {str(name): [] for row in rows for name in row}
    for number, row in enumerate(rows):
        row = {str(name): value for name, value in row.items()}
        for name, values in columns.items():
            if name not in row and not target.may_lack(name):
                raise SchemaError(f"row {number} has no column {name!r}, which another row has")
            values.append(row.get(name))
    return columns


def _with_index(rows: Any) -> Any:
    """The rows, with an index that pandas gives as an Arrow column: one of a range stays metadata there, even if it has
    a name."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(rows, pandas.DataFrame):
        return rows
    index = rows.index
    if not isinstance(index, pandas.RangeIndex) or index.name is None:
        return rows
    rows = rows.copy(deep=False)
    rows.index = pandas.Index(index.to_numpy(), name=index.name)
    return rows


def arrays_of(columns: Mapping[str, Tuple[Any, Optional[np.ndarray], Optional[str]]]) -> Dict[str, np.ndarray]:
    """Columns as arrays. A column with missing values is a masked array, but text, which has ``None``."""
    arrays: Dict[str, np.ndarray] = {}
    for name, (values, missing, dtype) in columns.items():
        if isinstance(values, list):
            objects = np.empty(len(values), dtype=object)
            objects[:] = values
            arrays[name] = objects
            continue
        if dtype is not None:
            values = values.astype(np.int64, copy=False).view(dtype)
        if missing is None:
            arrays[name] = values
        elif dtype is not None:
            values[missing] = "NaT"
            arrays[name] = values
        else:
            arrays[name] = np.ma.MaskedArray(values, mask=missing)
    return arrays
