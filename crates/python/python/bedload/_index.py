"""The index in memory."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np

from . import _native
from ._errors import SchemaError


class Index:
    """An ordered map in memory from ``int64`` or ``uint64`` keys to ``uint64`` values, over whole arrays.

    Any number of threads may use it. A key has one value: that inserted last.

    >>> index = Index()
    >>> index.insert(np.array([10, 30, 20]), np.array([1, 3, 2]))
    >>> keys, values = index.range(10, 30)
    >>> keys.tolist(), values.tolist()
    ([10, 20], [1, 2])
    """

    def __init__(self, dtype: Any = np.int64) -> None:
        self._dtype = np.dtype(dtype)
        if self._dtype == np.int64:
            self._native: Any = _native.IndexI64()
        elif self._dtype == np.uint64:
            self._native = _native.IndexU64()
        else:
            raise SchemaError(f"keys are int64 or uint64, not {self._dtype}")

    def _keys(self, keys: Any) -> np.ndarray:
        return _as(keys, self._dtype, "keys")

    def insert(self, keys: Any, values: Any) -> None:
        """Inserts a value for each key, in the order of the arrays."""
        self._native.insert(self._keys(keys), _as(values, np.dtype(np.uint64), "values"))

    def get(self, keys: Any) -> np.ma.MaskedArray:
        """The values of keys (``uint64``), masked where a key is not there."""
        values, found = self._native.get(self._keys(keys))
        return np.ma.MaskedArray(values, mask=~found)

    def remove(self, keys: Any) -> int:
        """Removes keys and tells how many were there."""
        return int(self._native.remove(self._keys(keys)))

    def range(
        self, start: Optional[int] = None, stop: Optional[int] = None, *, limit: Optional[int] = None
    ) -> Tuple[np.ndarray, np.ndarray]:
        """Keys with ``start <= key < stop``, ascending, and their values: two arrays of one length."""
        keys, values = self._native.range(start, stop, limit)
        return keys, values

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<bedload.Index of {self._dtype}, {len(self):,} keys>"


def _as(values: Any, dtype: "np.dtype[Any]", what: str) -> np.ndarray:
    if np.ma.is_masked(values):
        raise SchemaError(f"some {what} are masked")
    array = np.asarray(values)
    if array.ndim != 1:
        raise SchemaError(f"{what} have {array.ndim} dimensions; they must have one")
    if array.dtype == dtype:
        # A field of a structured array may be unaligned, or at a stride that its size does not
        # divide.
        return np.require(array, requirements=["C", "A"])
    if array.size and array.dtype.kind not in "iu":
        raise SchemaError(f"{what} are {array.dtype}; they must be integers")
    cast = array.astype(dtype)
    if array.size and not (np.array_equal(cast, array) and bool((cast < 0).any()) == bool((array < 0).any())):
        raise SchemaError(f"some {what} are beyond {dtype}")
    return cast
