"""Import in a subprocess what an evaluation imports, and report what fails, torch's build, and a torchvision shim.

`import lmms_eval.evaluator` is not enough: some of its imports are in functions and fail only when a run has begun.
Takes about ten seconds, so a caller starts the probe early and asks for the report at its end.
"""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from lmms_eval_ad2.core.errors import import_remedy

# Installed distributions: versions, and import checks whose results are lines of `ad2 doctor`.

Finding = tuple[str, bool, str]  # name, whether the check passed, result and remedy


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution, or None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def imports(name: str) -> Finding:
    """Check that a library can be imported."""
    good, text = try_import(name)
    if good:
        return name, True, text
    cuda = "a CPU torch with a CUDA torchvision? see docs/install.md"
    fix = cuda if name == "torchvision" else import_remedy(text)
    return name, False, f"cannot be imported ({text})" + (f": {fix}" if fix else "")


def try_import(name: str) -> tuple[bool, str]:
    """Import a module in a subprocess, since a broken torchvision could crash the interpreter.

    Returns whether it succeeded, and the module's version, "imports", or the last line of the error.
    """
    code = f"import {name}; print(getattr({name}, '__version__', 'imports'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else "no message"


HOST = "lmms_eval.evaluator"
PATIENCE_S = 600
SHIM = "_ad2_torchvision_shim"  # of scripts/torchvision_shim.py


@dataclass(frozen=True)
class ImportReport:
    """`fault`: the error of the first import that fails, or empty. `torch`: its version and build, or empty."""

    fault: str
    torch: str = ""
    shim: bool = False

    def problem(self) -> str:
        """The fault with its remedy in one line; empty without a fault."""
        remedy = import_remedy(self.fault)
        return f"lmms-eval cannot evaluate: {self.fault}" + (f": {remedy}" if remedy else "") if self.fault else ""


class ImportProbe:
    """The subprocess; started when constructed."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def report(self) -> ImportReport:
        try:
            out, err = self._process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:  # a file system that hangs
            self._process.kill()
            self._process.communicate()
            return ImportReport(f"the imports of lmms-eval take more than {PATIENCE_S} s")
        try:
            return ImportReport(**json.loads(out.strip().splitlines()[-1]))
        except (IndexError, ValueError, TypeError):  # the interpreter crashed
            code = self._process.returncode
            return ImportReport((err.strip().splitlines() or [f"the interpreter ended with code {code}"])[-1])


def _imports_of(file: Path) -> list[str]:
    """The modules that a source file imports anywhere, also within functions."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
    return list(dict.fromkeys(found))


def _probe() -> ImportReport:
    try:
        host = importlib.import_module(HOST)
        for name in ("lmms_eval.__main__", "lmms_eval_ad2.harness.plugin", *_imports_of(Path(str(host.__file__)))):
            importlib.import_module(name)
        fault = ""
    except Exception as exc:  # a library of another version may raise anything
        fault = (" ".join(str(exc).split()) or type(exc).__name__)[:300]
    shim = getattr(sys.modules.get(SHIM), "_library", None) is not None
    return ImportReport(fault, _torch_build(), shim)


def _torch_build() -> str:
    try:
        import torch
    except Exception:  # the fault names it
        return ""
    if torch.version.cuda:
        return f"{torch.__version__} (CUDA build, {'GPU found' if torch.cuda.is_available() else 'no GPU found'})"
    return f"{torch.__version__} ({'ROCm' if torch.version.hip else 'CPU'} build)"


if __name__ == "__main__":
    print(json.dumps(asdict(_probe())))
