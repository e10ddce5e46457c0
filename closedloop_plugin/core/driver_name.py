"""driver_name: how tables and pictures call a driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Arguments of lmms-eval's model classes that name the checkpoint.
_CHECKPOINT = re.compile(r"(?:^|,)\s*(?:pretrained|model_version|model_name_or_path|model)=([^,]+)")


def driver_name(agent: Mapping[str, Any]) -> str:
    """The name of an agent of a record, for lmms-eval's models with the checkpoint: "lmms:llava_hf tiny-driver".

    agent: EpisodeRecord.agent. Of a folder or a repository of a hub, the last part of its name.
    """
    name, found = str(agent.get("name", "")), _CHECKPOINT.search(str(agent.get("model_args") or ""))
    checkpoint = found[1].strip().rstrip("/\\").replace("\\", "/").rpartition("/")[2] if found else ""
    return f"{name} {checkpoint}" if checkpoint and checkpoint not in name else name
