"""Ceilings beside a run's scores."""

from __future__ import annotations

from typing import Any

import pytest

from closedloop_plugin.scoring import ceilings
from closedloop_plugin.scoring.ceilings import MeasuredCeiling, beside, measured, version_text
from lmms_eval_ad2 import __version__


def _row(driver: str, score: float, **known: Any) -> MeasuredCeiling:
    facts = {"backend": "embedded", "suite": "s", "profile": "p", "n_routes": 10, "seed": 0, "version": __version__}
    return MeasuredCeiling(**{**facts, **known}, driver=driver, driving_score=score, success_rate=score - 1.0)


ROWS = (
    _row("expert", 99.0),
    _row("speaking-expert", 97.0, task="trajectory", interpreter="rules"),
    _row("speaking-expert", 95.0, task="action", interpreter="rules"),
    _row("expert", 50.0, suite="other"),
)


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "measured", lambda: ROWS)


def _origin(**facts: str) -> dict[str, str]:
    return {"backend": "embedded", "suite": "s", "profile": "p", "interpreter": "rules", "tasks": "action", **facts}


def test_a_run_stands_beside_the_ceiling_of_its_own_task_and_interpreter() -> None:
    found = beside(_origin())
    assert found is not None and found.ceiling is ROWS[2] and found.expert is ROWS[0]
    assert found.text == (
        "ceiling of action through rules (speaking-expert): Driving Score 95.0, Success Rate 94.0 %; expert: Driving "
        f"Score 99.0, Success Rate 98.0 % (10 routes, seed 0, version {__version__})"
    )
    assert found.to_json()["ceiling"]["driving_score"] == 95.0


def test_a_ceiling_of_other_scenarios_says_so() -> None:
    note = ": scenarios and scores may differ from this version's"
    assert version_text("0.1.9+abc") == f"version 0.1.9+abc{note}"
    assert note not in version_text(f"{__version__}+abc") and note not in version_text(f"{__version__[:-1]}9")


def test_of_several_tasks_the_one_that_the_rules_use_first_counts() -> None:
    found = beside(_origin(tasks="action,trajectory,threat"))
    assert found is not None and found.ceiling is ROWS[1]


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (_origin(interpreter="cng:m"), "ceiling of action through cng:m (speaking-expert): not measured for s in the"),
        (
            _origin(tasks=""),
            "ceiling of a task that the records do not name through rules (speaking-expert): not known",
        ),
        (_origin(suite="mine"), "not measured for mine in the embedded world under p"),
        (_origin(backend="carla"), "not measured for s in the carla world under p"),
    ],
)
def test_what_was_not_measured_is_said(origin: dict[str, str], said: str) -> None:
    found = beside(origin)
    assert found is not None and found.ceiling is None and said in found.text


def test_a_driver_without_an_interpreter_has_no_ceiling() -> None:
    found = beside({"backend": "embedded", "suite": "s", "profile": "p", "agent": "mine"})
    assert found is not None and found.ceiling is None and found.text.startswith("expert: Driving Score 99.0")
    assert beside({"backend": "embedded", "suite": "unknown", "profile": "p"}) is None and beside({}) is None


def test_the_packaged_ceilings_are_those_that_the_docs_promise() -> None:
    """Measured by `make results` on all routes. Until 0.5.0 at least 90 and 97: streams of traffic ended while the ego
    waited; CARLA's cannot be joined at the profile's 5 m/s (docs/results/embedded220.md)."""
    by_task = {row.task: row for row in measured() if row.suite == "embedded220"}
    assert by_task["action"].driving_score >= 82.0 and by_task["trajectory"].driving_score >= 82.0
    assert by_task[None].driver == "expert" and all(row.n_routes == 219 for row in by_task.values())
