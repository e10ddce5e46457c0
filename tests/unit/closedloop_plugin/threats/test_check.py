"""Threat check: verdicts of real programs in the embedded world, draws, kills, changed programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner.episode_record import blank_record
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions, episode_seed
from closedloop_plugin.scenarios.suites.lookup import routes_of
from closedloop_plugin.scenarios.suites.programs import INDEX
from closedloop_plugin.threats.check import DrawPlan, DrivenDraws, check, programs_of, share_of, survived_share
from closedloop_plugin.threats.transcript import ScenarioVerdict
from closedloop_plugin.threats.verdicts import (
    NearestActor,
    ScenarioDraw,
    draw_of,
    read_verdicts,
    update_left_out,
    write_verdicts,
)
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, mean_interval


def draw(k: int, outcome: str) -> ScenarioDraw:
    """y: survived, n: a collision, w: the world failed."""
    end = EndReason.WORLD_FAILED if outcome == "w" else EndReason.COMPLETED
    task = EpisodeTask("check", "x", k, EpisodeSetup(None, 100 + k))
    blank = blank_record(task, EvaluationConditions(profile("bench2advlm")), end, "", "fake", "1")
    hits = {"collisions_vehicle": ["hit"]} if outcome == "n" else {}
    known = {"map": {"source": "corridor"}, "score_route": 100.0, "events": [(2.0, "act")], "infractions": hits}
    return ScenarioDraw(replace(blank, **known), NearestActor("van", 9.0, 3.0))


def driven(outcomes: str, plan: DrawPlan) -> DrivenDraws:
    """Drive what the plan asks for, with these outcomes of draws 0, 1, ..."""
    found = DrivenDraws(plan)
    while numbers := found.missing():
        found.draws.update({k: draw(k, outcomes[k]) for k in numbers})
    return found


@pytest.mark.parametrize(
    ("outcomes", "plan", "counts"),  # draws driven, tries, other draws survived, of, passed
    [
        ("yyyy", DrawPlan(), (4, 1, 3, 3, True)),
        ("nynyy", DrawPlan(), (5, 2, 2, 3, True)),  # the draw before the played one is none of the others
        ("ynny", DrawPlan(), (4, 1, 1, 3, False)),
        ("nnnn", DrawPlan(), (4, 4, 0, 0, False)),
        ("ynny", DrawPlan(share=Fraction(1, 3)), (4, 1, 1, 3, True)),
        ("yyyn", DrawPlan(share=Fraction(1)), (4, 1, 2, 3, False)),
        ("y", DrawPlan(others=0, share=Fraction(1)), (1, 1, 0, 0, True)),
        ("w", DrawPlan(), (1, 1, 0, 0, False)),  # would hang again
        ("yyyw", DrawPlan(), (4, 1, 2, 2, True)),  # counted apart, and 2 are needed
        ("yywn", DrawPlan(), (4, 1, 1, 2, False)),
    ],
)
def test_draws_are_driven_by_the_plan(outcomes: str, plan: DrawPlan, counts: tuple[int, int, int, int, bool]) -> None:
    found = driven(outcomes, plan)
    verdict = found.verdict("expert")
    assert (
        len(found.draws), verdict.tries, verdict.others_survived, verdict.others, verdict.passed
    ) == counts  # fmt: skip
    assert verdict.draw_seed == (None if "y" not in outcomes else 100 + outcomes.index("y"))
    assert bool(verdict.reason) is not verdict.passed


@pytest.mark.parametrize(("others", "share", "needed"), [(3, "2/3", 2), (4, "2/3", 3), (3, "0.6", 2), (5, "0", 0)])
def test_the_needed_number_is_rounded_up(others: int, share: str, needed: int) -> None:
    assert DrawPlan(others=others, share=share_of(share)).needed == needed


@pytest.mark.parametrize("text", ["3/2", "-1", "many", "1/0"])
def test_an_invalid_share_is_refused(text: str) -> None:
    with pytest.raises(Ad2Error, match=r"expected a share from 0 to 1, as in 2/3 or 0\.6"):
        share_of(text)


def test_the_share_over_all_scenarios_clusters_draws_by_scenario() -> None:
    verdicts = [ScenarioVerdict(passed=True, others=3, others_survived=good) for good in (3, 3, 1)]
    found = survived_share([*verdicts, ScenarioVerdict(passed=False)])
    assert (found.survived, found.draws, found.scenarios) == (7, 9, 3)
    values, names = [1.0] * 7 + [0.0] * 2, [0, 0, 0, 1, 1, 1, 2, 2, 2]
    expected = mean_interval(values, clusters=names, bounds=FRACTION)
    assert expected and found.interval == (expected.low, expected.high)
    assert survived_share([]).interval is None


pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
RULES = profile("bench2advlm")

HEAD = """param route = "demo:101"
{param}
model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *
{behavior}
ego = new Car at place(0), facing stage.heading(0)
"""
GOOD = (
    HEAD.format(param="param due = Range(2.0, 3.0)", behavior="")
    + """
lead = rail_at(13)
new Wheeled at start_of(lead), facing facing_of(lead), with kind "van", with rail lead, \\
    with behavior BrakeHard(stage.trigger_s + 30, globalParameters.due, "time", 2)
"""
)
WRONG = HEAD.format(param="", behavior="new Car at plaice(7)")
NEVER = HEAD.format(param="", behavior="") + "terminate after 3 seconds\n"
SAY = """
monitor Say():
    while not stage.reached_trigger:
        wait
    stage.event("trigger")
    stage.event("act")
    wait
"""
EMPTY = HEAD.format(param="", behavior=SAY) + "require monitor Say()\nterminate after 5 seconds\n"
RAM = """
behavior Ram():
    mine = self.rail
    while stage.ego_speed < 5:
        wait
    stage.event("trigger")
    stage.event("act")
    mine.s = stage.ego_s + 6
    mine.d = 0.0
    mine.d_wanted = 0.0
    wait
    do Ride()
"""
UNFAIR = (
    HEAD.format(param="", behavior=RAM)
    + """
rail = rail_at(30, 8)
new Wheeled at start_of(rail), facing facing_of(rail), with rail rail, with behavior Ram()
terminate after 5 seconds
"""
)
CRASHES = (
    HEAD.format(param="", behavior=SAY.replace("    wait\n\n", "").rstrip() + "\n    x = 1 / 0\n    wait\n")
    + """
require monitor Say()
"""
)


def folder_of(path: Path, texts: Mapping[str, str]) -> Path:
    path.mkdir(exist_ok=True)
    for name, text in texts.items():
        (path / f"{name}.scenic").write_text(text)
    return path


# -- the embedded world ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checked_set(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, ScenarioVerdict]]:
    pytest.importorskip("scenic")
    texts = {"good": GOOD, "wrong": WRONG, "never": NEVER, "empty": EMPTY, "unfair": UNFAIR, "crashes": CRASHES}
    folder = folder_of(tmp_path_factory.mktemp("set") / "own", {**texts, "lost": "ego = new Car\n"})
    world = FactoryRecipe("closedloop_plugin.worlds.embedded.world:EmbeddedWorld", {"folder": folder / "maps"})
    found = check(
        programs_of(folder, routes_of), folder / "check", world=world, tries=1, others=0, alone=True, profile=RULES,
        quiet=True,
    )  # fmt: skip
    write_verdicts(folder, found)
    return folder, found


def held_conditions(v: ScenarioVerdict) -> str:
    flags = ("compiles", "runs", "acts", "survivable", "passed")
    return " ".join(name for name in flags if getattr(v, name))


def test_a_sound_scenario_passes_with_the_surviving_parameters(
    checked_set: tuple[Path, dict[str, ScenarioVerdict]],
) -> None:
    verdict = checked_set[1]["good"]
    assert held_conditions(verdict) == "compiles runs acts survivable passed"
    assert (verdict.tries, verdict.survived, verdict.reason) == (1, 1, "")
    assert 2.0 <= verdict.drawn["due"] <= 3.0


@pytest.mark.parametrize(
    ("name", "held", "reason"),
    [
        ("wrong", "", r"wrong\.scenic, line 5: NameError: name 'plaice' is not defined"),
        ("lost", "", r"lost\.scenic: names no route; it needs a line like: param route"),
        ("crashes", "compiles", r"does not run: .*crashes\.scenic, line \d+: ZeroDivisionError"),
        ("never", "compiles runs", r"^never triggered in its only draw: the ego did not get to where it begins"),
        ("empty", "compiles runs", r'says "act", but nothing of it is on the stage then'),
        ("unfair", "compiles runs acts", r"the expert does not survive it .*collisions vehicle in 1 \(at .*type=veh"),
    ],
)
def test_reasons_of_failed_checks(
    name: str, held: str, reason: str, checked_set: tuple[Path, dict[str, ScenarioVerdict]]
) -> None:
    verdict = checked_set[1][name]
    assert held_conditions(verdict) == held
    assert re.search(reason, verdict.reason), verdict.reason
    assert "\n" not in verdict.reason


def test_each_first_draw_writes_a_snapshot(checked_set: tuple[Path, dict[str, ScenarioVerdict]]) -> None:
    moments = checked_set[0] / "check" / "moments"
    with Image.open(moments / "good_rep0.jpg") as image:
        assert image.size == (400, 225)
        assert len(set(image.convert("L").resize((40, 22)).getdata())) > 20  # a picture, not a plain area
    facts = json.loads((moments / "good_rep0.json").read_text())
    record = next(r for r in read_records(checked_set[0] / "check") if r.route_id == "good")
    acted = next(t for t, name in record.events if name == "act")
    assert facts["of"] == "act"
    assert acted + 0.3 - 1e-6 <= facts["time_s"] <= acted + 0.36
    assert json.loads((moments / "never_rep0.json").read_text())["of"] == "end"
    assert not list(moments.glob("wrong*"))  # never began


def test_verdicts_are_stored_in_check_json(checked_set: tuple[Path, dict[str, ScenarioVerdict]]) -> None:
    folder, verdicts = checked_set
    stored = read_verdicts(folder)
    assert set(stored) == set(verdicts)
    assert stored["good"]["passed"]
    assert stored["good"]["judge"] == "expert (privileged)"
    assert stored["good"]["world"].endswith("EmbeddedWorld")
    assert len(stored["good"]["program_sha256"]) == 64


# -- draws, resumption, changes: in a world that acts as the program's comments define ---------------------------------

ROUTE = 'param route = "demo:103"\n'
FINE, HIT, QUIET = ROUTE + "# acts 1.0\n", ROUTE + "# acts 1.0\n# hit 2.0\n", ROUTE
SET = {"fine": FINE, "hit": HIT, "quiet": QUIET, "broken": ROUTE + "# wrong\n"}


def judge(folder: Path, **more: Any) -> dict[str, ScenarioVerdict]:
    world = FactoryRecipe("support.threats.acting:ActingWorld", {"log": folder / "log"})
    given = {"tries": 2, "others": 0, "profile": RULES, "quiet": True, **more}
    return check(programs_of(folder, routes_of), folder / "check", world=world, **given)


def drives(folder: Path) -> Counter[str]:
    """The number of drives of each program since the last call."""
    files = list((folder / "log").glob("*"))
    for file in files:
        file.unlink()
    return Counter(file.name.split("_")[0] for file in files)


def test_only_compiling_programs_that_did_not_pass_are_drawn_again(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "set", SET)
    verdicts = judge(folder, tries=2)
    assert drives(folder) == {"fine": 1, "hit": 2, "quiet": 2, "broken": 1}
    assert {n: (v.tries, v.survived) for n, v in verdicts.items()} == {
        "fine": (1, 1), "hit": (2, 0), "quiet": (2, 0), "broken": (1, 0),
    }  # fmt: skip
    assert "in 2 of 2 draws: collisions vehicle in 2 (at 2.0 s" in verdicts["hit"].reason
    seeds = {(r.route_id, r.repetition): r.seed for r in read_records(folder / "check")}
    assert all(seed == episode_seed(0, *key) for key, seed in seeds.items())
    assert judge(folder, tries=2) == verdicts
    assert not drives(folder), "a second start drives nothing"
    assert judge(folder, tries=3)["hit"].tries == 3
    assert drives(folder) == {"hit": 1, "quiet": 1}


def test_one_survived_draw_is_enough(tmp_path: Path) -> None:
    seeds = {n: [episode_seed(0, n, k) % 2 for k in range(4)] for n in map(str, range(30))}
    name = next(n for n, odd in seeds.items() if odd[0] and not all(odd))
    folder = folder_of(tmp_path / "set", {name: HIT + "# odd\n"})
    verdict = judge(folder, tries=4)[name]
    first = seeds[name].index(0)
    assert (verdict.passed, verdict.tries, verdict.survived) == (True, first + 1, 1)
    record = next(r for r in read_records(folder / "check") if r.repetition == first)
    assert (verdict.drawn, verdict.draw_seed) == (record.drawn, record.seed)


def with_survived(pattern: str) -> str:
    """A name whose draws are survived as in the pattern: "yny" is 0 and 2 of draws 0 to 2."""
    odd = [c == "n" for c in pattern]
    names = map("p{}".format, range(10_000))
    return next(n for n in names if [episode_seed(0, n, k) % 2 == 1 for k in range(len(odd))] == odd)


def test_other_draws_are_driven_after_the_survived_one(tmp_path: Path) -> None:
    good, poor = with_survived("ynyy"), with_survived("nynny")  # draws 1 to 3 and 2 to 4 are the others
    odd = HIT + "# odd\n"
    folder = folder_of(tmp_path / "set", {good: odd, poor: odd, "hit": HIT})
    verdicts = judge(folder, others=3)
    assert drives(folder) == {good: 4, poor: 5, "hit": 2}
    counts = {n: (v.tries, v.survived, v.others, v.others_survived, v.passed) for n, v in verdicts.items()}
    assert counts == {good: (1, 1, 3, 2, True), poor: (2, 1, 3, 1, False), "hit": (2, 0, 0, 0, False)}
    assert verdicts[poor].draw_seed == episode_seed(0, poor, 1)
    assert verdicts[poor].reason.startswith("survives 1 of 3 other draws, 2 needed; collisions vehicle in 2 (at 2.0 s")
    assert judge(folder, others=3) == verdicts
    assert not drives(folder), "a second start drives nothing"
    assert judge(folder, others=4)[good].others == 4
    assert drives(folder) == {good: 1, poor: 1}, "more are added to those of an earlier check"


def test_alone_belongs_to_the_check(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "set", {"fine": FINE})
    judge(folder)
    assert read_records(folder / "check")[0].world["standard"] == "kept"
    with pytest.raises(Ad2Error, match="alone is false there and true here"):
        judge(folder, alone=True)


def test_only_a_changed_program_is_driven_again(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "set", SET)
    assert not judge(folder)["quiet"].passed
    drives(folder)
    folder_of(folder, {"quiet": FINE, "broken": HIT, "added": FINE})
    verdicts = judge(folder)
    assert drives(folder) == {"quiet": 1, "broken": 2, "added": 1}
    assert {n for n, v in verdicts.items() if v.passed} == {"fine", "quiet", "added"}
    keys = [(r.route_id, r.repetition) for r in read_records(folder / "check")]
    assert len(keys) == len(set(keys)), "records of the program before stay no more"
    folder_of(folder, {"quiet": FINE.replace("demo:103", "demo:101")})
    judge(folder)
    assert drives(folder) == {"quiet": 1}, "on another route it is another scenario"


def test_an_imported_module_is_part_of_the_program(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "set", {"fine": FINE + "from mine import Jump\n"})
    (folder / "mine.py").write_text("Jump = 1\n")
    judge(folder)
    (folder / "mine.py").write_text("Jump = 2\n")
    drives(folder)
    judge(folder)
    assert drives(folder) == {"fine": 1}


def test_another_seed_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "set", {"fine": FINE})
    judge(folder)
    with pytest.raises(Ad2Error, match=r"seed is 0 there and 1 here"):
        judge(folder, seed=1)
    with pytest.raises(Ad2Error, match=r"--agent endpoint:x: a judge drives by itself; known: expert"):
        judge(folder, judge="endpoint:x")


def test_a_program_that_changes_while_it_is_driven_has_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import closedloop_plugin.threats.check as module

    folder = folder_of(tmp_path / "set", {"fine": FINE})

    def edited(*args: Any) -> ScenarioDraw:
        folder_of(folder, {"fine": FINE + "# else\n"})
        return draw_of(*args)

    monkeypatch.setattr(module, "draw_of", edited)
    with pytest.raises(Ad2Error, match=r"fine\.scenic changed while it was checked"):
        judge(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="signals")
def test_a_kill_loses_no_finished_drive(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "set", {f"s{i}": f"{HIT}# {'held' if i > 2 else i}\n" for i in range(5)})
    (folder / "hold").touch()
    code = f"from test_check import *\njudge(Path({str(folder)!r}), tries=1)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)])}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    lines = folder / "check" / "episodes.jsonl"
    end = time.monotonic() + 60
    while time.monotonic() < end and not (lines.is_file() and lines.read_bytes().count(b"\n") >= 1):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = read_records(folder / "check")
    (folder / "hold").unlink()
    assert 1 <= len(before) < 5
    time.sleep(0.3)  # the world process dies with its parent
    drives(folder)
    verdicts = judge(folder, tries=1)
    assert sum(drives(folder).values()) == 5 - len(before)
    assert read_records(folder / "check")[: len(before)] == before
    assert {(v.tries, v.survived) for v in verdicts.values()} == {(1, 0)}
    assert all((folder / "check" / "moments" / f"s{i}_rep0.jpg").is_file() for i in range(5))


def test_the_index_of_the_suite_is_updated(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "set", SET)
    update_left_out(folder, judge(folder))
    assert not (folder / INDEX).exists(), "a folder of one's own has none and gets none"
    index = {"name": "mine", "left_out": {"fine": "was unfair once", "gone": "no such program"}, "more": 1}
    (folder / INDEX).write_text(json.dumps(index))
    update_left_out(folder, judge(folder))
    now = json.loads((folder / INDEX).read_text())
    assert set(now["left_out"]) == {"gone", "hit", "quiet", "broken"}
    assert now["left_out"]["gone"] == "no such program"
    assert (now["name"], now["more"]) == ("mine", 1)
    assert set(judge(folder)) == set(SET), "those left out are checked again"


def test_earlier_verdicts_of_unchanged_programs_are_kept(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "set", {"a": FINE, "b": FINE, "c": FINE})
    good, bad = ScenarioVerdict(passed=True), ScenarioVerdict(passed=False, reason="x")
    write_verdicts(folder, {"a": good, "b": good})
    folder_of(folder, {"b": HIT})
    write_verdicts(folder, {"c": bad})
    assert {n: v["passed"] for n, v in read_verdicts(folder).items()} == {"a": True, "c": False}
