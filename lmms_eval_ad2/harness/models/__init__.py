"""Models added to lmms-eval: three baselines without a network, transformers' own classes, and ms-swift
(docs/models.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest

_CLASSES = {
    "ad2_chance": "baselines.ChanceModel",
    "ad2_hf": "hf.HfModel",
    "ad2_majority": "baselines.MajorityModel",
    "ad2_oracle": "baselines.OracleModel",
    "ad2_swift": "swift.SwiftModel",
}


def manifests() -> list[ModelManifest]:
    """Return names and class paths for lmms-eval, which imports a class when it is used."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return [ModelManifest(name, simple_class_path=f"{__name__}.{path}") for name, path in _CLASSES.items()]
