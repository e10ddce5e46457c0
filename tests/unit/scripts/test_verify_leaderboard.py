"""Parts of verify_leaderboard.py: the model's controls, the comparison, and the names restored for old programs."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from closedloop_plugin.driver.agents.driving_prompts import situation
from closedloop_plugin.driver.prompts.texts import PromptTexts

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module(name)


@pytest.mark.parametrize(
    ("speed", "target", "steer", "pedals"),
    [
        (0.0, (8.0, 0.0), 0.0, (0.7, 0.0)),
        (6.0, (8.0, 0.1), 0.0, (0.15, 0.0)),  # less than half a metre aside: straight on
        # atan(2 * 2.9 * 3 / (8^2 + 3^2)) = 13.41 degrees of 70, away from the side; then 3.5 m/s
        (3.5, (8.0, 3.0), -0.192, (0.15, 0.0)),
        (3.5, (8.0, -3.0), 0.192, (0.15, 0.0)),
        (6.0, (8.0, -3.0), 0.192, (0.0, 0.3)),
    ],
)
def test_the_model_steers_to_the_target_of_its_question(
    speed: float, target: tuple[float, float], steer: float, pedals: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Seen:
        command, speed_limit = "lane follow", 10.0

    seen = Seen()
    seen.speed, seen.target = speed, target  # type: ignore[attr-defined]
    texts = PromptTexts.load(SCRIPTS / "verify_leaderboard_prompts.yaml")
    question = texts.fill("action", situation=situation(texts, seen))  # type: ignore[arg-type]
    control = json.loads(script("verify_leaderboard_model", monkeypatch).answer([], question))
    assert control["steer"] == pytest.approx(steer, abs=1e-3)
    assert (control["throttle"], control["brake"]) == pedals


def test_the_model_refuses_another_question(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="verify_leaderboard_prompts"):
        script("verify_leaderboard_model", monkeypatch).answer([], "What now?")


@pytest.mark.parametrize(
    ("official", "ours", "why", "equal", "word"),
    [
        (1.0273, 1.0273 * (1 + 1e-12), "", True, "equal"),
        (1.0273, 1.0274, "", False, "DIFFERENT"),
        (None, 1.0, "", False, "DIFFERENT"),
        (50.0, None, "no maps", False, "not compared: no maps"),
    ],
)
def test_figures_are_equal_up_to_the_order_of_sums(
    official: float | None, ours: float | None, why: str, equal: bool, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = script("verify_leaderboard", monkeypatch).FigurePair("Driving Score", official, ours, why)
    assert pair.equal is equal and pair.line().endswith(word)


@pytest.mark.integration
def test_an_old_program_finds_the_names_that_python_has_dropped(tmp_path: Path) -> None:
    program = tmp_path / "old.py"
    program.write_text(
        "import sys, xml.etree.ElementTree as ET\n"
        "root = ET.fromstring('<a k=\"v\"><b/><c/></a>')\n"
        "print(root.items()[0], [e.tag for e in root.getchildren()], sys.argv[1:], __name__)\n"
    )
    command = [sys.executable, str(SCRIPTS / "verify_leaderboard_official.py"), str(program), "--x=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "('k', 'v') ['b', 'c'] ['--x=1'] __main__\n"


@pytest.mark.integration
def test_abilities_without_a_route_are_left_out(tmp_path: Path) -> None:
    """A stand-in for ability_benchmark.py, which divides by the number of routes of each ability."""
    (tmp_path / "ability_benchmark.py").write_text(
        "Ability = {'Merging': ['x'], 'Give_Way': ['y'], 'Traffic_Signs': ['z']}\n"
        "def main(args):\n    print(sorted(Ability), args.file, args.result_file)\n"
    )
    command = [sys.executable, str(SCRIPTS / "verify_leaderboard_official.py"), str(tmp_path / "ability_benchmark.py")]
    words = ["--only-abilities", "Merging,Traffic_Signs", "routes.xml", "merged.json"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "['Merging', 'Traffic_Signs'] routes.xml merged.json\n"
