"""`needs_java`: skips a test on a machine without a usable Java; and fakes of Java and of SPICE's folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lmms_eval_ad2.scoring.metrics.caption import java

SPICE_MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")


def _found() -> bool:
    try:
        java.find()
    except java.JavaError:
        return False
    return True


needs_java = pytest.mark.skipif(not _found(), reason="no Java")


def fake_java(folder: Path, body: str, version: str = "17.0.1") -> None:
    """A `java` that prints its version and otherwise runs `body` (Python; argv in `args`)."""
    path = folder / "java"
    path.write_text(
        f"#!{sys.executable}\nimport json, os, sys, time\nargs = sys.argv[1:]\n"
        f"if args == ['-version']:\n    print('java version \"{version}\"', file=sys.stderr)\n    sys.exit()\n{body}\n"
    )
    path.chmod(0o755)


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))


def fake_spice_folder(monkeypatch: pytest.MonkeyPatch, folder: Path, jars: Sequence[str]) -> None:
    """Makes `folder` the one of SPICE in pycocoevalcap, with these (empty) jars in its lib."""
    (folder / "lib").mkdir()
    for name in jars:
        (folder / "lib" / name).touch()
    monkeypatch.setattr(java, "package_file", lambda module, name: folder / name)
