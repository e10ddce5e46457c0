"""Scenarios of the task ad2drive_threat: the folder or shipped suite AD2_THREATS, else HOME/threats. No lmms_eval, no
Scenic."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from closedloop_plugin.scenarios.suites.lookup import Suite, data_home, suite
from closedloop_plugin.scenarios.suites.programs import index_of
from closedloop_plugin.scenarios.suites.shipped_threats import shipped_folder
from lmms_eval_ad2.core.errors import Ad2Error

THREAT = "threat"  # the suite of the task's YAML
VARIABLE = "AD2_THREATS"


def threats_folder() -> Path:
    """The folder named by AD2_THREATS, a shipped suite of that name, else HOME/threats."""
    given = os.environ.get(VARIABLE)
    folder = Path(given or data_home() / "threats").expanduser().absolute()
    shipped = shipped_folder(given, data_home()) if given and not folder.is_dir() else None
    return shipped or folder


def suite_of(name: str) -> Suite:
    """The suite with the name in the YAML of a closed-loop task. Raises Ad2Error if there is no folder of threats."""
    if name != THREAT:
        return suite(name)
    folder = threats_folder()
    if not folder.is_dir():
        raise Ad2Error(
            f"{folder}: no folder of threat scenarios. They are made for one target model: ad2 threats generate "
            f"--suite embedded220 --agent ... --fuser rules --out {folder} (or set {VARIABLE} to an existing folder)"
        )
    return suite(str(folder))


def about(found: Suite) -> dict[str, Any]:
    """Description of the suite for result files: its scenarios, the target model and the fuser.

    Facts that a folder of the user's own programs does not have are None.
    """
    folder = threats_folder()
    index = index_of(folder)
    asked = index.get("asked")
    made: dict[str, Any] = asked if isinstance(asked, dict) else {}
    return {
        "folder": str(folder),
        "suite": found.name,
        "sha256": found.sha256,
        **{name: made.get(name) for name in ("agent", "fuser", "base", "seed", "version", "commit")},
        "scenarios": len(found.routes),
        "left_out": len(found.left_out),
        "played_draws": sum(draw.alone == found.alone for draw in found.draws.values()),  # checked scenarios
        "alone": found.alone,
    }
