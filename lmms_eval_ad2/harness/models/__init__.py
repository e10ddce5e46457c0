"""Models that this package adds to lmms-eval: three baselines that need no network, and ms-swift (docs/models.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest

_CLASSES = {
    "ad2_chance": "baselines.ChanceModel",
    "ad2_majority": "baselines.MajorityModel",
    "ad2_oracle": "baselines.OracleModel",
    "ad2_swift": "swift.SwiftModel",
}


def manifests() -> list[ModelManifest]:
    """What the entry point hands to lmms-eval: names and class paths; the classes are imported when asked for."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return [ModelManifest(name, simple_class_path=f"{__name__}.{path}") for name, path in _CLASSES.items()]
