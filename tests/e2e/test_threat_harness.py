"""The task ad2drive_threat: a folder of programs, generated for one model, with the engine of `ad2 drive run`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats.site import site_of
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error

SPEC = {
    "adversary": "van", "behaviour": "brake_hard", "place": {"side": "ahead", "lane": "own", "ahead_m": [20, 30]},
    "trigger": {"value": [1.5, 3]}, "road": "open", "stays_s": [4, 6], "weakness": "perception",
    "description": "the van ahead brakes",
}  # fmt: skip
INDEX = {
    "name": "threat demo (lmms-tiny)", "finished": True, "left_out": {"103": "the expert cannot survive it"},
    "asked": {
        "base": "demo", "agent": {"name": "lmms-tiny"}, "fuser": {"name": "rules"}, "seed": 4, "version": "9",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def threat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threats on two demo routes, and one that failed its check."""
    home = tmp_path_factory.mktemp("made")
    folder, world = home / "threats", EmbeddedWorld(home / "maps")
    (folder / "scenarios").mkdir(parents=True)
    spec = ThreatSpec.model_validate(SPEC)
    for route in suite("demo").routes[:3]:
        world.reset(EpisodeSetup(route, 1, traffic=False))
        assert world.road is not None
        (folder / "scenarios" / f"{route.id}.scenic").write_text(program(spec, site_of("demo", route, world.road)))
    world.close()
    (folder / "suite.json").write_text(json.dumps(INDEX))
    return folder


def download(metadata: dict[str, Any] | None = None) -> SimpleNamespace:
    from closedloop_plugin.interfaces import tasks as harness

    config = SimpleNamespace(
        dataset_path="ad2drive:threat", metadata=metadata or {}, task="threat_test", test_split="test"
    )
    holder = SimpleNamespace(config=config)
    harness.ConfigurableTask.download(holder)
    return holder


def test_the_documents_are_the_scenarios_and_the_metadata_describe_their_generation(
    threat_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AD2_THREATS", str(threat_folder))
    holder = download({"version": 1})
    assert [row["id"] for row in holder.dataset["test"]] == ["101", "102"]
    threats = holder.config.metadata["threats"]
    assert threats["sha256"] == suite(str(threat_folder)).sha256
    assert (threats["agent"], threats["fuser"], threats["seed"]) == ({"name": "lmms-tiny"}, {"name": "rules"}, 4)
    assert (threats["suite"], threats["scenarios"], threats["left_out"]) == ("threat demo (lmms-tiny)", 2, 1)
    assert holder.config.metadata["version"] == 1


def test_a_missing_folder_is_reported_with_the_command_that_creates_it(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AD2_THREATS", raising=False)
    with pytest.raises(Ad2Error, match=r"ad2 threats generate .* --out .*AD2_THREATS") as error:
        download()
    assert str(own_home / "threats") in str(error.value)
    (own_home / "threats").mkdir()
    with pytest.raises(Ad2Error, match="no scenario programs there"):
        download()


def test_lmms_eval_does_not_skip_the_task_silently(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lmms_eval.tasks import TaskManager, get_task_dict

    from lmms_eval_ad2.harness.plugin import install

    install()
    monkeypatch.delenv("AD2_THREATS", raising=False)
    manager = TaskManager()
    assert "ad2drive_threat" in manager.match_tasks(["ad2drive_*"])
    with pytest.raises(Ad2Error, match="no folder of threat scenarios"):
        get_task_dict(["ad2drive_demo", "ad2drive_threat"], manager)


def test_an_unfinished_folder_is_refused(threat_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suite.json").write_text(json.dumps({**INDEX, "finished": False}))
    monkeypatch.setenv("AD2_THREATS", str(tmp_path))
    with pytest.raises(Ad2Error, match="not finished"):
        download()


def test_a_folder_of_custom_programs_has_no_agent_and_no_fuser(
    threat_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.scenic").write_text((threat_folder / "scenarios" / "101.scenic").read_text())
    monkeypatch.setenv("AD2_THREATS", str(tmp_path))
    threats = download().config.metadata["threats"]
    assert (threats["agent"], threats["fuser"], threats["scenarios"]) == (None, None, 1)


@pytest.mark.system  # 10 s and more
def test_the_same_model_gives_the_same_scores_through_the_harness_and_the_command(
    threat_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the embedded world, with an lmms-eval model that always gives the same reply; the programs are executed."""
    from lmms_eval.models import get_model

    from closedloop_plugin.interfaces import tasks as harness

    args = "response=Go straight at a moderate speed."
    monkeypatch.setenv("AD2_THREATS", str(threat_folder))
    monkeypatch.setenv("AD2_DRIVE_CAMERA", "front@96x54")
    download()
    lm = get_model("dummy").create_from_arg_string(args)
    lm.task_dict["threat_test"] = {"test": [{"id": "101"}]}
    requests = [
        SimpleNamespace(args=("x", {"max_new_tokens": 256, "temperature": 0}, None, None, 0, "threat_test", "test"))
    ]
    cli = SimpleNamespace(model="dummy", model_args=args)
    lines = harness._wrap_evaluate(lambda **_: harness.drive(lm, requests, "threat_test"))(cli_args=cli)
    from_harness = EpisodeRecord.from_json(lines[0])

    arguments = [
        "--suite",
        str(threat_folder),
        "--routes-ids",
        "101",
        "--agent",
        f"lmms:dummy,{args}",
        "--size",
        "96x54",
    ]
    assert main(["drive", "run", *arguments, "--out", str(tmp_path / "run")]) == 0
    from_command = EpisodeRecord.from_json((tmp_path / "run" / "episodes.jsonl").read_text())
    assert scores(from_harness) == scores(from_command)
    assert from_harness.suite == "threat demo (lmms-tiny)" and from_harness.drawn["ahead"] >= 20.0  # as in the program
    assert from_harness.score_route > 5.0

    capsys.readouterr()
    assert main(["drive", "score", str(tmp_path / "run"), "--routes", str(threat_folder), "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    for name in ("comfortness", "efficiency", "skill_score"):  # over the driven routes only
        assert harness.aggregated(lines, name) == scored[name]


def scores(record: EpisodeRecord) -> dict[str, Any]:
    """A record without measured times."""
    return {k: v for k, v in vars(record).items() if not re.search("wall|system|latency|started|second", k)}
