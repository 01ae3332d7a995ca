"""Parquet files: their names, permissions and marks, and that they are whole and on the disk."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import Any

import bedload
import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import rows_of


def test_whole_seconds_are_marked(db: bedload.Database, tmp_path: Path) -> None:
    # Parquet has no seconds; the command reads the mark.
    columns = {
        "at": pa.array([1, 2], pa.timestamp("s")),
        "ms": pa.array([1, 2], pa.timestamp("ms")),
        "ns": pa.array([1, 2], pa.timestamp("ns")),
        "of_day": pa.array([1, 2], pa.time32("s")),
        "of_day_ms": pa.array([1, 2], pa.time32("ms")),
        "for": pa.array([1, 2], pa.duration("s")),
    }
    rows = pa.table(columns)
    table = db.table("t", rows, time="at")
    table.append(rows)
    table.range().to_parquet(tmp_path / "rows.parquet")
    schema = pyarrow.parquet.read_schema(tmp_path / "rows.parquet")
    marks = {field.name: (field.metadata or {}).get(b"bedload.unit") for field in schema}
    assert [name for name, mark in marks.items() if mark == b"s"] == ["at", "of_day"]
    assert set(marks.values()) == {b"s", None}


def test_a_parquet_file_is_whole_or_as_it_was(
    tmp_path: Path, table: bedload.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link = tmp_path / "rows.parquet", tmp_path / "link.parquet"
    assert table.range().to_parquet(path) == 4
    link.symlink_to(path)
    assert table.range(20).to_parquet(str(link)) == 3
    assert link.is_symlink() and pyarrow.parquet.read_table(path).num_rows == 3
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()
    before = sorted(tmp_path.iterdir())

    def failing(rows: bedload.Rows, requested_schema: Any = None) -> Any:
        def batches() -> Any:
            yield rows_of(list(range(1 << 18))).to_batches()[0]
            raise OSError("cut off")

        return pa.RecordBatchReader.from_batches(rows_of([]).schema, batches()).__arrow_c_stream__()

    with monkeypatch.context() as patched:
        patched.setattr(bedload.Rows, "__arrow_c_stream__", failing)
        for to in [path, link, tmp_path / "new.parquet"]:
            with pytest.raises(Exception, match="cut off"):
                table.range().to_parquet(to)
            assert pyarrow.parquet.read_table(path).num_rows == 3
    with pytest.raises(pa.ArrowException, match="nonsense"):
        table.range().to_parquet(path, compression="nonsense")
    assert sorted(tmp_path.iterdir()) == before
    assert pyarrow.parquet.read_table(path).num_rows == 3
    with pytest.raises(FileNotFoundError, match="none"):
        table.range().to_parquet(tmp_path / "none" / "rows.parquet")
    sink = io.BytesIO()
    assert table.range().to_parquet(sink) == 4  # type: ignore[arg-type]
    assert pyarrow.parquet.read_table(io.BytesIO(sink.getvalue())).num_rows == 4


def test_names_of_parquet_files_are_those_of_pyarrow(
    tmp_path: Path, table: bedload.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert table.range().to_parquet("~/text.parquet") == 4
    assert table.range().to_parquet(Path("~/path.parquet")) == 4
    assert table.range().to_parquet(f"file:{tmp_path}/short.parquet") == 4
    assert table.range().to_parquet(f"file://{tmp_path}/long.parquet") == 4
    (tmp_path / "a:b").write_bytes(b"")
    assert table.range().to_parquet("a:b") == 4
    names = ["a:b", "long.parquet", "path.parquet", "short.parquet", "text.parquet"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == names
    for name in names:
        assert pyarrow.parquet.read_table(tmp_path / name).num_rows == 4
    with pytest.raises(ValueError, match="nonsense"):
        table.range().to_parquet("nonsense:rows.parquet")


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_parquet_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, table: bedload.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def record_sync(file: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(file).st_mode) else f"{os.fstat(file).st_size} bytes"
        steps.append(f"sync {kind}")
        sync(file)

    def record_replace(from_: Any, to: Any) -> None:
        steps.append("replace")
        replace(from_, to)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_replace)
    path = tmp_path / "rows.parquet"
    table.range().to_parquet(path)
    assert steps == [f"sync {path.stat().st_size} bytes", "replace", "sync directory"]


def test_a_failed_sync_of_the_directory_says_that_the_file_is_whole(
    tmp_path: Path, table: bedload.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    path = tmp_path / "rows.parquet"
    with pytest.raises(OSError, match="the file is whole, but a loss of power may undo it") as failed:
        table.range().to_parquet(path)
    assert failed.value.errno == errno.EIO
    assert pyarrow.parquet.read_table(path).num_rows == 4
    assert list(tmp_path.glob("rows.parquet*")) == [path]


def test_a_replaced_file_keeps_its_mode_and_owner(
    tmp_path: Path, table: bedload.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"")
    owners: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda file, owner, group: owners.append((owner, group)))
    for mode in (0o640, 0o400, 0o664):
        path.chmod(mode)
        table.range().to_parquet(path)
        assert path.stat().st_mode & 0o777 == mode
    assert owners == [(path.stat().st_uid, path.stat().st_gid)] * 3


@pytest.mark.parametrize(("mode", "kept"), [(0o640, 0o600), (0o664, 0o644), (0o777, 0o777)])
def test_a_file_of_another_group_gives_it_no_more_than_all_others(
    tmp_path: Path, table: bedload.Table, monkeypatch: pytest.MonkeyPatch, mode: int, kept: int
) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"")
    path.chmod(mode)

    def refuse(file: int, owner: int, group: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    table.range().to_parquet(path)
    assert path.stat().st_mode & 0o777 == kept
