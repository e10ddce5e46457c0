"""The torchvision shim, with fakes of torch and torchvision that fail as the real pair does."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "torchvision_shim.py"
TORCH = """
import sys
class version:
    cuda = None
DEFINED = []
class library:
    class Library:
        def __init__(self, name, kind): self.name = name
        def define(self, schema): DEFINED.append(self.name + "::" + schema.split("(")[0])
class ops:
    @staticmethod
    def load_library(path): FITS
"""
TORCHVISION = """
import torch
if "torchvision::nms" not in torch.DEFINED and not getattr(torch, "loaded", False):
    raise RuntimeError("operator torchvision::nms does not exist")
"""
LOADS = "sys.modules['torch'].loaded = True"


@pytest.fixture
def shim() -> ModuleType:
    spec = importlib.util.spec_from_file_location("torchvision_shim", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_fakes(folder: Path, fits: bool = False, cuda: str = "None") -> None:
    (folder / "torch.py").write_text(
        TORCH.replace("FITS", LOADS if fits else "raise OSError('libcudart is missing')").replace("None", cuda)
    )
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").write_text(TORCHVISION)
    (folder / "torchvision" / "_C.so").touch()


def python(site: Path, code: str) -> subprocess.CompletedProcess[str]:
    """A process whose site-packages is `site`, which takes precedence."""
    start = f"import site, sys; sys.path.insert(0, {str(site)!r}); site.addsitedir({str(site)!r})\n"
    return subprocess.run([sys.executable, "-S", "-c", start + code], capture_output=True, text=True, check=False)


def test_shim_repairs_the_import_and_can_be_removed(shim: ModuleType, tmp_path: Path) -> None:
    write_fakes(tmp_path)
    assert "nms does not exist" in python(tmp_path, "import torchvision").stderr
    shim.install(tmp_path)
    code = "assert 'torch' not in sys.modules\nimport torchvision, torch\nprint(torch.DEFINED)"
    assert python(tmp_path, code).stdout.strip() == "['torchvision::nms', 'torchvision::qnms']"
    assert shim.remove(tmp_path)
    assert not shim.remove(tmp_path)
    assert "nms does not exist" in python(tmp_path, "import torchvision").stderr


def test_find_spec_of_torchvision_does_not_load_torch(shim: ModuleType, tmp_path: Path) -> None:
    """transformers checks in every process whether torchvision is installed."""
    write_fakes(tmp_path)
    shim.install(tmp_path)
    code = "from importlib.util import find_spec\nprint(find_spec('torchvision').name, 'torch' in sys.modules)"
    assert python(tmp_path, code).stdout.split() == ["torchvision", "False"]


@pytest.mark.parametrize(("fits", "cuda"), [(True, "None"), (False, "'13.0'")], ids=["a fitting build", "CUDA torch"])
def test_shim_does_not_affect_other_installations(shim: ModuleType, tmp_path: Path, fits: bool, cuda: str) -> None:
    write_fakes(tmp_path, fits, cuda)
    shim.install(tmp_path)
    code = "import torch\ntry:\n    import torchvision\nexcept RuntimeError: print('fails')\nprint(torch.DEFINED)"
    assert python(tmp_path, code).stdout.split() == (["[]"] if fits else ["fails", "[]"])
