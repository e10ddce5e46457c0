"""`--tasks`: wildcards and groups leave out tasks that cannot be asked, explicit names report them at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.builders import chain, record

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record, VisualPrompt
from lmms_eval_ad2.data.home import open_dataset, write_dataset
from lmms_eval_ad2.data.releases.parquet import write_rows
from lmms_eval_ad2.harness.task_files import has_askable, task_files
from lmms_eval_ad2.harness.task_selection import select
from lmms_eval_ad2.scoring.variant import TaskVariant


def import_as(name: str, records: Sequence[Record], root: Path) -> None:
    write_dataset(name, "test", records, image_root=root, source={}, resume=False)


def drivelm(**changes: Any) -> Record:
    """A question about objects without options, as in DriveLM's training file."""
    return record("d1", "vqa", benchmark="drivelm", task="perception", **changes)


def test_a_wildcard_leaves_out_tasks_without_data_and_tasks_without_a_question(tmp_path: Path) -> None:
    import_as("drivelm", [drivelm()], tmp_path)
    import_as("ad2_bench", [record(), chain(), record("r2", task="relation")], tmp_path)
    chosen = select("ad2_*,ad2x_drivelm_*_mc,ad2x_cot_rounds")
    assert chosen.names == ["ad2_cot", "ad2_perception_base", "ad2_relation", "ad2x_cot_rounds"]
    assert [line for line in chosen.left_out if line.startswith("left out, no data: ad2_coda_general, ad2_coda_region")]
    nothing = [line for line in chosen.left_out if line.startswith("left out, nothing to ask: ")]
    assert [line.split(": ")[1] for line in nothing] == [
        "ad2_perception_advanced", "ad2_reasoning", "ad2x_drivelm_behavior_mc", "ad2x_drivelm_perception_mc",
    ]  # fmt: skip
    assert "no records of part 'perception' that fit this variant ({'form': 'mc'})" in nothing[-1]
    assert not chosen.faults
    (fault,) = select("ad2x_drivelm_*_mc").faults
    assert fault == "'ad2x_drivelm_*_mc': none of its 2 tasks can be asked; see the lines above, or: ad2 demo"
    assert chosen.tasks.keys() == set(chosen.names) and chosen.on_records


def test_an_explicit_task_without_a_question_is_one_fault(tmp_path: Path) -> None:
    import_as("drivelm", [drivelm()], tmp_path)
    chosen = select("ad2x_drivelm_perception_mc,ad2_relation,mmmu_val,ad2_relatio")
    assert chosen.names == ["mmmu_val"] == chosen.others and not chosen.left_out
    first, second, third = chosen.faults
    assert first.startswith("task ad2x_drivelm_perception_mc: dataset 'drivelm' (test) has no records of part")
    assert "ad2 data import ad2_bench" in second
    assert "did you mean ad2_relation" in third
    (renamed,) = select("ad2x_mcq_planning_asked").faults
    assert "no task 'ad2x_mcq_planning_asked'; did you mean ad2_mcq_planning?" in renamed


@pytest.mark.parametrize("stem", ["ad2x_relation", "ad2x_reasoning", "ad2x_cot", "ad2demo_relation"])
def test_the_earlier_name_of_coordinates_in_the_text_names_the_two_tasks_of_today(stem: str) -> None:
    (fault,) = select(f"{stem}_mark_text").faults
    assert f"no task '{stem}_mark_text'; did you mean {stem}_mark_coords?" in fault
    assert f"{stem}_mark_reference names the target in words" in fault
    assert {f"{stem}_mark_coords", f"{stem}_mark_reference"} <= set(task_files())


def test_an_image_folder_that_is_gone_is_told_apart_from_missing_data(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    import_as("ad2_bench", [record()], tmp_path / "images")
    (tmp_path / "images").rmdir()
    (line,) = [line for line in select("ad2_p*").left_out if "perception_base" in line]
    assert line.startswith("left out, no images: ad2_perception_base: ") and "ad2 data verify ad2_bench" in line


@pytest.mark.parametrize("place", ["end", "middle"])
def test_a_damaged_dataset_is_one_line_and_the_others_are_asked(tmp_path: Path, place: str) -> None:
    import_as("drivelm", [drivelm()], tmp_path)
    import_as("ad2_bench", [record(), chain(), record("r2", task="relation")], tmp_path)
    (part,) = open_dataset("ad2_bench", "test").parts
    data = part.read_bytes()
    part.write_bytes(data[:-100] if place == "end" else data[:4] + bytes(len(data) - 8) + data[-4:])
    chosen = select("ad2_*,ad2x_drivelm_perception")
    assert chosen.names == ["ad2x_drivelm_perception"] and len(chosen.faults) == 0
    (line,) = [line for line in chosen.left_out if "damaged" in line]
    names = line.removeprefix("left out, damaged: ").partition(": ")[0].split(", ")
    assert {"ad2_cot", "ad2_perception_base", "ad2_relation"} <= set(names)
    assert "\n" not in line and str(part) in line and "ad2 data import ad2_bench SOURCE" in line
    (fault,) = select("ad2_relation").faults
    assert fault.startswith("task ad2_relation: dataset ad2_bench (test)") and str(part) in fault


def test_a_stored_record_that_is_none_is_one_line(tmp_path: Path) -> None:
    import_as("ad2_bench", [chain()], tmp_path)
    (part,) = open_dataset("ad2_bench", "test").parts
    row = {"id": "1", "benchmark": "ad2_bench", "task": "cot", "subtask": "s", "form": "chain", "record": '"steps":[{'}
    write_rows(part, {name: [value] for name, value in row.items()})
    (fault,) = select("ad2_cot").faults
    assert fault.startswith("task ad2_cot: dataset ad2_bench (test): a stored record of ad2_bench is damaged (")
    assert "ad2 data verify ad2_bench" in fault and "\n" not in fault


def test_a_group_is_kept_whole_or_replaced_by_the_tasks_that_can_be_asked(tmp_path: Path) -> None:
    parts = ("perception_base", "perception_advanced", "relation")
    import_as("ad2_bench", [record(part, task=part) for part in parts], tmp_path)
    chosen = select("bench_ad2")
    assert chosen.names == [f"ad2_{part}" for part in parts], "the mean over three of four parts is not the group's"
    assert chosen.left_out[0].startswith("left out, nothing to ask: ad2_cot: ")
    import_as("ad2_bench", [*(record(part, task=part) for part in parts), chain()], tmp_path)
    assert select("bench_ad2,ad2_*").names[0] == "bench_ad2"
    (fault,) = select("bench_coda_lm").faults
    assert fault.startswith("bench_coda_lm: none of its tasks can be asked: dataset coda_lm")
    assert select("bench_x*").faults == ["bench_x*: no such group"]
    beside = select("bench_coda*,bench_ad2")
    assert beside.names == ["bench_ad2"] and not beside.faults
    assert beside.left_out[0].startswith("left out: bench_coda*: none of its tasks can be asked: dataset coda_lm")


OWN_TASK = """\
task: {name}
dataset_path: "ad2:my_bench"
test_split: test
metadata:
  ad2: {{benchmark: my_bench, part: {part}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder of tasks: two on records, one on other data, a group, and a file that is no YAML."""
    import_as("my_bench", [record("m1", benchmark="my_bench", task="signs")], tmp_path)
    folder = tmp_path / "my_tasks"
    folder.mkdir()
    (folder / "ad2x_my_signs.yaml").write_text(OWN_TASK.format(name="ad2x_my_signs", part="signs"))
    (folder / "my_empty.yaml").write_text(OWN_TASK.format(name="my_empty", part="lanes"))
    (folder / "other.yaml").write_text("task: ad2_like_other\ndataset_path: json\n")
    (folder / "group.yaml").write_text("group: ad2_mine\ntask: [ad2x_my_signs]\n")
    (folder / "broken.yaml").write_text("task: [")
    return folder


@pytest.mark.parametrize("asked", ["ad2x_my_signs", "ad2x_my*", "ad2_mine"])
def test_tasks_of_a_users_folder_may_be_named_like_ours(asked: str, folder: Path) -> None:
    chosen = select(asked, folder)
    assert not chosen.faults and chosen.tasks.keys() == {"ad2x_my_signs"} and chosen.on_records
    assert chosen.names == ["ad2_mine" if asked == "ad2_mine" else "ad2x_my_signs"]
    assert select(asked).faults


def test_names_of_a_users_folder_are_checked_like_ours(folder: Path) -> None:
    other = select("ad2_like_other", folder)
    assert (other.names, other.tasks, other.faults) == (["ad2_like_other"], {}, [])
    (fault,) = select("ad2x_my_sign", folder).faults
    assert fault == "no task 'ad2x_my_sign'; did you mean ad2x_my_signs?; all: ad2 tasks"
    for name in ("my_empty", "my_em*"):
        (fault,) = select(name, folder).faults
        assert fault.startswith("task my_empty: dataset 'my_bench' (test) has no records of part 'lanes'")
    with pytest.raises(Ad2Error, match="--include_path nowhere: no such folder"):
        select("ad2x_my_signs", "nowhere")


@pytest.mark.parametrize("name", ["ad2x_relation_mc", "ad2x_cot_rounds", "ad2_cot", "ad2x_relation_mark_box"])
def test_readiness_is_that_of_the_records(name: str, tmp_path: Path) -> None:
    """With records that fit no variant first, and then one that fits."""
    part = "cot" if "cot" in name else "relation"
    others = [record(f"r{i}", "vqa", task="relation") for i in range(3)]
    import_as("ad2_bench", others, tmp_path)
    assert task_files()[name].readiness().state == "nothing to ask"
    box = VisualPrompt("box", ((1.0, 2.0, 3.0, 4.0),))
    fitting = chain() if part == "cot" else record("fits", "mc", task="relation", mark=box)
    import_as("ad2_bench", [*others, fitting], tmp_path)
    assert task_files()[name].ready()


def test_text_that_looks_like_options_does_not_make_a_question_askable(tmp_path: Path) -> None:
    """Records are searched for the text of options first, and then read."""
    import_as("drivelm", [drivelm(meta={"options": [{"letter": "A"}]})], tmp_path)
    assert not has_askable(open_dataset("drivelm", "test"), TaskVariant("drivelm", "perception", form="mc"))
