"""A real lmms-eval wrapper (Qwen2.5-VL, tiny random weights) as the fast system, batched and one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.closedloop.models import decision_request

from closedloop_plugin.driver.agents import lmms_model
from closedloop_plugin.driver.agents.make import make_agent

pytest_plugins = ("support.tiny_models",)


def test_batched_and_single_requests_get_the_same_answers(tiny_qwen: Path) -> None:
    """The texts are meaningless, but each request must get its own."""
    pytest.importorskip("decord")
    spec = f"lmms:qwen2_5_vl,pretrained={tiny_qwen},device_map=cpu,device=cpu,max_new_tokens=4,batch_size=3"
    requests = [decision_request(f"e{i}", speed=float(i)) for i in range(3)]
    try:
        agent = make_agent(spec, tasks=("action", "threat"), cameras="front@80x45")
        together = agent.decide(requests)
        one_by_one = [agent.decide([a])[0] for a in requests]
    finally:
        lmms_model._load.cache_clear()
    assert all(d.error is None and set(d.texts) == {"action", "threat"} for d in together)
    assert [dict(d.texts) for d in together] == [dict(d.texts) for d in one_by_one]
