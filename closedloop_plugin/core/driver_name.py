"""driver_name: how tables and pictures call a driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmms_eval_ad2.storage.local_weights import model_label


def driver_name(agent: Mapping[str, Any]) -> str:
    """The name of an agent of a record, for lmms-eval's models with the checkpoint: "lmms:llava_hf tiny-driver".

    agent: EpisodeRecord.agent. Of a folder or a repository of a hub, the last part of its name.
    """
    name, checkpoint = str(agent.get("name", "")), model_label("", str(agent.get("model_args") or ""))
    return f"{name} {checkpoint}" if checkpoint and checkpoint not in name else name
