"""Failing events print one line, or the traceback of our own code, once for each place."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from lmms_eval_ad2.annotate.event_errors import EventErrors
from lmms_eval_ad2.annotate.page_html import read_marks


def library_error(errors: EventErrors) -> None:
    """An error below a foreign package, as of Gradio."""
    from hypothesis import find
    from hypothesis import strategies as st

    try:
        find(st.integers(), lambda n: json.loads("["))
    except ValueError:
        errors.print_exc()


def own_error(errors: EventErrors) -> None:
    try:
        read_marks(7)  # type: ignore[arg-type]
    except AttributeError:
        errors.print_exc()


def test_an_error_of_a_library_is_one_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    errors = EventErrors()
    for _ in range(100):
        library_error(errors)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("an invalid event was refused: JSONDecodeError: Expecting value")


def test_an_error_of_our_code_keeps_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    errors = EventErrors()
    for _ in range(3):
        own_error(errors)
    err = capsys.readouterr().err
    assert err.count("Traceback") == 1
    assert "page_html.py" in err


def test_records_of_exceptions_are_replaced_and_others_kept(capsys: pytest.CaptureFixture[str]) -> None:
    errors = EventErrors()
    kept = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "no exception", None, None)
    assert errors.filter(kept)
    try:
        raise KeyError(9999)
    except KeyError:
        failed = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "Exception", None, sys.exc_info())
    assert not errors.filter(failed)
    assert capsys.readouterr().err == "an invalid event was refused: KeyError: 9999\n"
