"""Make a CUDA build of torchvision importable with a CPU build of torch. For development and CI only.

    python scripts/torchvision_shim.py            # check; install the shim only if it is needed
    python scripts/torchvision_shim.py --remove   # remove it

With such a pair, `import torchvision` fails with "operator torchvision::nms does not exist", and so does lmms-eval's
evaluation. The shim is a `.pth` file and a module in this interpreter's site-packages. Just before torchvision is
imported, it defines the schemas of the two operators that torchvision looks up during its import, if torch has no CUDA
and torchvision's own library cannot be loaded. The operators have no kernels: calling them fails, as for every operator
of an unloaded library. For real evaluations install a torchvision that matches torch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

NAME = "_ad2_torchvision_shim"
# Standard library only, and no torch at start-up: a .pth line runs in every process of the environment.
MODULE = '''"""Written by scripts/torchvision_shim.py of lmms-eval-ad2 (development and CI only); see there."""

import sys
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_library = None  # an operator lives as long as the library object that defined it


def define_missing(package):
    global _library
    import torch

    if _library is not None or torch.version.cuda is not None:
        return
    for compiled in package.glob("_C*.so"):
        try:
            torch.ops.load_library(str(compiled))
            return  # a build that fits defines its operators itself
        except (ImportError, OSError):
            continue
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in SCHEMAS:
        _library.define(schema)


class Loader(SourceFileLoader):
    def exec_module(self, module):
        define_missing(Path(self.path).parent)
        super().exec_module(module)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "torchvision":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Loader(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder)
'''


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--remove", action="store_true", help="remove the shim")
    site = Path(sysconfig.get_path("purelib"))
    if parser.parse_args(argv).remove:
        print(f"removed the torchvision shim from {site}" if remove(site) else f"no torchvision shim in {site}")
        return 0
    fault = import_fault()
    if not fault:
        print("torchvision imports" + (" (with the shim)" if (site / f"{NAME}.pth").exists() else ": nothing to do"))
        return 0
    if "torchvision::nms does not exist" not in fault or has_cuda():
        print(f"import torchvision fails for a reason that this shim does not fix:\n{fault}", file=sys.stderr)
        return 1
    install(site)
    fault = import_fault()
    if fault:
        remove(site)
        print(f"the shim does not help, so it was removed:\n{fault}", file=sys.stderr)
        return 1
    print(f"torchvision imports now, through a shim in {site} (development and CI only)")
    return 0


def import_fault() -> str:
    """The end of the error output of `import torchvision` in a subprocess; "" if it works."""
    code = "import importlib.util, sys\nif importlib.util.find_spec('torchvision'):\n    import torchvision"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return (done.stderr.strip()[-1500:] or f"exit code {done.returncode}") if done.returncode else ""


def has_cuda() -> bool:
    """Whether torch is a CUDA build (with or without a GPU)."""
    code = "import sys, torch\nsys.exit(0 if torch.version.cuda is None else 3)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 3


def install(site: Path) -> None:
    # The module first: a `.pth` line without its module would print a warning in every process.
    for name, text in ((f"{NAME}.py", MODULE), (f"{NAME}.pth", f"import {NAME}\n")):
        draft = site / f".{name}.{os.getpid()}"
        draft.write_text(text, encoding="utf-8")
        draft.replace(site / name)


def remove(site: Path) -> bool:
    """Remove the shim; True if there was one."""
    files = [path for path in (site / f"{NAME}.pth", site / f"{NAME}.py") if path.exists()]
    for path in files:
        path.unlink()
    return bool(files)


if __name__ == "__main__":
    raise SystemExit(main())
