"""`ad2 mcq examples`: open answers of a run, scored from 0 to 5 by a model (AutoDrive-QA, Tables 4 and 6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.mcq.model_checks import OpenAnswer
    from lmms_eval_ad2.report.runs import RunSummary

EXAMPLES = """examples:
  lmms_eval --model ... --tasks ad2_mcq_planning,ad2x_mcq_planning_open --output_path runs/m
  ad2 mcq examples runs/m --judge openai:gpt-4o-2024-11-20 --limit 200 --out examples.json

RUN has open answers (ad2x_mcq_*_open), and the options that the model chose for the same questions (ad2_mcq_*).

exit code: 0 at least one answer was scored, 1 none, 2 invalid arguments"""
_PAPER = {"solved": 4, "not solved": 6}  # tables of published.yaml
_WIDEST = 60  # characters of an answer in the table; --out has all


@dataclass(frozen=True, kw_only=True)
class McqExamplesOptions:
    """`ad2 mcq examples`."""

    run: Path = option("folder of a run with open answers", metavar="RUN", positional=True)
    judge: str = option("model that scores (openai:..., endpoint:MODEL@URL, FILE.yaml)", metavar="SPEC")
    tasks: str = option(
        "patterns of the open-ended tasks to score (default: all of RUN)", default="*", metavar="TASK,...", expert=True
    )
    limit: int | None = option("only the first N open answers of each task", default=None, metavar="N", least=1)
    show: int = option("examples listed for solved and for not solved questions (default 6)", default=6, least=0,
                       metavar="N", expert=True)  # fmt: skip
    prompts: Path | None = option("own prompts (open_system, open)", default=None, metavar="FILE.yaml", expert=True)
    out: Path | None = option("write all rows and means", default=None, metavar="FILE.json")
    cache: Path | None = option(
        "cache of replies (default: FILE.json.sqlite of --out)", default=None, metavar="FILE", expert=True
    )
    no_progress: bool = option("no progress bar", default=False, expert=True)


def register(parts: Any) -> None:
    add_command(
        parts, "examples", run, McqExamplesOptions, epilog=EXAMPLES,
        help="score open answers of a run from 0 to 5 by a model, next to BLEU, CIDEr and the chosen options",
    )  # fmt: skip


def run(options: McqExamplesOptions) -> int:
    """Return 0 if at least one answer was scored, else 1; raises Ad2Error for mistakes of the user."""
    from lmms_eval_ad2.llm.cache import ReplyCache
    from lmms_eval_ad2.llm.model import read_model
    from lmms_eval_ad2.mcq.model_checks import rate_open
    from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts
    from lmms_eval_ad2.report.runs import load
    from lmms_eval_ad2.storage.files import atomic_write_json

    model = read_model(options.judge, owner="--judge")
    texts = McqPromptTexts.load(options.prompts)
    answers = [answer for one in load([options.run]) for answer in _open_answers(one, options)]
    _check(answers, options.run)
    path = options.cache or (options.out.with_name(options.out.name + ".sqlite") if options.out else None)
    cache = ReplyCache(path) if path else None
    found = rate_open(answers, model, texts=texts, cache=cache, progress=not options.no_progress)
    if options.out:
        atomic_write_json(options.out, found, errors="backslashreplace")
    for line in _lines(found, options.show):
        show(line)
    return 0 if found["means"]["all"]["score"] else 1


def _check(answers: list[OpenAnswer], folder: Path) -> None:
    from lmms_eval_ad2.core.errors import Ad2Error

    if not answers:
        raise Ad2Error(
            f"{folder}: no open answers of AutoDrive-QA; run ad2x_mcq_planning_open and the others (ad2 tasks)"
        )
    ids = [answer.id for answer in answers]
    if len(set(ids)) < len(ids):
        raise Ad2Error(
            f"{folder}: several runs or tasks with open answers to the same questions: name one run, "
            "and its tasks with --tasks"
        )


def _open_answers(one: RunSummary, options: McqExamplesOptions) -> Iterator[OpenAnswer]:
    """The open answers of a run that were not failed requests, with the options chosen in its other tasks."""
    from fnmatch import fnmatch
    from itertools import islice

    from lmms_eval_ad2.mcq.model_checks import OpenAnswer
    from lmms_eval_ad2.report.runs import sample_rows
    from lmms_eval_ad2.storage.saved_samples import read_record

    tasks = [
        task for task in one.tasks.values() if task.benchmark == "autodrive_qa" and not task.variant.get("circular")
    ]
    chosen: dict[str, str] = {}
    for task in tasks:
        if task.variant.get("form") != "vqa":
            rows = sample_rows(one, task.name)
            chosen |= {str(row["id"]): str(row["answer"]) for row in rows if row.get("answer") is not None}
    for task in tasks:
        if task.variant.get("form") != "vqa" or not any(fnmatch(task.name, p) for p in options.tasks.split(",")):
            continue
        rows = (row for row in sample_rows(one, task.name) if row.get("status") != "unscored")
        for row in islice(rows, options.limit):
            record = read_record(one.folder / "samples" / f"{task.name}.jsonl", str(row["id"]), row)
            yield OpenAnswer(
                id=record.id, task=record.task, question=record.question.get("en"), reference=record.answer.get("en"),
                text=str(row["raw"]), choice=chosen.get(record.id, ""), marked=record.letter, cluster=record.cluster,
            )  # fmt: skip


def _lines(found: Mapping[str, Any], shown: int) -> Iterator[str]:
    from lmms_eval_ad2.report.published import table
    from lmms_eval_ad2.report.table import Table

    headers = ("question", "open answer", "BLEU-4", "CIDEr", "score (/5)", "choice")
    for outcome, number in _PAPER.items():
        rows = [row for row in found["rows"] if row["outcome"] == outcome]
        lines: list[tuple[str, ...]] = [
            (row["id"], " ".join(row["answer"].split())[:_WIDEST], _number(row["bleu_4"]), _number(row["cider"]),
             _number(row["score"], 0), f"{row['choice']} ({row['marked']})")
            for row in rows[:shown]
        ]  # fmt: skip
        paper = table("autodrive_qa", number)
        lines += [
            (f"published: {row.labels['example']}", "", *(_number(row.values[c]) for c in ("bleu", "cider")),
             _number(row.values["score"], 0), row.labels["choice"])
            for row in paper.rows
        ]  # fmt: skip
        yield f"{outcome}: {len(rows)} questions (published: {paper.source}, scores by ChatGPT)"
        yield Table(headers, lines, "llrrrl").plain(indent=2)
    yield f"means by {found['model']}, 0 to 5; BLEU-4 and CIDEr x100 [95 % over scenes]"
    means = [(name, part["n"], *(_mean(part[k]) for k in ("score", "bleu_4", "cider"))) for name, part in
             found["means"].items()]  # fmt: skip
    yield Table(("questions", "n", "score", "BLEU-4", "CIDEr"), means, "lrlll").plain(indent=2)
    if without := sum(row["outcome"] == "no choice" for row in found["rows"]):
        yield f"{without} open answers without a chosen option in this run"
    yield from (f"not scored: {n} {reason}" for reason, n in found["reasons"].items())
    yield from found["notes"]


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _mean(part: Mapping[str, Any] | None) -> str:
    if part is None:
        return "-"
    interval = part["interval"]
    return f"{part['mean']:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}] of {part['n']}" if interval else "")
