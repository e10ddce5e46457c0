"""Options of `ad2 drive collect`: bounds that are checked before anything is driven."""

from __future__ import annotations

from pathlib import Path

import pytest

from closedloop_plugin.cli.drive.collect import CollectOptions
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_options, read_options
from lmms_eval_ad2.core.run_files import CommandParser


def options(*words: str) -> CollectOptions:
    parser = CommandParser()
    add_options(parser, CollectOptions, {})
    return read_options(CollectOptions, parser.parse_args(["--routes", "1", "--out", "drives", *words]))


def test_the_time_between_frames_is_at_least_a_tick() -> None:
    assert options() == options("--config", "every=0.5")
    assert options("--config", "every=0.05").every == 0.05 and options().out == Path("drives")
    for value in ("0", "0.049", "-1", "nan", "inf"):
        with pytest.raises(Ad2Error, match=rf"^--config every={float(value)}: from 0\.05 to 3600"):
            options(f"--config=every={value}")
