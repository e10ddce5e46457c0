"""One OpenCV, on purpose. lmms-eval asks for opencv-python-headless, Scenic for opencv-python: the same files, twice.

    python scripts/opencv_choice.py

With both installed whichever was unpacked last wins, and the GUI build does not import where libGL is missing. Where
both are there, the GUI build goes and the headless one is laid down anew, in the version that Scenic accepts (< 5).
pip's metadata then says that Scenic's requirement is missing; the module it means, cv2, is there. `ad2 doctor` checks.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

GUI, HEADLESS = "opencv-python", "opencv-python-headless"


def version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def pip(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *words], check=False)
    if done.returncode:
        sys.exit(f"pip {words[0]} failed (code {done.returncode}); its message stands above")


def main() -> int:
    gui, headless = version(GUI), version(HEADLESS)
    if gui is None or headless is None:
        return 0
    pip("uninstall", "-y", GUI)
    pip("install", "--force-reinstall", "--no-deps", f"{HEADLESS}=={gui}")
    print(f"kept {HEADLESS} {gui}, removed {GUI}: one cv2, no libGL needed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
