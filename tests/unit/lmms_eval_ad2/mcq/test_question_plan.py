"""Plans: shares are met exactly within the available questions, deterministically, or refused with an explanation."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mcq.entries import FRAME, REAL, SCENE, survey_of
from support.tiers import examples

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.mcq.question_plan import (
    QuestionPlan,
    apportion,
    continuous_table,
    integer_table,
    level,
    parse_shares,
    plan,
)
from lmms_eval_ad2.mcq.taxonomy import TASKS

PAPER_MIX = {"drivelm": 0.6, "nuscenes_qa": 0.2, "lingoqa": 0.2}
PAPER_TASKS = {"perception": 0.4, "prediction": 0.3, "planning": 0.3}
BIG = survey_of(REAL)


def margins(question_plan: QuestionPlan) -> tuple[dict[str, int], dict[str, int]]:
    sources, tasks = Counter[str](), Counter[str]()
    for stratum in question_plan.strata:
        sources[stratum.source] += stratum.quota
        tasks[stratum.task] += stratum.quota
    return dict(sources), dict(tasks)


def test_the_plan_of_the_papers_set() -> None:
    question_plan = plan(BIG, mix=PAPER_MIX, tasks=PAPER_TASKS, total=15_400)
    assert margins(question_plan) == (
        {"drivelm": 9240, "nuscenes_qa": 3080, "lingoqa": 3080},
        {"perception": 6160, "prediction": 4620, "planning": 4620},
    )
    # NuScenes-QA has only perception; DriveLM and LingoQA divide the rest 3:1, like their shares.
    assert question_plan.table["drivelm"] == {"perception": 2310, "prediction": 3465, "planning": 3465}
    assert question_plan.table["lingoqa"] == {"perception": 770, "prediction": 1155, "planning": 1155}
    assert question_plan.total == 15_400
    assert min(margins(question_plan)[1].values()) >= 4_000


def test_lingoqas_validation_split_is_too_small_for_the_papers_set() -> None:
    sizes = {**REAL, "lingoqa": {"perception": 300, "prediction": 20, "planning": 180}}
    with pytest.raises(
        Ad2Error, match=r"lingoqa: 3,080 questions are requested, 500 can be used.*--total 2500"
    ) as error:
        plan(survey_of(sizes), mix=PAPER_MIX, tasks=PAPER_TASKS, total=15_400)
    assert "\n" not in str(error.value)
    most = plan(survey_of(sizes), mix=PAPER_MIX, tasks=PAPER_TASKS)
    assert most.total == 2500
    assert most.table["lingoqa"] == {"perception": 300, "prediction": 20, "planning": 180}


def test_incompatible_shares_are_an_error_that_names_the_task() -> None:
    mix = {"drivelm": 0.3, "nuscenes_qa": 0.6, "lingoqa": 0.1}
    with pytest.raises(Ad2Error, match=r"perception: 40 questions are requested, but .* at least 60.*No total"):
        plan(BIG, mix=mix, tasks=PAPER_TASKS, total=100)
    sizes = {"drivelm": {"perception": 5, "planning": 100}, "lingoqa": {"perception": 100, "planning": 10}}
    halves = {"perception": 0.5, "planning": 0.5}
    with pytest.raises(Ad2Error, match=r"perception: 50 questions are requested, but .* at most 15.*--total \d"):
        plan(survey_of(sizes), mix={"drivelm": 0.9, "lingoqa": 0.1}, tasks=halves, total=100)


def test_too_few_questions_of_a_task_are_an_error() -> None:
    sizes = {"drivelm": {"perception": 100, "planning": 10}, "lingoqa": {"perception": 100, "planning": 5}}
    shares = {"perception": 0.5, "planning": 0.5}
    with pytest.raises(Ad2Error, match=r"planning: 40 questions are requested, 15 can be used.*--total 30"):
        plan(survey_of(sizes), mix={"drivelm": 0.5, "lingoqa": 0.5}, tasks=shares, total=80)
    assert plan(survey_of(sizes), mix={"drivelm": 0.5, "lingoqa": 0.5}, tasks=shares, total=30).total == 30


def test_a_task_that_no_source_has_is_an_error() -> None:
    survey = survey_of({"nuscenes_qa": {"perception": 50}})
    for mix, number in ((None, 50), ({"nuscenes_qa": 1}, 25)):
        with pytest.raises(Ad2Error, match=rf"^planning: {number} questions are requested, 0 can be used. No total"):
            plan(survey, mix=mix, tasks={"perception": 0.5, "planning": 0.5})


@pytest.mark.parametrize("given_", ["none", "total", "mix", "tasks"])
def test_a_free_margin_follows_the_available_questions(given_: str) -> None:
    sizes = {"drivelm": {"perception": 60, "planning": 20}, "lingoqa": {"perception": 10, "planning": 10}}
    survey = survey_of(sizes)
    if given_ == "none":
        question_plan = plan(survey)
        assert {s: {t: n for t, n in row.items() if n} for s, row in question_plan.table.items()} == sizes
    elif given_ == "total":
        question_plan = plan(survey, total=50)
        assert margins(question_plan) == ({"drivelm": 40, "lingoqa": 10}, {"perception": 35, "planning": 15})
    elif given_ == "mix":
        assert margins(plan(survey, mix={"drivelm": 0.5, "lingoqa": 0.5}))[0] == {"drivelm": 20, "lingoqa": 20}
        question_plan = plan(survey, mix={"drivelm": 1, "lingoqa": 0}, total=8)
        assert question_plan.table["drivelm"] == {"perception": 6, "prediction": 0, "planning": 2}
    else:
        assert margins(plan(survey, tasks={"planning": 1}))[1] == {"planning": 30}
        question_plan = plan(survey, tasks={"perception": 0.5, "planning": 0.5}, total=20)
        assert margins(question_plan)[1] == {"perception": 10, "planning": 10}


def test_a_total_above_the_supply_is_an_error() -> None:
    message = r"1,000,000 questions are requested, 86,133 can be used.*--total 86133"
    with pytest.raises(Ad2Error, match=message):
        plan(BIG, total=10**6)
    with pytest.raises(Ad2Error, match="--mix: lingoqa has no usable question"):
        plan(survey_of({"drivelm": {"planning": 5}}), mix={"drivelm": 0.5, "lingoqa": 0.5})


def test_parse_shares() -> None:
    known = ("drivelm", "nuscenes_qa", "lingoqa")
    assert parse_shares("drivelm=0.6, nuscenes_qa=0.4", known) == {"drivelm": 0.6, "nuscenes_qa": 0.4, "lingoqa": 0.0}
    for text, message in {
        "drivelm=0.6,nuscenes_qa=0.2": "sum to 0.8",
        "drivelm=0.6,drivelm=0.4": "'drivelm' is given twice",
        "drivelm": "'drivelm' is",
        "drive=1": "'drive' is not one of drivelm, nuscenes_qa, lingoqa",
        "drivelm=all": "is 'all', expected a number",
        "drivelm=-1,lingoqa=2": "is '-1', expected a number from 0 to 1",
        "drivelm=nan": "is 'nan'",
        "drivelm=inf": "is 'inf'",
        "": "sum to 0: none",
    }.items():
        with pytest.raises(Ad2Error, match=message):
            parse_shares(text, known)


def test_sub_tasks_are_even_and_scenes_alternate() -> None:
    question_plan = plan(survey_of({"drivelm": {"perception": 300}}), total=60, seed=3)
    assert [(s.subtask, s.quota) for s in question_plan.strata] == [  # of 60, 120 and 120
        ("surrounding objects", 20), ("traffic elements", 20), ("motion state", 20),
    ]  # fmt: skip
    for stratum in question_plan.strata:
        sampled = stratum.entries[: stratum.quota]
        most = Counter(e.cluster for e in sampled).most_common(1)[0][1]
        assert most == math.ceil(stratum.quota / (300 / SCENE))
    sampled = question_plan.strata[1].entries  # two or more per frame; a scene's first ones are of different frames
    firsts = [e for e in sampled if e.cluster == sampled[0].cluster][: SCENE // FRAME]
    assert len({e.frame for e in firsts}) == SCENE // FRAME


def test_sampling_depends_only_on_the_seed() -> None:
    one, same, other = (plan(BIG, mix=PAPER_MIX, tasks=PAPER_TASKS, total=1000, seed=s) for s in (1, 1, 2))
    assert one == same
    assert [s.quota for s in one.strata] == [s.quota for s in other.strata]
    assert all(a.entries != b.entries for a, b in zip(one.strata, other.strata, strict=True))
    assert all(len(set(s.entries)) == len(s.entries) for s in one.strata)


def test_facts_are_json_and_add_up() -> None:
    facts = plan(BIG, mix=PAPER_MIX, tasks=PAPER_TASKS, total=1000).facts()
    assert json.loads(json.dumps(facts)) == facts
    assert sum(s["quota"] for s in facts["strata"]) == facts["total"] == facts["asked"] == 1000
    assert sum(sum(row.values()) for row in facts["table"].values()) == 1000
    assert facts["available"]["nuscenes_qa"] == {"perception": 8333, "prediction": 0, "planning": 0}


def shares_of(size: int) -> st.SearchStrategy[list[float]]:
    weights = st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(any)
    return weights.map(lambda parts: [part / sum(parts) for part in parts])


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=3, max_size=3),
    shares_of(3), shares_of(3), st.integers(1, 120),
)  # fmt: skip
def test_any_shares_are_met_exactly_or_refused(
    cells: list[list[int]], mix: list[float], tasks: list[float], total: int
) -> None:
    names = ("drivelm", "nuscenes_qa", "lingoqa")
    if not any(map(any, cells)):
        return
    survey = survey_of({name: dict(zip(TASKS, row, strict=True)) for name, row in zip(names, cells, strict=True)})
    rows, columns = apportion(total, mix), apportion(total, tasks)
    limits = np.array(cells)
    possible = integer_table(limits, rows, columns, continuous_table(limits, rows, columns)) is not None
    try:
        question_plan = plan(
            survey, mix=dict(zip(names, mix, strict=True)), tasks=dict(zip(TASKS, tasks, strict=True)), total=total
        )
    except Ad2Error as exc:
        assert not possible or "has no usable question" in str(exc)
        return
    assert possible
    sources, by_task = margins(question_plan)
    assert [sources.get(name, 0) for name in names] == rows
    assert [by_task.get(task, 0) for task in TASKS] == columns
    assert all(stratum.quota <= len(stratum.entries) for stratum in question_plan.strata)


@given(st.integers(0, 1000), shares_of(4))
def test_largest_remainder_is_within_one_of_the_share(total: int, shares: list[float]) -> None:
    counts = apportion(total, shares)
    assert sum(counts) == total
    assert all(abs(n - total * share) < 1 + 1e-6 for n, share in zip(counts, shares, strict=True))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=7), st.data())
def test_levels_are_even_up_to_the_limits(limits: list[int], data: st.DataObject) -> None:
    total = data.draw(st.integers(0, sum(limits)))
    counts = level(total, limits)
    assert sum(counts) == total
    assert all(n <= limit for n, limit in zip(counts, limits, strict=True))
    below = [n for n, limit in zip(counts, limits, strict=True) if n < limit]
    assert not below or max(counts) - min(below) <= 1


@pytest.mark.parametrize(
    ("limits", "margin", "near", "table"),
    [
        ([[9, 9], [9, 9]], [1, 1], [[0.9, 0.1], [0.1, 0.9]], [[1, 0], [0, 1]]),
        ([[9, 9], [9, 9]], [1, 1], [[0.1, 0.9], [0.9, 0.1]], [[0, 1], [1, 0]]),
        ([[1, 9], [9, 9]], [3, 3], [[2.5, 0.5], [0.5, 2.5]], [[1, 2], [2, 1]]),
    ],
)
def test_a_table_is_rounded_to_the_nearest_integer_table(
    limits: list[list[int]], margin: list[int], near: list[list[float]], table: list[list[int]]
) -> None:
    found = integer_table(np.array(limits), margin, margin, np.array(near))
    assert found is not None and found.tolist() == table


def test_margins_that_no_table_has_give_none() -> None:
    assert integer_table(np.array([[0, 1], [1, 0]]), [1, 1], [2, 0], np.zeros((2, 2))) is None


def test_remainders_go_to_the_first_entries() -> None:
    assert level(5, [9, 9, 9]) == [2, 2, 1]
    assert apportion(5, [1, 1, 1]) == [2, 2, 1]


def test_totals_above_the_limits_are_an_error() -> None:
    for divide in (lambda: apportion(5, [1, 0], [4, 9]), lambda: level(5, [2, 2])):
        with pytest.raises(ValueError, match="do not fit"):
            divide()
