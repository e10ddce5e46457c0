"""The card: counts, required keys, and escaped Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.snapshots import snapshot

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.mcq.card import CardCounts, card, markdown
from lmms_eval_ad2.storage.code_state import code_label

SNAPSHOT = Path(__file__).parent / "snapshots" / "card.md"
KINDS = ("correct", "logical_inconsistencies", "misinterpreted_sensor_inputs", "question_ambiguity")


def row(number: int, task: str = "planning", subtask: str = "goal action", **meta: Any) -> dict[str, Any]:
    letters = "ABCD"[number % 4 :] + "ABCD"[: number % 4]
    options = [{"letter": x, "text": x, "kind": kind} for x, kind in sorted(zip(letters, KINDS, strict=True))]
    return {
        "source": "drivelm",
        "task": task,
        "subtask": subtask,
        "answer": letters[0],
        "options": options,
        "meta": meta,
    }


def counts_of_rows() -> dict[str, Any]:
    counts = CardCounts()
    for number in range(6):
        counts.add(row(number, correctness=5 if number else 4, rounds=number % 2))
    counts.add(row(6, "perception", "motion state", correctness=5))
    counts.add({**row(7, "perception", "motion state"), "source": "lingoqa"})
    return counts.facts()


def facts(**changes: Any) -> Mapping[str, Any]:
    return {
        "name": "autodrive_qa", "split": "test", "date": "2026-01-02T03:04:05Z",
        "file": {"name": "questions.jsonl", "sha256": "ab" * 32}, "seed": 7, "kind": "all",
        "maker": "openai:some|model", "evaluator": "openai:other",
        "settings": {"n": 6, "rounds": 3, "prompts": {"sha256": "cd" * 4}},
        "counts": counts_of_rows(),
        "sources": [
            {"name": "drivelm", "spec": "drivelm=v1.json", "split": "train", "sha256": "ef" * 32, "usable": 1234,
             "unclassified": {"duplicate": 15, "no_answer": 1}, "left_out": {"empty question": 2}, "bad": 0},
            {"name": "lingoqa", "spec": "lingoqa:val", "split": "val", "sha256": "01" * 32, "usable": 500,
             "unclassified": {}, "left_out": {}, "bad": 3},
        ],
        "plan": {"mix": {"drivelm": 0.8, "lingoqa": 0.2}, "tasks": None, "asked": 10},
        "rejected": {"ambiguous": 3, "too_few_distractors": 1200}, "unfinished": {"http_500": 1},
        "notes": {"equals_answer": 4}, "account": {"requests": 80, "cost": {"usd": 1.5}},
        "short": [{"source": "lingoqa", "task": "perception", "subtask": "motion state", "asked": 3, "made": 1}],
        **changes,
    }  # fmt: skip


def test_rows_are_counted() -> None:
    counts = counts_of_rows()
    assert (counts["n"], counts["source"], counts["cell"]["lingoqa/perception"]) == (8, {"drivelm": 7, "lingoqa": 1}, 1)
    assert counts["position"] == {"A": 2, "B": 2, "C": 2, "D": 2}
    assert counts["category"] == dict.fromkeys(KINDS[1:], 8)
    assert counts["subtask"] == {"perception/motion state": 2, "planning/goal action": 6}
    assert (counts["correctness"], counts["correctness_mean"]) == ({"4": 1, "5": 6}, round(34 / 7, 4))
    assert counts["rounds"] == {"0": 5, "1": 3}
    assert CardCounts().facts()["correctness_mean"] is None


def test_the_card_is_json_with_schema_and_statement() -> None:
    built = card(facts())
    assert json.loads(json.dumps(built)) == built
    assert built["schema"] == "ad2-mcq-card/1"
    assert built["version"] == code_label()
    assert "reconstruction" in built["statement"]


def test_a_missing_or_misspelt_key_is_an_error() -> None:
    with pytest.raises(Ad2Error, match=r"missing \['plan'\], unknown \['plans'\]"):
        card({**{k: v for k, v in facts().items() if k != "plan"}, "plans": {}})


def test_the_page_equals_its_snapshot() -> None:
    page = markdown({**card(facts()), "version": "0"})
    assert page == snapshot(SNAPSHOT, page)


def test_an_empty_set_has_a_page() -> None:
    bare = card({k: v for k, v in facts(counts=CardCounts().facts(), evaluator=None).items()
                 if k not in ("rejected", "unfinished", "notes", "account", "short", "settings")})  # fmt: skip
    page = markdown(bare)
    assert "Not rated." in page
    assert "Rejected" not in page


def test_hostile_text_is_escaped() -> None:
    evil = "a|b\n# title <script>alert(1)</script> ![x](http://e) [l](http://e) `c` **b** \\"
    page = markdown(card(facts(name=evil, maker=evil, rejected={evil: 1}, settings={evil: evil * 50})))
    assert "<script" not in page
    assert "\n# title" not in page
    assert "](" not in page.replace("\\](", "")
    tables = [line for line in page.splitlines() if line.startswith("|")]
    widths = {line.replace("\\\\", "").replace("\\|", "").count("|") for line in tables}
    assert widths <= {3, 4, 5, 6, 8}  # no cell opened another column
    assert max(map(len, tables)) < 1000
