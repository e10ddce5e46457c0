"""YAML of a user: whatever is wrong with it, the reader gets a YAMLError, and the command one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.judge import rubrics
from lmms_eval_ad2.llm.model import pairs, yaml_mapping
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.report.published import own_tables
from lmms_eval_ad2.scoring.score_columns import subtasks
from lmms_eval_ad2.storage.untrusted_yaml import read_yaml

DEEP = "[" * 5000
FAULTS = (
    (DEEP, "nested too deeply"),
    ("a: 2026-13-01", "a value that does not fit its type: month must be in 1..12"),
    ("a: !!timestamp x", "a value that does not fit its type"),
    ("a: !!int x", "a value that does not fit its type"),
    ("a: [1", "expected ',' or ']'"),
    ("{[a]: b}", "found unhashable key"),
)


@pytest.mark.parametrize(("text", "fault"), FAULTS, ids=range(len(FAULTS)))
def test_every_fault_is_a_yaml_error(text: str, fault: str) -> None:
    with pytest.raises(yaml.YAMLError, match=re.escape(fault)):
        read_yaml(text)


def test_a_good_text_is_read() -> None:
    assert read_yaml("a: [1, 2.5, x]\nb: {c: null}") == {"a": [1, 2.5, "x"], "b": {"c": None}}


@pytest.mark.parametrize("text", [DEEP, "a: 2026-13-01"], ids=["deep", "date"])
def test_readers_of_user_files_name_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    readers = (
        lambda: yaml_mapping(file, "settings", "a model"),
        lambda: PromptSet.load(file),
        lambda: own_tables(file),
        lambda: subtasks(str(file)),
        lambda: rubrics.from_yaml(text, file, {}),
    )
    for reader in readers:
        with pytest.raises(Ad2Error, match=r"own\.yaml"):
            reader()


def test_a_value_of_a_specification_that_is_no_yaml_is_a_text() -> None:
    assert pairs("date=2026-13-01,n=3", "judge") == {"date": "2026-13-01", "n": 3}
