"""llm/request_body: the bytes of json.dumps, with JsonSafeText inserted without escaping."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.llm import request_body
from lmms_eval_ad2.llm.request_body import EncodedJson, JsonSafeText, canonical, encoded

TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
SAFE_TEXTS = st.binary(max_size=60).map(
    lambda data: JsonSafeText("data:image/jpeg;base64," + base64.b64encode(data).decode())
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | SAFE_TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


SHARED = st.dictionaries(TEXTS, JSON, max_size=3).map(EncodedJson)


@given(st.dictionaries(TEXTS | st.just("messages"), JSON | SHARED, max_size=4))
def test_encoding_equals_json_dumps(payload: dict[str, Any]) -> None:
    assert encoded(payload) == json.dumps(payload, ensure_ascii=False).encode()


@given(st.dictionaries(TEXTS, JSON | SHARED, max_size=4) | JSON)
def test_canonical_form_has_sorted_keys_and_no_spaces(value: Any) -> None:
    assert canonical(value) == json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def test_several_pictures_keep_their_order() -> None:
    urls = [JsonSafeText(f"data:,{i}") for i in range(12)]
    assert json.loads(encoded({"a": urls, "b": {"c": (urls[3], "x")}})) == {"a": urls, "b": {"c": ["data:,3", "x"]}}


def test_json_safe_text_is_not_passed_to_json_dumps(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Recorder(json.JSONEncoder):
        def encode(self, o: Any) -> str:
            seen.append(o)
            return super().encode(o)

    monkeypatch.setattr(request_body, "_ENCODER", Recorder(ensure_ascii=False))
    body = encoded({"messages": [{"url": JsonSafeText("A" * 1000)}]})
    assert len(seen[0]["messages"][0]["url"]) < 100 and json.loads(body)["messages"][0]["url"] == "A" * 1000


@pytest.mark.parametrize("text", ['"', "\\", "\n", "é", "<"])
def test_json_safe_text_refuses_characters_that_json_escapes(text: str) -> None:
    with pytest.raises(ValueError, match="JSON escapes"):
        JsonSafeText(f"data:{text}")


def test_a_lone_surrogate_is_replaced() -> None:
    assert json.loads(encoded({"a": "\ud800", "b": JsonSafeText("x")})) == {"a": "?", "b": "x"}
