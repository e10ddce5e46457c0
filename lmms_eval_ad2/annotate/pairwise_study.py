"""Studies of pairs of answers (CODA-LM section 5.4): folder, sample of pairs, and files for `ad2 judge agree`.

A folder has study.json, pairs.jsonl, and votes.jsonl (votes.py). pairs.jsonl has one line per pair of answers: task, id
of the record, names and answers of two models, and the record. Sampled are records that two or more runs answered in
free text, the same for every pair of runs; the paper compares the answers of models to 100 samples of each task.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.judge.agreement import TIE, HumanVotes, JudgedAnswer
from lmms_eval_ad2.judge.base import HIGHEST, LOWEST
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json, file_sha256
from lmms_eval_ad2.storage.saved_samples import read_record, saved_repeats
from lmms_eval_ad2.storage.untrusted_json import lines, load, parse

SCHEMA = "ad2-study/1"
ABOUT, PAIRS = "study.json", "pairs.jsonl"


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Two models' answers to one record. `key` identifies the pair in the votes."""

    task: str
    id: str
    models: tuple[str, str]
    answers: tuple[str, str]
    question: str
    record: Record

    @property
    def key(self) -> str:
        return json.dumps([self.task, self.id, *self.models], ensure_ascii=False)

    def to_json(self) -> str:
        own = {name: getattr(self, name) for name in self.__slots__ if name != "record"}
        return json.dumps({**own, "record": json.loads(self.record.to_json())}, ensure_ascii=False)

    @classmethod
    def from_json(cls, data: Any) -> AnswerPair:
        """Raises ValueError, TypeError or KeyError for another object."""
        texts = [data["task"], data["id"], data["question"], *data["models"], *data["answers"]]
        if not all(isinstance(text, str) for text in texts) or len(texts) != 7:
            raise ValueError("expected texts, two models and two answers")
        return cls(
            task=data["task"], id=data["id"], models=tuple(data["models"]), answers=tuple(data["answers"]),
            question=data["question"], record=Record.from_dict(data["record"]),
        )  # fmt: skip


@dataclass(frozen=True)
class PairwiseStudy:
    """An opened study. runs: label -> run folder; image_roots: task -> folder of its images; drawn: task -> counts."""

    path: Path
    seed: int
    runs: Mapping[str, str]
    image_roots: Mapping[str, str]
    drawn: Mapping[str, Any]
    pairs: tuple[AnswerPair, ...] = field(default=(), repr=False)

    def save(self) -> None:
        """Write the folder. Raises Ad2Error if it is a study already."""
        if (self.path / ABOUT).exists():
            raise Ad2Error(f"{self.path} is a study already; choose another --out")
        with atomic_write(self.path / PAIRS) as handle:
            handle.writelines(pair.to_json() + "\n" for pair in self.pairs)
        about = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in ("path", "pairs")}
        about |= {"schema": SCHEMA, "sha256": file_sha256(self.path / PAIRS)}
        atomic_write_json(self.path / ABOUT, about)

    @classmethod
    def open(cls, path: Path) -> PairwiseStudy:
        """Read a study. Raises Ad2Error or DataError if `path` is none, or its pairs have changed."""
        file = path / ABOUT
        if not file.is_file():
            raise Ad2Error(f"{path} is no study (no {ABOUT}); make one: ad2 annotate sample RUN RUN --out {path}")
        try:
            about = load(file)
        except (OSError, ValueError) as exc:
            raise DataError(file, None, "file", "JSON written by ad2 annotate sample", str(exc)) from exc
        if not isinstance(about, dict) or about.get("schema") != SCHEMA:
            raise DataError(file, None, "schema", SCHEMA, about.get("schema") if isinstance(about, dict) else about)
        for name in ("runs", "image_roots", "drawn"):
            if not isinstance(about.get(name), dict):
                raise DataError(file, None, name, "an object", about.get(name))
        if type(about.get("seed")) is not int:
            raise DataError(file, None, "seed", "a whole number", about.get("seed"))
        if not (path / PAIRS).is_file() or file_sha256(path / PAIRS) != about.get("sha256"):
            raise Ad2Error(f"{path / PAIRS} is not the file that this study was made with; restore it")
        pairs = tuple(_pairs(path / PAIRS))
        return cls(path, about["seed"], about["runs"], about["image_roots"], about["drawn"], pairs)


def is_study(path: Path) -> bool:
    """Return whether `path` is the folder of a study."""
    return (path / ABOUT).is_file()


def _pairs(path: Path) -> Iterator[AnswerPair]:
    for number, line in lines(path):
        try:
            yield AnswerPair.from_json(parse(line))
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            raise DataError(path, number, "line", "a pair of answers", line[:80], str(exc)) from exc


def labels(pairs: Iterable[AnswerPair]) -> list[str]:
    """The models of the pairs, in the order of first occurrence."""
    return list(dict.fromkeys(model for pair in pairs for model in pair.models))


Answers = dict[str, tuple[str, dict[str, Any]]]  # id of a record -> answer and row of the samples file
DEFAULT_ITEMS = 100


def draw(runs: Sequence[Path], out: Path, *, n: int = DEFAULT_ITEMS, seed: int = 0) -> PairwiseStudy:
    """Draw `n` records of each task, all if there are fewer, and write the study.

    Raises Ad2Error for fewer than two runs, equal labels, or no task in common; DataError for runs on other data.
    """
    if len(runs) < 2:
        raise Ad2Error("a study compares runs: name two or more run folders")
    summaries: dict[str, tuple[Path, dict[str, Any]]] = {}
    for folder in runs:
        summary = read_summary(folder)
        label = str(summary["run"].get("label") or folder.name)
        if label in summaries or label == TIE:
            raise Ad2Error(f"{folder}: another run is named {label!r}; a study compares runs of different names")
        summaries[label] = (folder, summary)
    found, roots, drawn = [], {}, {}
    for task in dict.fromkeys(task for _, summary in summaries.values() for task in summary["tasks"]):
        tables = {label: s["tasks"][task] for label, (_, s) in summaries.items() if task in s["tasks"]}
        answers = {label: _answers(summaries[label][0], task) for label in tables}
        pairs, common, items = _drawn_pairs(task, answers, n, random.Random(f"{seed}:{task}"))
        if not pairs:
            continue
        shas = {label: str(table.get("data", {}).get("sha256")) for label, table in tables.items()}
        if len(set(shas.values())) > 1:
            each = ", ".join(f"{label} {sha[:8]}" for label, sha in shas.items())
            raise Ad2Error(f"task {task}: the runs are on different data (sha256: {each})")
        found += pairs
        roots[task] = str(next(iter(tables.values())).get("data", {}).get("image_root"))
        drawn[task] = {"common": common, "items": items, "pairs": len(pairs)}
    if not found:
        raise Ad2Error("these runs have no free-text task in common, with answers of two of them to the same record")
    named = {label: str(folder.resolve()) for label, (folder, _) in summaries.items()}
    study = PairwiseStudy(out, seed, named, roots, drawn, tuple(found))
    study.save()
    return study


def _answers(folder: Path, task: str) -> Answers:
    """The free-text answers of a run; failed requests and empty replies are no answers."""
    found: Answers = {}
    for row in read_samples(folder, task):
        raw = row.get("raw")
        if row.get("form") == "vqa" and isinstance(raw, str) and raw.strip() and failure_reason(raw) is None:
            found[str(row.get("id"))] = (raw, row)
    return found


def _drawn_pairs(
    task: str, answers: Mapping[str, Answers], n: int, chance: random.Random
) -> tuple[list[AnswerPair], int, int]:
    """The pairs of the drawn records in random order, the records with two answers, and the records drawn."""
    models = list(answers)
    common = sorted({id for a, b in combinations(models, 2) for id in answers[a].keys() & answers[b].keys()})
    chosen = chance.sample(common, min(n, len(common)))
    pairs = []
    for id in chosen:
        for a, b in combinations([m for m in models if id in answers[m]], 2):
            (first, row), (second, _) = answers[a][id], answers[b][id]
            record = read_record(Path(f"{task}.jsonl"), id, row)
            pairs.append(AnswerPair(task, id, (a, b), (first, second), str(row.get("prompt")), record))
    chance.shuffle(pairs)
    return pairs, len(common), len(chosen)


def judged_answers(study: PairwiseStudy, runs: Sequence[Path] = ()) -> tuple[list[JudgedAnswer], str]:
    """The judge's mark of every answer in the study, one per judgement, and the label of the judge.

    runs: run folders instead of those that the study was drawn from, e.g. rescored ones; their labels name the models.
    Raises Ad2Error if a model has no run, or if the runs have different judges.
    """
    folders = {str(read_summary(run)["run"].get("label") or run.name): run for run in runs}
    folders = folders or {label: Path(folder) for label, folder in study.runs.items()}
    judges: dict[str, str] = {}
    found: list[JudgedAnswer] = []
    for model in labels(study.pairs):
        if model not in folders:
            raise Ad2Error(f"no run of {model!r} among those given: {', '.join(folders) or 'none'}")
        summary = read_summary(folders[model])
        judge = summary["run"].get("judge") or {}
        judges[model] = str(judge.get("label"))
        wanted: dict[str, set[str]] = {}
        for pair in study.pairs:
            if model in pair.models:
                wanted.setdefault(pair.task, set()).add(pair.id)
        for task, ids in wanted.items():
            repeats = saved_repeats(folders[model] / "summary.json", judge)
            for row in read_samples(folders[model], task):
                if row.get("id") in ids:
                    scores = _scores(row, folders[model], task, repeats)
                    found += [JudgedAnswer(task, row["id"], model, score, str(n)) for n, score in enumerate(scores, 1)]
    if len(set(judges.values())) > 1:
        each = ", ".join(f"{model}: {judge}" for model, judge in judges.items())
        raise Ad2Error(f"the runs were rated by different judges ({each}); rate them with one: ad2 rescore RUN --judge")
    return found, next(iter(judges.values()))


def _scores(row: Mapping[str, Any], folder: Path, task: str, repeats: int) -> list[float | None]:
    """The marks of each judgement. An unparsed answer, which no judge saw, has the lowest."""
    entries = row.get("judge") or []
    if not entries and row.get("status") == "unparsed":
        return [LOWEST] * repeats
    scores = [score for entry in entries[:1] for score in entry.get("scores", [entry.get("score")])]
    scores = scores or [None] * repeats
    if not all(s is None or (is_number(s) and LOWEST <= s <= HIGHEST) for s in scores):
        raise DataError(folder / "samples" / f"{task}.jsonl", str(row.get("id")), "judge", "marks from 1 to 10", scores)
    return scores


def rating_rows(answers: Sequence[JudgedAnswer], judge: str) -> list[dict[str, Any]]:
    """The rows of a file of ratings (docs/judge.md)."""
    return [
        {"id": a.id, "task": a.task, "model": a.model, "judge": judge, "run": a.run, "score": a.score} for a in answers
    ]


def vote_rows(votes: Sequence[HumanVotes]) -> list[dict[str, Any]]:
    """The rows of a file of human votes (docs/judge.md)."""
    return [{"id": v.id, "task": v.task, "models": list(v.models), "votes": list(v.votes)} for v in votes]
