"""`ad2 tasks`: patterns without a task are refused, groups are their tasks, damaged data are named once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.builders import chain, record

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.data.home import open_dataset, write_dataset
from lmms_eval_ad2.harness.task_files import groups


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("foo", "; all: ad2 tasks"),
        ("ad3_*", "; all: ad2 tasks"),
        ("ad2_relatoin", "; did you mean ad2_relation or"),
        ("ad2x_cot_mark_text", "; did you mean ad2x_cot_mark_coords?"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_pattern_without_a_task_is_one_line(
    capsys: pytest.CaptureFixture[str], pattern: str, near: str, form: list[str]
) -> None:
    assert main(["tasks", pattern, *form]) == 2
    found = capsys.readouterr()
    (line,) = found.err.splitlines()
    assert line.startswith(f"error: no task or group matches '{pattern}'{near}") and not found.out


def test_a_group_is_listed_as_its_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "bench_ad2"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]} == set(groups()["bench_ad2"])


def test_damaged_data_are_named_once_and_the_list_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [record(), chain(), record("r2", task="relation")]
    write_dataset("ad2_bench", "test", records, image_root=tmp_path, source={}, resume=False)
    (part,) = open_dataset("ad2_bench", "test").parts
    part.write_bytes(part.read_bytes()[:-9])
    assert main(["tasks", "ad2*_*"]) == 0
    found = capsys.readouterr()
    states = {line.split()[0]: line.split()[1] for line in found.out.splitlines()[2:]}
    assert states["ad2_relation"] == states["ad2x_cot_rounds"] == "damaged"
    assert states["ad2demo_relation"] == "ready" and states["ad2_coda_general"] == "no"
    (line,) = found.err.splitlines()
    assert line.startswith(f"warning: dataset ad2_bench (test) is damaged: {part} is no complete parquet file; ")
