"""Hints for imports that fail, and for extras of an editable installation."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from lmms_eval_ad2.core import errors
from lmms_eval_ad2.core.errors import import_remedy, install_command


def test_what_is_absent_is_to_be_installed() -> None:
    assert import_remedy("No module named 'no_such_library.part'") == "pip install no_such_library"
    assert import_remedy("libGL.so.1: cannot open shared object file") == ""


def test_what_is_installed_and_unfit_is_named_with_its_version() -> None:
    version = metadata.version("filelock")
    text = import_remedy("No module named 'filelock._no_such'")
    assert text.startswith(f"filelock {version} is installed without filelock._no_such: ")
    text = import_remedy("cannot import name 'x' from 'pytest' (/somewhere)")
    assert (
        text == f"pytest {metadata.version('pytest')} is installed but lacks that name: another version of it is needed"
    )


@pytest.mark.parametrize("editable", [True, False])
def test_an_extra_keeps_the_installation_editable(editable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(errors.__file__).resolve().parents[1]
    text = json.dumps({"url": root.as_uri(), "dir_info": {"editable": editable}})
    monkeypatch.setattr(metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    expected = f"pip install -e '{root}[ray]'" if editable else "pip install '.[ray]'"
    assert install_command("ray") == expected
