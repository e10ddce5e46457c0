"""llm/model: model specifications, and errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.model import LanguageModel, json_schema, read_model


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_equivalent_specs_give_the_same_model(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text("backend: openai\nmodel: m\nbase_url: http://h:1/v1\nconcurrency: 9\n")
    models = [
        read_model(spec)
        for spec in (
            "openai:model=m,base_url=http://h:1/v1,concurrency=9",
            "openai:m,base_url=http://h:1/v1/,concurrency=9",
            "endpoint:m@http://h:1/v1,concurrency=9",
            "endpoint:http://h:1/v1,model=m,concurrency=9",
            str(file),
            {"model": "m", "base_url": "http://h:1/v1", "concurrency": 9},
        )
    ]
    assert models == [models[0]] * len(models)
    assert (models[0].label, models[0].endpoint.concurrency) == ("openai:m", 9)


def test_the_response_format_follows_the_structured_option() -> None:
    form = json_schema("picks", {"type": "object"})

    def response_format(structured: str) -> dict[str, object]:
        spec = f"endpoint:m@http://h/v1,structured={structured}"
        return read_model(spec).payload([], form).get("response_format", {})

    assert response_format("json_schema") == {
        "type": "json_schema", "json_schema": {"name": "picks", "strict": True, "schema": {"type": "object"}},
    }  # fmt: skip
    assert response_format("json_object") == {"type": "json_object"}
    assert response_format("none") == {}
    assert "response_format" not in read_model("endpoint:m@http://h/v1").payload([])


def test_defaults_prices_and_description() -> None:
    model = read_model("endpoint:m@http://h/v1,price_prompt=2,price_completion=10", max_tokens=77, seed=5)
    assert (model.sampling.max_tokens, model.sampling.seed) == (77, 5)
    assert model.price is not None and model.price.cost(1_000_000, 100_000) == 3.0
    assert read_model("endpoint:m@http://h/v1,seed=null").sampling.seed is None
    assert read_model("endpoint:m@http://h/v1,seed=8", seed=5).sampling.seed == 8
    described = LanguageModel(model.endpoint, model.sampling).describe()
    assert "http" not in repr(described) and described["model"] == "m"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("opena:model=m", "unknown --llm .*did you mean openai"),
        ("openai:", "--llm: which model"),
        ("openai", "--llm: which model"),
        ("openai:model=m,api_key=sk-secret", "no key belongs here"),
        ("openai:model=m,rubrics=x.yaml,base_url=http://h/v1", "unknown key of --llm: 'rubrics'"),
        ("openai:model=m,base_url=http://h/v1,structured=xml", "structured 'xml'"),
        ("openai:model=m,base_url=http://h/v1,concurrency=0", "--llm setting concurrency"),
        ("endpoint:m@http://me:sk-secret@h/v1", "base_url of h"),
        ("endpoint:m@h:80", "base_url: expected http"),
        ("endpoint:m@http://h:99999999/v1", "is not a URL"),
        ("openai:model=m,base_url=http://[::1/v1", "is not a URL"),
        ("openai:model=m", "OPENAI_API_KEY is not set"),
        ("none.yaml", "cannot read the file of --llm"),
        ({"backend": "lexical", "model": "m"}, "unknown backend of --llm"),
    ],
)
def test_invalid_specs_are_rejected_with_the_reason(spec: str, message: str) -> None:
    with pytest.raises(Ad2Error, match=message) as caught:
        read_model(spec)
    assert "sk-secret" not in str(caught.value)
