"""Create `.venv` and install this checkout into it. Standard library only: it runs before anything is installed.

    python3 scripts/install.py [--extras dev] [--venv .venv]

Installs CPU PyTorch unless this machine has an NVIDIA GPU. If there is no GPU and pip's index offers only a CUDA build
(several gigabytes), it stops with instructions instead of downloading.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
TORCH = next(x for x in CONSTRAINTS.read_text().splitlines() if x.startswith("torch=="))


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--venv", type=Path, default=ROOT / ".venv")
    p.add_argument("--extras", default="")
    p.add_argument("--torch-index", default=os.environ.get("TORCH_INDEX", ""), help="an extra index with CPU wheels")
    args = p.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036 (it runs before anything could check)
        sys.exit(f"Python 3.11 or later is needed, this is {sys.version.split()[0]}")
    started = time.monotonic()
    python = args.venv / "bin" / "python"
    if not python.exists():
        print(f"creating {args.venv} ...", flush=True)
        venv.create(args.venv, with_pip=True)
    index = ["--extra-index-url", args.torch_index] if args.torch_index else []
    check_torch(python, index)
    target = f"{ROOT}[{args.extras}]" if args.extras else str(ROOT)
    print("installing (2 to 4 minutes the first time) ...", flush=True)
    # A single command: a second one could replace the CPU build by a newer CUDA build.
    pip(python, "install", "-q", "-c", str(CONSTRAINTS), *index, TORCH, "-e", target)
    for script in ("torchvision_shim.py", "opencv_choice.py"):
        subprocess.run([python, ROOT / "scripts" / script], check=True)
    print(f"installed in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def pip(python: Path, *arguments: str) -> None:
    done = subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *arguments], check=False)
    if done.returncode:
        sys.exit(f"pip failed (code {done.returncode}); see its message above")


def check_torch(python: Path, index: list[str]) -> None:
    """Exit before pip downloads a CUDA build of several gigabytes that this machine cannot use (dry run)."""
    here = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    if here.returncode == 0 or shutil.which("nvidia-smi") or os.environ.get("AD2_ALLOW_CUDA") == "1":
        return
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--dry-run", "--report", "-"]
    done = subprocess.run([*command, *index, TORCH], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pip cannot find {TORCH}:\n{done.stderr.strip()[-600:]}")
    names = [item["metadata"]["name"].lower() for item in json.loads(done.stdout)["install"]]
    cuda = [n for n in names if n.startswith(("nvidia", "cuda", "triton"))]
    if cuda:
        sys.exit(
            f"this machine has no NVIDIA GPU, and pip's index would install the CUDA build of {TORCH} "
            f"with {len(cuda)} GPU packages (several gigabytes).\n"
            "For the CPU build: make demo TORCH_INDEX=<the CPU wheel index from PyTorch's install page>\n"
            "To install the CUDA build anyway: AD2_ALLOW_CUDA=1 make demo"
        )


if __name__ == "__main__":
    raise SystemExit(main())
