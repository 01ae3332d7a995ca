"""Exceptions, separated by what a caller can do about them."""

from __future__ import annotations

from typing import Any, Tuple


class Error(Exception):
    """An operation on a store failed; unless a subclass says otherwise the store is as it was before.

    ``rows_appended`` is set by :meth:`bedload.Table.append`: rows of earlier commits of the same call, which stay.
    """

    rows_appended: int = 0


class DiskError(Error, OSError):
    """The operating system refused a call; ``errno`` is its number of the error."""

    def __reduce__(self) -> Tuple[Any, ...]:
        # An ``OSError`` takes its number to be the first of its arguments, and pickles
        # nothing else.
        return type(self), self.args, {**self.__dict__, "errno": self.errno}


class NoSpaceError(DiskError):
    """The disk, or the quota on it, is full. Committed rows are safe; free some space and go on."""


class CorruptError(Error):
    """Bytes on disk are not those that a store wrote there. :func:`bedload.salvage` copies the
    rest."""


class NotAStoreError(Error):
    """The directory does not hold a store."""


class ExistsError(Error):
    """A store or a table stands where one was to be created."""


class NotFoundError(Error, LookupError):
    """There is no table or no column of this name."""


class NewerFormatError(Error):
    """A newer release wrote the store: use a newer release."""


class OlderFormatError(Error):
    """The store has a format from before the first release: export its rows with the program that wrote it."""


class InUseError(Error):
    """Another process, or another handle of this one, has the store open."""


class InheritedError(Error):
    """The store was opened before a ``fork``: open it again in the child, or start children with ``spawn``."""


class SchemaError(Error, ValueError):
    """Rows, a time or an option do not fit the table or the store."""


class ReadOnlyError(Error):
    """An earlier failure stopped writing; reads go on. Close the store and open it again."""


class OpenForReadingError(Error):
    """The store was opened with ``read_only=True``, and something was to be written."""


class ClosedError(Error):
    """The store or the snapshot was closed, or the changes of :meth:`bedload.Database.write` were
    committed or dropped."""
