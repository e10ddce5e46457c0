"""The closed loop's lines of `ad2 doctor`. Its libraries are optional, but must work if they are installed."""

from __future__ import annotations

from lmms_eval_ad2.core.errors import install_command
from lmms_eval_ad2.core.import_probe import Finding, imports, version_of


def findings() -> list[Finding]:
    return [scenic(), carla()]


def scenic() -> Finding:
    if not version_of("scenic"):
        return "scenic", True, f"not installed; for ad2 drive: {install_command('drive')}"
    name, good, text = imports("scenic")
    needs = "" if version_of("greenlet") else f"; greenlet is missing: {install_command('drive')}"
    return name, good and not needs, text + needs


def carla() -> Finding:
    """CARLA's client only; `ad2 carla status` queries servers."""
    found = version_of("carla")
    if found is None:
        return "carla", True, f"not installed; for --world carla and ad2 carla: {install_command('carla')}"
    name, good, text = imports("carla")
    return (
        name,
        good,
        f"client {found}: servers must be CARLA {found} (ad2 carla status queries them)" if good else text,
    )
