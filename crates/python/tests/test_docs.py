"""The Python examples of the documents run, those of a page one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    str(page.relative_to(ROOT))
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    if "```python\n" in page.read_text()
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
