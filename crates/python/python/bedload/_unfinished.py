"""Files that are made under another name, and take their own when they are whole."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from typing import Any, Iterator, Mapping

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@contextlib.contextmanager
def unfinished(path: Any, options: Mapping[str, Any]) -> Iterator[Any]:
    """Another name for a file beside ``path``, which takes its place durably unless there is an
    exception: pyarrow's writers finish a file that lacks rows, too. Devices, URIs, paths of a
    ``filesystem`` and open files are written at once."""
    if not isinstance(path, (str, os.PathLike)) or options.get("filesystem"):
        yield path
        return
    # As pyarrow does: the name of a file that exists is no URI.
    path = os.path.expanduser(path)
    is_other = not os.path.isfile(path) if os.path.exists(path) else bool(_URI.match(path))
    if is_other:
        yield path
        return
    # A link stays one, and the file to which it leads is replaced.
    target = os.path.realpath(path)
    part = f"{target}.unfinished-{secrets.token_hex(3)}"
    replaced = os.stat(target) if os.path.exists(target) else None
    # Others may read the rows only once the file has the mode of the one that it replaces.
    mode = 0o666 if replaced is None else 0o600
    file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        yield part
        if replaced is not None:
            _take_after(file, replaced)
        os.fsync(file)
        _rename(part, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(part)
        raise
    finally:
        os.close(file)


def _rename(part: str, target: str) -> None:
    # Opened first: once the file has its name, nothing but the sync itself can fail.
    directory = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.replace(part, target)
        try:
            os.fsync(directory)
        except OSError as error:
            words = f"{error.strerror}; the file is whole, but a loss of power may undo it"
            raise OSError(error.errno, words, target) from error
    finally:
        os.close(directory)


def _take_after(file: int, replaced: os.stat_result) -> None:
    """Gives a file the mode of the one that it replaces, and its owner as far as that is
    permitted."""
    mode = replaced.st_mode & 0o777
    if not (_owned(file, replaced.st_uid, replaced.st_gid) or _owned(file, -1, replaced.st_gid)):
        # The group of the file gets no more than all others: its members could not read the
        # replaced one.
        mode &= 0o707 | (mode & 0o007) << 3
    os.fchmod(file, mode)


def _owned(file: int, owner: int, group: int) -> bool:
    """Whether the file has this owner and group: only a privileged process may change the owner,
    and others may choose among their groups."""
    try:
        os.fchown(file, owner, group)
    except OSError:
        return False
    return True
