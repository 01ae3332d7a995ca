"""The Python examples of each page run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).resolve().parents[3]


PAGES = [
    "docs/python.md",
    "docs/guides/analysis.md",
    "docs/guides/backfill.md",
    "docs/guides/grafana.md",
    "docs/guides/monitoring.md",
    "docs/guides/new-rows.md",
    "docs/guides/readers.md",
    "README.md",
    "crates/python/README.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_examples(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("agg")
    examples = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert examples
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for example in examples:
        # DuckDB finds frames by the names of variables, which a module's are.
        exec(compile(example, page, "exec"), names)
