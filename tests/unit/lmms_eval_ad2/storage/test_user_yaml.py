"""YAML files of users: what is refused, and that every reader refuses it in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from closedloop_plugin.robots.vehicles.robot_config import read_robot
from closedloop_plugin.scoring.audit.result_list import read_list
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness.task_files import included
from lmms_eval_ad2.judge.rubrics import load
from lmms_eval_ad2.judge.spec import read
from lmms_eval_ad2.llm.model import pairs
from lmms_eval_ad2.prompts.prompt_set import _read, user_text
from lmms_eval_ad2.report.published import own_tables
from lmms_eval_ad2.scoring.score_columns import subtasks
from lmms_eval_ad2.storage import user_yaml

_MANY = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
ATTACKS = {
    "aliases": _MANY, "own alias": "&a [*a]", "own alias as a value": "&a {backend: *a}",
    "deep list": "a: " + "[" * 5000,
    "deep mappings": "".join(" " * i + "a:\n" for i in range(300)), "long number": "a: " + "9" * 5000,
    "no date": "a: 2020-13-45", "no zone": "a: 2001-12-14t21:59:43.10-99:00",
    "code": "a: !!python/object/apply:os.getcwd []", "no boolean": "a: !!bool x", "no float": "a: !!float x",
    "no timestamp": "a: !!timestamp x", "twice": "backend: a\nbackend: b", "list as a key": "? [a, b]\n: x",
    "control character": "a: \0", "no merge": "<<: 3", "two documents": "a\n---\nb",
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_fault_is_a_yaml_error(attack: str) -> None:
    with pytest.raises(yaml.YAMLError):
        user_yaml.parse(ATTACKS[attack])


def test_aliases_and_overridden_defaults_are_read() -> None:
    text = "base: &base {a: 1, b: 2}\nown:\n  <<: *base\n  b: 3\nlist: [*base, *base]\n"
    both = {"a": 1, "b": 2}
    assert user_yaml.parse(text) == {"base": both, "own": {"a": 1, "b": 3}, "list": [both, both]}
    assert user_yaml.parse("") is None


READERS: dict[str, Callable[[Path], Any]] = {
    "audit list": read_list, "robot": read_robot, "judge": lambda file: read(str(file)),
    "rubrics": lambda file: load(override=file),
    "prompts": lambda file: _read(str(file), user_text(file)), "published": own_tables,
    "subtasks": lambda file: subtasks(str(file)),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("attack", [*ATTACKS, "bytes", "large"])
def test_every_reader_ends_in_one_line(reader: str, attack: str, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    other = {"bytes": b"backend: \xff", "large": b"# " + b"x" * user_yaml.MOST_BYTES}
    file.write_bytes(other.get(attack) or ATTACKS[attack].encode())
    with pytest.raises(Ad2Error) as caught:
        READERS[reader](file)
    assert "file.yaml" in str(caught.value) and len(str(caught.value)) < 1000


def test_a_folder_of_tasks_is_read_beside_faulty_files(tmp_path: Path) -> None:
    for i, text in enumerate([*ATTACKS.values(), "include: 5.yaml", f"include: {len(ATTACKS) + 1}.yaml", "text", "3"]):
        (tmp_path / f"{i}.yaml").write_text(text, "utf-8")
    (tmp_path / "own.yaml").write_text("task: my_task\n", "utf-8")
    assert "my_task" in included(tmp_path).names


def test_a_value_of_an_option_that_is_no_yaml_is_a_text() -> None:
    assert pairs("day=2020-13-45,x=&a [*a],n=3", "model") == {"day": "2020-13-45", "x": "&a [*a]", "n": 3}


def test_a_value_of_a_specification_that_is_no_yaml_is_a_text() -> None:
    assert pairs("date=2026-13-01,n=3", "judge") == {"date": "2026-13-01", "n": 3}
