"""`ad2 drive run` in the fake world, and `ad2 merge` of its shards."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.models import FakeModel
from support.closedloop.scored import episode

from closedloop_plugin.cli.drive import routes, run
from closedloop_plugin.driver.agents import make
from closedloop_plugin.driver.agents.model_backend import ModelQuestion
from closedloop_plugin.runner.run import without_act, without_way
from closedloop_plugin.runner.store import read_records
from lmms_eval_ad2.cli import merge
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.identity import read_run

FAKE = ("--world", "closedloop_plugin.worlds.testing.fake_world:FakeWorld")
SPEAKING = ("--agent", "speaking-expert")


def ad2_drive(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    parts = parser.add_subparsers(required=True)
    for part in (run, merge, routes):
        part.register(parts)
    args = parser.parse_args([str(w) for w in arguments])
    return int(args.func(args))


def test_the_help_names_every_agent() -> None:
    listed = run.EXAMPLES.partition("\nagents:\n")[2]
    for name in (*make.BUILT_IN, make.SPEAKING, *(f"{model}:" for model in make.MODELS), "MODULE:CALLABLE"):
        assert re.search(rf"(^|[ ,]){re.escape(name)}", listed, re.MULTILINE), name


@pytest.mark.integration
def test_a_run_prints_its_scores_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("run", "--suite", "demo", "--agent", "expert", "--out", tmp_path / "o", *FAKE, "--workers", 2)
    assert ad2_drive(*arguments, "--routes-ids", "104,101", "--frames", "--size", "64x36") == 0
    assert "Driving Score" in capsys.readouterr().out
    frames = sorted(f.name for f in (tmp_path / "o/frames/101_rep0").iterdir())
    assert frames[:2] == ["front_00000.jpg", "front_00005.jpg"]
    before = read_records(tmp_path / "o")
    assert ad2_drive(*arguments, "--limit", 3, "--frames", "--size", "64x36") == 0
    assert "1 of 3 episodes are there already" in capsys.readouterr().out
    after = read_records(tmp_path / "o")
    assert after[:2] == before
    assert {r.route_id for r in after} == {"101", "102", "103", "104"}
    assert read_run(tmp_path / "o")["identity"]["agent"]["name"] == "expert (privileged)"


@pytest.mark.integration
def test_shards_merge_into_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in (1, 2):
        assert ad2_drive("run", "--suite", "demo", "--agent", "still", "--out", tmp_path / f"s{i}", *FAKE,
                         "--shard", f"{i}/2", "--limit", 2) == 0  # fmt: skip
    assert "ad2 merge OUT" in capsys.readouterr().out
    with pytest.raises(Ad2Error, match=r"1 episodes are missing \(shard 2/2\): route 102 repetition 0; .*--partial"):
        ad2_drive("merge", tmp_path / "all", tmp_path / "s1")
    assert ad2_drive("merge", tmp_path / "all", tmp_path) == 0
    out = capsys.readouterr().out
    assert "2 episodes in" in out and " 0 missing" in out
    assert "4 episodes of the suite were not selected" in out
    (tmp_path / "other").mkdir()
    with pytest.raises(Ad2Error, match=r"holds runs of ad2 drive and .*other of ad2 eval: merge them apart"):
        ad2_drive("merge", tmp_path / "new", tmp_path / "s1", tmp_path / "other")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--workers", 0), "--workers 0: 1 or more"),
        (("--config", "decision_hz=50"), "--config decision_hz=50: must be above 0"),
        (("--map", "x.xodr"), "--map is an option of --scenario"),
        (("--mode", "hybrid"), "require each other"),
        (("--towns", "nowhere"), "--towns nowhere: no such folder"),
        (("--routes-ids", "999"), "no such route: 999"),
        (("--world", "mars"), "--world mars: known: embedded"),
        (("--config", "latency=soon"), "--config latency=soon"),
        (("--interpreter", "rules"), "sets the controls itself"),
        (("--config", "history=3"), "--config history would have no effect"),
        (("--config", "history=65"), "--config history=65: from 0 to 64"),
        (("--profile", "b2d"), "no profile 'b2d'"),
        (("--size", "big"), "800x450"),
        ((*SPEAKING, "--config", "history=3"), "speaking-expert asks no model: --config history would have no effect"),
        ((*SPEAKING, "--config", "fine_grained=prompt"), "--config fine_grained would have no effect"),
        ((*SPEAKING, "--interpreter", "rules", "--config", "prompts=p.yaml"), "--config prompts would have no effect"),
        ((*SPEAKING, "--config", "tasks=reasoning"), "answers action and trajectory, not reasoning"),
        (
            (*SPEAKING, "--mode", "hybrid", "--config", "interpreter2=rules"),
            "answers action and trajectory, not threat",
        ),
    ],
)
def test_invalid_options_end_in_a_one_line_error(tmp_path: Path, words: tuple[object, ...], message: str) -> None:
    world = () if "--world" in words else FAKE
    with pytest.raises(Ad2Error, match=message) as caught:
        ad2_drive("run", "--suite", "demo", "--agent", "still", "--out", tmp_path / "o", "--frames", *world, *words)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("option", "words"),
    [("--size", ("--size", "64x36")), ("--config camera", ("--config", "camera=surround"))],
)
def test_cameras_that_nothing_sees_are_refused(tmp_path: Path, option: str, words: tuple[str, ...]) -> None:
    with pytest.raises(Ad2Error, match=f"asks no model: {option} would have no effect"):
        ad2_drive("run", "--suite", "demo", *SPEAKING, "--out", tmp_path / "o", *FAKE, *words)
    assert not (tmp_path / "o").exists()


@pytest.mark.integration
def test_a_slow_system_sees_the_front_camera_behind_the_speaking_expert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, ...]] = []

    def answer(question: ModelQuestion) -> str:
        seen.extend(image.shape for image in question.images)
        return '{"throttle": 0.4, "steer": 0.0, "brake": 0.0}'

    monkeypatch.setattr(
        "closedloop_plugin.driver.interpreters.make.make_backend", lambda *args, **more: FakeModel(answer)
    )
    arguments = ("run", "--suite", "demo", *SPEAKING, "--interpreter", "lmms:fake", "--out", tmp_path / "o", *FAKE)
    with pytest.raises(Ad2Error, match="--config camera would have no effect"):
        ad2_drive(*arguments, "--config", "camera=surround")
    assert ad2_drive(*arguments, "--limit", 1, "--size", "64x36") == 0
    (record,) = read_records(tmp_path / "o")
    assert set(seen) == {(36, 64, 3)} and record.counts["mode cng"] == len(seen) == record.counts["decisions"]
    assert read_run(tmp_path / "o")["identity"]["cameras"] == ["front 64x36"]


@pytest.mark.integration
def test_the_last_line_says_where_the_results_are_and_how_to_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first episode of the suite without success: no driver that stands still has one."""
    words = ("run", "--suite", "demo", "--routes-ids", "102,101", "--out", tmp_path / "o", *FAKE)
    assert ad2_drive(*words, "--agent", "still") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    out = tmp_path / "o"
    assert last == f"results in {out}; look at an episode: ad2 drive show {out}:101; all figures: ad2 report {out}"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("--suite", "demo", "--config", "decision_hz=50"),
            "at most 10, the simulation's rate under the profile bench2advlm",
        ),
        (("--suite", "demo", "--config", "decision_hz=50", "--profile", "bench2drive"), "at most 20, "),
        (("--suite", "dmeo"), r"did you mean 'demo'\?"),
        (("--suite", "embeded220"), r"did you mean 'embedded220'\?"),
    ],
)
def test_mistakes_name_the_bound_or_the_nearest_suite(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    with pytest.raises(Ad2Error, match=why):
        ad2_drive("run", *words, "--agent", "still", "--out", tmp_path / "o", *FAKE)


def test_scenes_without_a_way_are_named_once() -> None:
    closed = replace(episode("101"), events=[[0.0, "no way: a car stands across the road"], [2.0, "act"]])
    records = [closed, replace(closed, repetition=1), replace(episode("102"), events=[[1.0, "trigger"]])]
    assert without_way(records) == ("101: the scene leaves the ego no way: a car stands across the road",)


def test_programs_whose_actor_never_acted_are_named(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours.scenic", tmp_path / "other.scenic"
    ours.write_text("from closedloop_plugin.scenarios.actions import *")
    other.write_text("model scenic.domains.driving.model")
    sends = tmp_path / "sends.scenic"
    sends.write_text('behavior B():\n    stage.event("act")\n')

    def note(route: str, end: str = "completed", events: Sequence[tuple[float, str]] = ()) -> tuple[str, ...]:
        record = replace(episode(route), end=end, events=[list(event) for event in events])
        return without_act([record], {"101": ours, "102": other, "103": None, "105": sends})

    assert note("101") == ("the program sent no event act, so its actor never acted: 101",)
    assert note("105") and not note("105", events=[(2.0, "act")])
    assert note("101", events=[(1.0, "trigger"), (2.0, "base act")]) == note("101")
    assert note("101", events=[(2.0, "act")]) == note("102") == note("103") == note("104") == ()
    assert note("101", end="world failed") == ()
