"""Threat suites that are shipped with the package: compressed folders of programs, loaded by name.

    closedloop_plugin/scenarios/suites/shipped/NAME.zip         suite.json, check.json, scenarios/*.scenic
    HOME/shipped_threats/NAME-<sha12>/                the same, unpacked at the first use

Programs name their routes as SUITE:ID; the routes themselves are not shipped. scripts/pack_threats.py writes the files.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from pathlib import Path

from lmms_eval_ad2.storage.files import file_sha256

SHIPPED = Path(__file__).parent / "shipped"
ENDING = ".zip"
MEMBERS = ("suite.json", "check.json")


def shipped_names() -> list[str]:
    return sorted(file.name.removesuffix(ENDING) for file in SHIPPED.glob(f"*{ENDING}"))


def shipped_folder(name: str, home: Path) -> Path | None:
    """The folder of a shipped suite below `home`, unpacked if it is not there; None without such a suite.

    Another process may unpack it at the same time: the first one that is complete stays.
    """
    if name not in shipped_names():
        return None
    archive = SHIPPED / f"{name}{ENDING}"
    folder = home / "shipped_threats" / f"{name}-{file_sha256(archive)[:12]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(made)
        made.chmod(0o755)
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def pack(folder: Path, archive: Path) -> str:
    """Write the suite's index, verdicts and programs to an archive; its sha256. Equal folders give equal files."""
    files = [folder / name for name in MEMBERS] + sorted((folder / "scenarios").glob("*.scenic"))
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as packed:
        for file in files:
            member = zipfile.ZipInfo(file.relative_to(folder).as_posix())  # its date is a constant
            packed.writestr(member, file.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return hashlib.sha256(archive.read_bytes()).hexdigest()
