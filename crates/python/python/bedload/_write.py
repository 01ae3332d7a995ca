"""Changes of several tables in one commit."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Dict, Optional, Type

from . import _native
from ._table import Table
from ._times import Time


class WriteBatch:
    """Changes of tables that are committed together when its ``with`` block ends: after a crash all
    of them are there, or none, and no reader sees some without the others. Nothing is committed if
    the block raises. Made by :meth:`Database.write`.
    """

    def __init__(self, native: "_native.WriteBatch") -> None:
        self._native = native
        self._appended: Optional[Dict[str, int]] = None

    def append(self, table: Table, rows: Any, *, snap: str = "refuse", allow_missing: bool = False) -> None:
        """Adds rows, as :meth:`Table.append` takes them, all of which are kept in memory until the
        commit. A table with a key can have one append, and no deletion besides."""
        self._native.append(table._native, table._source(rows, allow_missing), snap, allow_missing)

    def delete(self, table: Table, start: Optional[Time], stop: Optional[Time]) -> None:
        """Adds the removal of the rows with ``start <= time < stop``, those that were added before
        among them; ``None`` is no bound."""
        self._native.delete(table._native, *table._bounds(start, stop))

    @property
    def appended(self) -> Optional[Dict[str, int]]:
        """How many rows of all tables were appended, as :meth:`Table.append` tells it; ``None``
        until they are committed."""
        return self._appended

    def __enter__(self) -> "WriteBatch":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None:
            self._appended = self._native.commit()
        else:
            self._native.abandon()
