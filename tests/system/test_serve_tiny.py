"""A real lmms-eval wrapper (Qwen2.5-VL, tiny random weights) behind the endpoint gives the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.closedloop.models import decision_request
from support.closedloop.serving import served

from closedloop_plugin.driver.agents import lmms_model
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.interfaces.serve.services import ModelService

pytest_plugins = ("support.tiny_models",)


def test_a_served_model_gives_the_same_answers_as_in_process(tiny_qwen: Path) -> None:
    pytest.importorskip("decord")
    spec = f"lmms:qwen2_5_vl,pretrained={tiny_qwen},device_map=cpu,device=cpu,max_new_tokens=4,batch_size=3"
    requests = [decision_request(f"e{i}", speed=float(i)) for i in range(3)]
    try:
        local_agent = make_agent(spec, cameras="front@80x45")
        with served([ModelService(local_agent.backend)]) as server:  # type: ignore[attr-defined]
            remote_agent = make_agent(
                f"endpoint:qwen2_5_vl@{server.url},max_tokens=4,format=png", cameras="front@80x45"
            )
            remote = remote_agent.decide(requests)
            longer_agent = make_agent(
                f"endpoint:qwen2_5_vl@{server.url},max_tokens=9,format=png", cameras="front@80x45"
            )
            (longer,) = longer_agent.decide(requests[:1])
        local = local_agent.decide(requests)
    finally:
        lmms_model._load.cache_clear()
    assert all(d.error is None for d in (*local, *remote, longer))
    assert [dict(d.texts) for d in remote] == [dict(d.texts) for d in local]
    assert longer.texts["action"].startswith(local[0].texts["action"]) and longer.texts != local[0].texts
