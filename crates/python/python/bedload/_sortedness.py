"""How far an array is from sorted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Optional

import numpy as np

from . import _native
from ._errors import SchemaError
from ._values import NO_TARGET, is_of_numpy, is_value, typed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Sortedness:
    """How far an array is from sorted."""

    #: Values in the array.
    rows: int
    #: Rows less the length of a longest non-decreasing subsequence: the fewest whose removal leaves
    #: the rest in order.
    k: int
    #: The largest distance, in rows, between a row's place of arrival and its place in the stable
    #: sorted order.
    l: int  # noqa: E741
    #: Rows below the largest value before them.
    late: int
    #: Rows below the one just before them.
    inversions: int
    #: For each row, in order of arrival, by how many rows its sorted place is further back
    #: (``int64``).
    displacement: np.ndarray = field(repr=False, compare=False)

    @property
    def k_share(self) -> float:
        """K as a share of the rows, from 0 to 1."""
        return self.k / self.rows if self.rows else 0.0

    @property
    def l_share(self) -> float:
        """L as a share of the rows, from 0 to 1."""
        return self.l / self.rows if self.rows else 0.0

    @property
    def late_share(self) -> float:
        """The share of rows below the largest value before them, from 0 to 1."""
        return self.late / self.rows if self.rows else 0.0

    def plot(self, ax: Optional["Axes"] = None, points: int = 20_000) -> "Axes":
        """Draws how far each row is from its sorted place, on ``ax`` or new axes of matplotlib: at most about
        ``points`` rows, evenly chosen."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        step = max(1, self.rows // points)
        places = np.arange(0, self.rows, step)
        ax.scatter(places, self.displacement[::step], s=1, linewidths=0, rasterized=True)
        ax.set_xlabel("place of arrival")
        ax.set_ylabel("distance to sorted place (rows)")
        ax.set_title(f"K {self.k_share:.1%}, L {self.l:,} rows, late {self.late_share:.1%}")
        return ax


#: The types of arrays that hold lists of these Arrow types.
_NUMBERS: Dict[str, type] = {"Boolean": np.bool_, "Int64": np.int64, "UInt64": np.uint64, "Float64": np.float64}


def _array_of(values: Any) -> np.ndarray:
    """The values as an array. NumPy rounds or wraps numbers of several types in a list."""
    is_plain = isinstance(values, (list, tuple)) and all(map(is_value, values))
    if not is_plain or is_of_numpy(values):
        return np.asarray(values)
    listed, kind = typed("values", values, NO_TARGET)
    if any(value is None for value in listed):
        raise SchemaError("the array has missing values, which have no place in an order")
    if kind in _NUMBERS:
        return np.asarray(listed, _NUMBERS[kind])
    if not kind.startswith(("Timestamp", "Date", "Time", "Duration")):
        return np.asarray(listed)
    try:
        return np.asarray(listed, np.int64)
    except OverflowError as error:
        raise SchemaError("the times are beyond those that 64 bits count in one unit") from error


def sortedness(values: Any) -> Sortedness:
    """Measures a one-dimensional array of integers, floats or times in order of arrival. Time O(n log n).

    >>> measured = sortedness([10, 30, 40, 20, 20, 50])
    >>> measured.k, measured.l, measured.late
    (2, 2, 2)
    """
    if np.ma.is_masked(values):
        raise SchemaError("the array has masked values, which have no place in an order")
    keys = _array_of(values)
    if keys.ndim != 1:
        raise SchemaError(f"the array has {keys.ndim} dimensions; it must have one")
    if keys.dtype.kind in "mM":
        if np.isnat(keys).any():
            raise SchemaError("the array has NaT, which has no place in an order")
        keys = keys.astype(np.int64)
    elif keys.dtype.kind == "f":
        keys = keys.astype(np.float64)
        if np.isnan(keys).any():
            raise SchemaError("the array has NaN, which has no place in an order")
    elif keys.dtype.kind == "u":
        keys = keys.astype(np.uint64)
    elif keys.dtype.kind in "ib":
        keys = keys.astype(np.int64)
    elif keys.size == 0:
        keys = np.empty(0, np.int64)
    else:
        raise SchemaError(f"sortedness is measured of numbers and times, not of {keys.dtype}")
    return Sortedness(*_native.measure(keys))
