"""llm/base_urls: several servers in a specification, a file and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from closedloop_plugin.driver.agents.endpoint import EndpointModel
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.judge.spec import build, read
from lmms_eval_ad2.llm.base_urls import checked_urls, split_urls
from lmms_eval_ad2.llm.client import EndpointConfig
from lmms_eval_ad2.llm.model import read_model

ONE, TWO = "http://a:8000/v1", "https://b/v1+x"
BOTH = f"{ONE}+{TWO}"


def test_a_plus_joins_urls_only_before_a_scheme() -> None:
    assert split_urls(BOTH) == (ONE, TWO)
    assert checked_urls(f"{ONE}/+{TWO}") == checked_urls([ONE, TWO]) == BOTH
    assert EndpointConfig(BOTH, concurrency=3).in_flight == 6


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "empty"),
        (f"{ONE}+{ONE}/", "named twice"),
        (f"{ONE}+http://user:word@b/v1", "user names"),
        ([ONE, "b:8000/v1"], "expected http"),
    ],
)
def test_mistakes_are_one_line(given: str | list[str], why: str) -> None:
    with pytest.raises(Ad2Error, match=why) as caught:
        checked_urls(given)
    assert "word@" not in str(caught.value)


def test_every_kind_of_specification_takes_several_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "judge.yaml"
    file.write_text(f"backend: openai\nmodel: m\nbase_url:\n  - {ONE}\n  - {TWO}\n")
    for spec in (str(file), f"openai:model=m,base_url={BOTH},concurrency=4"):
        assert build(read(spec), None).describe()["base_url"] == BOTH
    assert read_model(f"endpoint:m@{BOTH}").endpoint.base_url == BOTH
    assert EndpointModel.from_spec(f"m@{BOTH}").describe()["base_url"] == BOTH
    monkeypatch.setenv("OPENAI_BASE_URL", BOTH)
    assert read_model("openai:m").endpoint.base_url == BOTH


def test_the_key_of_openai_is_required_for_any_of_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(Ad2Error, match="OPENAI_API_KEY"):
        read_model(f"openai:model=m,base_url={ONE}+https://api.openai.com/v1")
