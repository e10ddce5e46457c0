"""`ad2 doctor`: does this machine have what a run needs? Each line says what was found and what to do."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from importlib import metadata
from typing import Any

Finding = tuple[str, bool, str]


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("doctor", help="check this installation")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    findings = [
        _lmms_eval(),
        _imports("torch"),
        _imports("torchvision"),
        _cv2(),
        _drive(),
        _carla(),
        _java(),
        _home(),
        _judge(),
    ]
    for name, good, text in findings:
        print(f"{'ok  ' if good else 'FAIL'}  {name:<12} {text}")
    return 0 if all(good for _, good, _ in findings) else 1


def _lmms_eval() -> Finding:
    try:
        found = metadata.version("lmms_eval")
    except metadata.PackageNotFoundError:
        return "lmms-eval", False, "not installed: pip install lmms-eval==0.7.3"
    tested = "0.7.3"
    note = (
        ""
        if found == tested
        else f" (tested with {tested}; the wrappers depend on it: pip install lmms-eval=={tested})"
    )
    return "lmms-eval", found == tested, found + note


def _imports(name: str) -> Finding:
    """In a process of its own: a broken torchvision must not take this one with it."""
    code = f"import {name}; print(getattr({name}, '__version__', 'imports'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return name, True, done.stdout.strip()
    reason = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message"
    fix = (
        "a CPU torch beside a CUDA torchvision? see docs/install.md" if name == "torchvision" else f"pip install {name}"
    )
    return name, False, f"does not import ({reason}): {fix}"


def _cv2() -> Finding:
    """Two wheels write the same cv2 folder; whichever came last wins, and the GUI build needs libGL."""
    found = [n for n in ("opencv-python", "opencv-python-headless", "opencv-contrib-python") if _version(n)]
    if len(found) > 1:
        fix = f"pip uninstall -y {' '.join(found)} && pip install 'opencv-python-headless>=4.8,<5'"
        return "cv2", False, f"{' and '.join(found)} overwrite each other: {fix}"
    return "cv2", True, found[0] if found else "not installed (the open-loop tasks do not need it)"


def _drive() -> Finding:
    """The closed loop is optional: absent is fine, installed and broken is not."""
    if not _version("scenic"):
        return "scenic", True, "not installed; for ad2 drive: pip install 'lmms-eval-ad2[drive]'"
    name, good, text = _imports("scenic")
    needs = "" if _version("greenlet") else "; greenlet is missing: pip install 'lmms-eval-ad2[drive]'"
    return name, good and not needs, text + needs


def _carla() -> Finding:
    """CARLA's client, optional as well. Whether a server answers and fits: ad2 carla status."""
    found = _version("carla")
    if found is None:
        return "carla", True, "not installed; for --world carla and ad2 carla: pip install 'lmms-eval-ad2[carla]'"
    name, good, text = _imports("carla")
    return name, good, f"client {found}: servers must be CARLA {found} (ad2 carla status asks them)" if good else text


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _java() -> Finding:
    path = shutil.which("java")
    if path:
        return "java", True, "found (BLEU, METEOR, ROUGE-L, CIDEr use it)"
    return (
        "java",
        True,
        "not found: n-gram metrics of pycocoevalcap will be 'not scored'; install a JRE, version 8 or later",
    )


def _home() -> Finding:
    from lmms_eval_ad2.library import home

    path = home()
    probe = next(p for p in (path, *path.parents) if p.exists())
    good = os.access(probe, os.W_OK)
    return "data home", good, f"{path}" + ("" if good else " is not writable: set AD2_HOME")


def _judge() -> Finding:
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.judge import make_judge

    try:
        return "judge", True, make_judge(None).label + " (AD2_JUDGE, or --judge of ad2 eval)"
    except Ad2Error as exc:
        return "judge", False, str(exc)
