"""Draws of a check: which are driven next, how many must be survived, and the share over all scenarios."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner.episode_record import blank_record
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.threats.draws import DrawPlan, DrivenDraws, share_of, survived_share
from closedloop_plugin.threats.transcript import ScenarioVerdict
from closedloop_plugin.threats.verdicts import NearestActor, ScenarioDraw
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
