"""A table as a source of Polars' lazy queries."""

from __future__ import annotations

import json
from typing import Any, Iterator, List, Optional, Protocol, Tuple

import polars as pl
from polars.io.plugins import register_io_source

from ._times import I64_MAX, I64_MIN, NANOS, TimeType

_UNITS = {"Milliseconds": "ms", "Microseconds": "us", "Nanoseconds": "ns"}
_MIRRORED = {"Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq", "Eq": "Eq"}

#: Ticks from the first up to, not including, the second; each is open if there is none.
Bounds = Tuple[Optional[int], Optional[int]]

_ANY: Bounds = (None, None)


class Ranges(Protocol):
    """A table, as far as lazy queries need it."""

    @property
    def time(self) -> str: ...

    def range(self, *args: Any, **kwargs: Any) -> Any: ...


def with_typed_nulls(rows: pl.DataFrame, table: Ranges) -> pl.DataFrame:
    """The rows, with the table's types for columns of the type ``Null``: Polars gives such a column in a form that
    Arrow's reader refuses."""
    columns = [name for name, kind in rows.schema.items() if kind == pl.Null]
    if not columns:
        return rows
    kinds = _schema(table)
    return rows.with_columns(pl.col(name).cast(kinds.get(name, pl.String)) for name in columns)


def _schema(table: Ranges) -> pl.Schema:
    return pl.DataFrame(table.range(limit=0)).schema


def scan(table: Ranges, kind: TimeType) -> pl.LazyFrame:
    """A lazy frame over ``table``."""
    schema = _schema(table)

    def rows(
        columns: Optional[List[str]], predicate: Optional[pl.Expr], n_rows: Optional[int], batch_size: Optional[int]
    ) -> Iterator[pl.DataFrame]:
        # Polars counts rows before the predicate is applied, so only one of the two is left to the
        # store.
        start, stop = _ANY
        if predicate is not None and n_rows is None:
            start, stop = bounds(predicate, table.time, kind)
        for batch in table.range(start, stop, columns=columns, limit=n_rows):
            frame = pl.DataFrame(batch)
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(rows, schema=schema, is_pure=False)


def bounds(predicate: pl.Expr, column: str, kind: TimeType) -> Bounds:
    """Ticks outside of which no row meets the predicate. Terms that are not understood bound nothing."""
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (pl.exceptions.ComputeError, ValueError):
        return _ANY
    return _of(tree, column, kind)


def _of(node: Any, column: str, kind: TimeType) -> Bounds:
    if not isinstance(node, dict):
        return _ANY
    if binary := node.get("BinaryExpr"):
        left, operator, right = binary["left"], binary["op"], binary["right"]
        if operator in ("And", "LogicalAnd"):
            return _both(_of(left, column, kind), _of(right, column, kind))
        if right == {"Column": column}:
            left, operator, right = right, _MIRRORED.get(operator), left
        if left == {"Column": column} and operator in _MIRRORED:
            return _compared(operator, right, kind)
    if function := node.get("Function"):
        named = function.get("function")
        between = named.get("Boolean") if isinstance(named, dict) else None
        inputs = function.get("input", [])
        if isinstance(between, dict) and "IsBetween" in between and inputs[0] == {"Column": column}:
            # Wider by a tick than an open end asks for: Polars applies the predicate as well.
            return _both(_compared("GtEq", inputs[1], kind), _compared("LtEq", inputs[2], kind))
    return _ANY


def _compared(operator: str, literal: Any, kind: TimeType) -> Bounds:
    nanos = _nanos(literal, kind)
    if nanos is None:
        return _ANY
    # A tick wider where a literal lies between two ticks, which Polars may round.
    low, high = nanos // NANOS[kind.unit], -(-nanos // NANOS[kind.unit]) + 1
    if not I64_MIN <= low <= high <= I64_MAX:
        return _ANY
    if operator in ("Gt", "GtEq"):
        return low, None
    if operator in ("Lt", "LtEq"):
        return None, high
    return low, high


def _both(one: Bounds, other: Bounds) -> Bounds:
    starts = [bound for bound in (one[0], other[0]) if bound is not None]
    stops = [bound for bound in (one[1], other[1]) if bound is not None]
    return max(starts, default=None), min(stops, default=None)


def _nanos(literal: Any, kind: TimeType) -> Optional[int]:
    try:
        ticks, unit, zone = literal["Literal"]["Scalar"]["Datetime"]
        # Instants are compared as such; readings of a clock only with their like.
        return ticks * NANOS[_UNITS[unit]] if (zone is None) == (kind.zone is None) else None
    except (KeyError, TypeError, ValueError):
        return None
