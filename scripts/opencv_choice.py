"""Keep one OpenCV. lmms-eval requires opencv-python-headless, Scenic opencv-python; both install the same files.

    python scripts/opencv_choice.py

If both are installed, the one unpacked last is used, and the GUI build cannot be imported without libGL. This script
then uninstalls the GUI build and reinstalls the headless one, in the version that Scenic accepts (< 5). pip reports
Scenic's requirement as missing afterwards, but its module, cv2, is present. `ad2 doctor` checks this.
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


def pip(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments], check=False)
    if done.returncode:
        sys.exit(f"pip {arguments[0]} failed (code {done.returncode}); see its message above")


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
