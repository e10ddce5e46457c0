"""The table of tricky answers in tricky_answers.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing import REASONS, parse

TABLE: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("tricky_answers.yaml").read_text("utf-8"))


def cases() -> list[Any]:
    found = []
    for name, group in TABLE.items():
        keywords = {key: value for key, value in group.items() if key not in ("answers", "form")}
        form = group.get("form", name)
        for text, want in group["answers"]:
            found.append(pytest.param(form, keywords, text, want, id=f"{name}-{text[:40]!r}"))
    return found


@pytest.mark.parametrize(("form", "keywords", "text", "want"), cases())
def test_tricky_answer_is_parsed_as_listed(form: Any, keywords: dict[str, Any], text: str, want: Any) -> None:
    got = parse(text, form, **keywords)
    if want is None or (isinstance(want, str) and want.startswith("~")):
        assert isinstance(got, Unparsed), got
        assert got.reason in REASONS
        assert want in (None, "~") or got.reason == want[1:]
    else:
        expected = tuple(want) if isinstance(want, list) else want
        assert isinstance(got, Answer), got
        assert got.value == (pytest.approx(expected) if form in ("point", "box") else expected)


def test_table_is_large_and_in_both_languages() -> None:
    texts = [text for group in TABLE.values() for text, _ in group["answers"]]
    assert len(texts) >= 400
    assert sum(any("\u4e00" <= character <= "\u9fff" for character in text) for text in texts) >= 80
