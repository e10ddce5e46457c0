"""A real lmms-eval wrapper (Qwen2.5-VL, tiny random weights) behind the endpoint: it says what it says here."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.closedloop.models import decision_request
from support.closedloop.serving import served

from closedloop_plugin.agents.make import make_agent
from closedloop_plugin.harness import lmms_model
from closedloop_plugin.serve.model_service import ModelService

pytest_plugins = ("support.tiny_models",)


def test_a_served_model_says_what_it_says_in_process(tiny_qwen: Path) -> None:
    pytest.importorskip("decord")
    spec = f"lmms:qwen2_5_vl,pretrained={tiny_qwen},device_map=cpu,device=cpu,max_new_tokens=4,batch_size=3"
    asks = [decision_request(f"e{i}", speed=float(i)) for i in range(3)]
    try:
        near = make_agent(spec, cameras="front@80x45")
        with served([ModelService(near.backend)]) as server:  # type: ignore[attr-defined]
            far = make_agent(f"endpoint:qwen2_5_vl@{server.url},max_tokens=4,format=png", cameras="front@80x45")
            told = far.decide(asks)
            longer = make_agent(f"endpoint:qwen2_5_vl@{server.url},max_tokens=9,format=png", cameras="front@80x45")
            (more,) = longer.decide(asks[:1])
        alone = near.decide(asks)
    finally:
        lmms_model._load.cache_clear()
    assert all(d.error is None for d in (*alone, *told, more))
    assert [dict(d.texts) for d in told] == [dict(d.texts) for d in alone]
    assert more.texts["action"].startswith(alone[0].texts["action"]) and more.texts != alone[0].texts
