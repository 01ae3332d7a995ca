"""The wheel that `make py-test` builds has what it should, and nothing else."""

from __future__ import annotations

import zipfile
from email import message_from_string
from pathlib import Path

import bedload
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def wheel() -> zipfile.ZipFile:
    (path,) = (ROOT / "target" / "wheels").glob("*.whl")
    assert path.name.startswith(f"bedload-{bedload.__version__}-cp310-abi3-"), "one wheel serves 3.10 and later"
    return zipfile.ZipFile(path)


def test_contents(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    package = {name.removeprefix("bedload/") for name in names if name.startswith("bedload/")}
    sources = ROOT / "crates" / "python" / "python" / "bedload"
    expected = {path.name for path in sources.iterdir() if path.suffix in (".py", ".pyi", ".typed")}
    assert {"py.typed", "_native.pyi", "__init__.py"} <= expected
    assert package == expected | {"_native.abi3.so"}
    others = {name for name in names if not name.startswith("bedload/")}
    info = f"bedload-{bedload.__version__}.dist-info"
    assert all(name.startswith((f"{info}/", "bedload.libs/")) for name in others), others
    for licence in ("LICENSE-APACHE", "LICENSE-MIT"):
        assert wheel.read(f"{info}/licenses/{licence}") == (ROOT / licence).read_bytes()
    notices = wheel.read(f"{info}/licenses/LICENSE-THIRD-PARTY").decode()
    assert all(f"\n{crate} v" in notices for crate in ("arrow-array", "numpy", "pyo3"))
    assert "\nparquet v" not in notices, "the command's"


def test_metadata(wheel: zipfile.ZipFile) -> None:
    metadata = message_from_string(wheel.read(f"bedload-{bedload.__version__}.dist-info/METADATA").decode())
    assert metadata["License-Expression"] == "Apache-2.0 OR MIT"
    assert metadata["Requires-Python"] == ">=3.10"
    required = [name for name in metadata.get_all("Requires-Dist") if "extra ==" not in name]
    assert required == ["numpy>=1.24"]
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    readme = (ROOT / "crates" / "python" / "README.md").read_text()
    assert str(metadata.get_payload()).strip() == readme.strip()
