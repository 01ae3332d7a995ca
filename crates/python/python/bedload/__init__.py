"""Bedload: an embedded time-series store for rows that arrive nearly in order, read and written as Arrow data."""

from . import _native
from ._errors import (
    ClosedError,
    CorruptError,
    DiskError,
    Error,
    ExistsError,
    InheritedError,
    InUseError,
    NewerFormatError,
    NoSpaceError,
    NotAStoreError,
    NotFoundError,
    OlderFormatError,
    OpenForReadingError,
    ReadOnlyError,
    SchemaError,
)
from ._index import Index
from ._native import Mark
from ._rows import Rows
from ._sortedness import Sortedness, sortedness
from ._store import Database, inspect, open, restore, salvage
from ._table import Snapshot, Table
from ._write import WriteBatch

__version__: str = _native.__version__

__all__ = [
    "ClosedError",
    "CorruptError",
    "Database",
    "DiskError",
    "Error",
    "ExistsError",
    "InUseError",
    "Index",
    "InheritedError",
    "Mark",
    "NewerFormatError",
    "NoSpaceError",
    "NotAStoreError",
    "NotFoundError",
    "OlderFormatError",
    "OpenForReadingError",
    "ReadOnlyError",
    "Rows",
    "SchemaError",
    "Snapshot",
    "Sortedness",
    "Table",
    "WriteBatch",
    "inspect",
    "open",
    "restore",
    "salvage",
    "sortedness",
]
