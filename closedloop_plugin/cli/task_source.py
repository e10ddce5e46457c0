"""Data of the closed-loop tasks (`ad2drive_*`): suites of routes; they need the drive extra."""

from __future__ import annotations

from importlib.util import find_spec

from lmms_eval_ad2.core.errors import install_command
from lmms_eval_ad2.core.plugins import TaskSource


def ready(suite: str) -> bool:
    from closedloop_plugin.threats.task_suite import suite_of
    from lmms_eval_ad2.core.errors import Ad2Error

    try:
        suite_of(suite)
    except Ad2Error:
        return False
    return find_spec("scenic") is not None


def hint(suite: str) -> str:
    if suite == "threat":
        return "ad2 threats generate --suite ... --agent ... --fuser rules --out DIR, then AD2_THREATS=DIR"
    return f"ad2 drive routes bench2drive220.xml, with {install_command('drive')}"


TASK_SOURCE = TaskSource("ad2drive:", ready, hint)
