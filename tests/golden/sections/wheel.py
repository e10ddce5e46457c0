"""The wheel and the source archive: data files, metadata, entry points, licence; Python files only by their folder.

May differ by design: `python_files` (true: there is at least one), and the folder of a data file if its package
moves. Not recorded: the version, the description (README), the build tool, and RECORD.
"""

from __future__ import annotations

import configparser
import email
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from product_files import product_files
from workspace import Workspace, digest

COST = "seconds"
NOT_RECORDED = ("Metadata-Version", "Version", "Dynamic", "Description-Content-Type")


def record(work: Workspace) -> dict[str, Any]:
    clone = work.folder / "clone"
    for name in product_files():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(work.repo / name, clone / name)
    work.run(sys.executable, "-m", "build", "--no-isolation", "--outdir", work.folder / "dist", clone)
    (wheel,) = (work.folder / "dist").glob("*.whl")
    (source,) = (work.folder / "dist").glob("*.tar.gz")
    return {"wheel": _wheel(wheel), "source archive": _source(source)}


def _wheel(file: Path) -> dict[str, Any]:
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    info = {name.partition("/")[2]: data for name, data in content.items() if ".dist-info/" in name}
    files = {name: data for name, data in content.items() if ".dist-info/" not in name}
    message = email.message_from_bytes(info["METADATA"])
    keys = sorted(set(message.keys()) - set(NOT_RECORDED))
    return {
        "data files": {name: digest(data) for name, data in files.items() if not name.endswith(".py")},
        "python_files": {name.split("/")[0]: True for name in files if name.endswith(".py")},
        "tests inside": [name for name in files if "tests" in name.split("/")],
        "metadata": {key: dict.fromkeys(message.get_all(key, []), True) for key in keys},
        "entry points": _entry_points(info["entry_points.txt"].decode()),
        "top level": info["top_level.txt"].decode().split(),
        "dist-info": sorted(info),
        "licences": {name: digest(data) for name, data in info.items() if name.startswith("licenses/")},
        "tags": email.message_from_bytes(info["WHEEL"]).get_all("Tag"),
    }


def _entry_points(text: str) -> dict[str, list[str]]:
    """Group -> names; their targets may move."""
    found = configparser.ConfigParser()
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    return {group: sorted(found[group]) for group in found.sections()}


def _source(file: Path) -> dict[str, Any]:
    with tarfile.open(file) as archive:
        names = [entry.name.partition("/")[2] for entry in archive.getmembers() if entry.isfile()]
    return {
        "files": {name: True for name in names if not name.endswith(".py") and ".egg-info/" not in name},
        "python_files": sorted({name.split("/")[0] for name in names if name.endswith(".py")}),
    }
