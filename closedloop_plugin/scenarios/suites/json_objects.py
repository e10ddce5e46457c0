"""Reading the JSON objects of a folder of programs: untrusted, with errors that name the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.untrusted_json import load


def json_object(file: Path, expected: str, hint: str = "") -> dict[str, Any]:
    """The JSON object in a file, {} without the file. Raises DataError for other content."""
    if not file.is_file():
        return {}
    try:
        found = load(file)
    except ValueError as exc:
        raise DataError(file, None, "file", "JSON", str(exc), hint) from exc
    if not isinstance(found, dict):
        raise DataError(file, None, "file", expected, found)
    return found
