"""Votes: blind sides, the journal, and the comparison with a judge by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.studies import TASK, write_answers

from lmms_eval_ad2.annotate.pairwise_study import draw, judged_answers, rating_rows, vote_rows
from lmms_eval_ad2.annotate.votes import VotingProject, open_project
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.judge import agreement, files

# The judge prefers a on 0, b on 1, neither on 2, and has no mark of b on 3.
MARKS = {"0": (8.0, 3.0), "1": (2.0, 9.0), "2": (5.0, 5.0), "3": (6.0, None)}


@pytest.fixture
def project(tmp_path: Path) -> VotingProject:
    for side, label in enumerate("ab"):
        write_answers(tmp_path / label, label, {id: (f"{label}{id}", marks[side]) for id, marks in MARKS.items()})
    draw([tmp_path / "a", tmp_path / "b"], tmp_path / "s")
    return open_project(tmp_path / "s")


def prefer(project: VotingProject, voter: str, id: str, model: str) -> None:
    number = next(k for k, pair in enumerate(project.pairs) if pair.id == id)
    left, _ = project.sides(voter, number)
    project.vote(voter, number, "tie" if model == "tie" else "left" if left == f"{model}{id}" else "right")


def test_sides_are_random_fixed_and_translated_back(project: VotingProject) -> None:
    seen = {project.sides(f"voter {k}", 0) for k in range(20)}
    pair = project.pairs[0]
    assert seen == {pair.answers, pair.answers[::-1]}
    for k in range(20):
        voter = f"voter {k}"
        project.vote(voter, 0, "left")
        assert project.choice(voter, 0) == "left"
        prefer(project, voter, pair.id, "b")
    assert project.human_votes()[0].votes == ("b",) * 20
    assert open_project(project.study.path).human_votes() == project.human_votes()
    assert project.open_pairs("voter 0") == [1, 2, 3]


def test_two_servers_share_a_folder(project: VotingProject) -> None:
    other = open_project(project.study.path)
    prefer(project, "x", "0", "a")
    prefer(other, "y", "0", "tie")
    assert [v.votes for v in project.human_votes()] == [v.votes for v in other.human_votes()] == [("a", "tie")]


def test_wrong_votes_and_broken_lines(project: VotingProject) -> None:
    with pytest.raises(Ad2Error, match="reviewer"):
        project.vote("<b>", 0, "left")
    with pytest.raises(Ad2Error, match="expected left, right or tie"):
        project.vote("x", 0, "middle")  # type: ignore[arg-type]
    prefer(project, "x", "0", "a")
    path = project.study.path / "votes.jsonl"
    path.write_text(path.read_text("utf-8").replace('"vote": "a"', '"vote": "c"'))
    with pytest.raises(DataError, match=r"votes\.jsonl, row 1.*a vote on a pair of this study"):
        open_project(project.study.path)


def test_the_consistency_by_hand(project: VotingProject, tmp_path: Path) -> None:
    for voter in "xyz":
        prefer(project, voter, "0", "a")  # the judge agrees
        prefer(project, voter, "1", "a")  # it does not
        prefer(project, voter, "2", "b")  # it has no winner
    prefer(project, "x", "3", "a")
    prefer(project, "y", "3", "b")  # no majority
    answers, judge = judged_answers(project.study)
    votes = project.human_votes()
    found = agreement.compare(answers, votes)[TASK]
    assert (found.n_pairs, found.human_ties, found.judge_ties, found.consistency) == (4, 1, 1, pytest.approx(1 / 3))
    files.write_rows(tmp_path / "r.jsonl", rating_rows(answers, judge))
    files.write_rows(tmp_path / "v.jsonl", vote_rows(votes))
    again = agreement.compare(files.read_ratings(tmp_path / "r.jsonl"), files.read_votes(tmp_path / "v.jsonl"))
    assert again[TASK] == found and judge == "lexical"


def test_marks_of_other_runs(project: VotingProject, tmp_path: Path) -> None:
    a = write_answers(tmp_path / "ra", "a", dict.fromkeys(MARKS, ("", 9.0)), judge="openai:m")
    b = write_answers(tmp_path / "rb", "b", dict.fromkeys(MARKS, ("", 1.0)), judge="openai:m")
    answers, judge = judged_answers(project.study, [b, a])
    assert judge == "openai:m" and {(x.model, x.score) for x in answers} == {("a", 9.0), ("b", 1.0)}
    with pytest.raises(Ad2Error, match="no run of 'b' among those given: a"):
        judged_answers(project.study, [a])
    with pytest.raises(Ad2Error, match=r"different judges \(a: openai:m, b: lexical\)"):
        judged_answers(project.study, [a, tmp_path / "b"])
