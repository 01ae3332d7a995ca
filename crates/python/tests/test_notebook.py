"""The notebook on the flights is stored executed: it runs, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def printed(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """The text of each cell's outputs."""
    return [
        [output.get("text") or output["data"]["text/plain"] for output in cell.get("outputs", [])]
        for cell in notebook.cells
    ]


def test_flights(tmp_path: Path) -> None:
    stored = nbformat.read(EXAMPLES / "flights.ipynb", as_version=4)
    shown = printed(stored)
    assert sum(map(len, shown)) > 6
    (tmp_path / "examples").symlink_to(EXAMPLES)
    NotebookClient(stored, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert printed(stored) == shown
