"""`ad2 export swift`: training files for ms-swift. `ad2 export answers`: replies of a run as official files."""

from __future__ import annotations

import fnmatch
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.options import ExclusiveOptions, add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.data.export.answer_files import WrittenAnswers, WrittenDriveLm
    from lmms_eval_ad2.data.export.leaks import ExportTask


SOURCE = ExclusiveOptions(required=True)


@dataclass(frozen=True, kw_only=True)
class ExportSwiftOptions:
    """`ad2 export swift`."""

    tasks: str | None = option(
        "task names or patterns, e.g. 'ad2_mcq_*,ad2_coda_*' or bench_coda_lm", default=None, metavar="TASK,...",
        exclusive=SOURCE,
    )  # fmt: skip
    drives: tuple[Path, ...] | None = option(
        "folders of ad2 drive collect: rows of their frames, with the prompts of ad2 drive run", default=None,
        metavar="DIR", exclusive=SOURCE,
    )  # fmt: skip
    out: Path = option("file of messages to write", metavar="FILE.jsonl")
    split: str = option(
        "split of the data (default: train; evaluation splits are refused)", default="train", needs="tasks"
    )
    images_out: Path | None = option(
        "folder of pictures with drawn marks (default: FILE_images)",
        default=None,
        metavar="DIR",
        needs="tasks",
        expert=True,
    )
    limit: int | None = option("at most N questions per task", default=None, metavar="N", least=1, needs="tasks")
    shuffle: bool = option(
        "draw and order the questions at random, by --seed", default=False, needs="tasks", expert=True
    )
    seed: int = option("seed of --shuffle (default 0)", default=0, metavar="S", expert=True)
    allow_shared_scenes: bool = option(
        "accept other pictures of an evaluation scene", default=False, needs="tasks", expert=True
    )
    drop_leaks: bool = option(
        "drop questions that are in an evaluation split, instead of refusing", default=False, needs="tasks", expert=True
    )
    asked: tuple[str, ...] = option(
        "--drives: what is asked about each frame (default action)", default=("action",), metavar="TASK",
        choices=("action", "trajectory"), needs="drives",
    )  # fmt: skip
    balance: float = option(
        "--drives: repeat frames of rare classes (action, range of speed): (frames of the most frequent class / of "
        "this one) ** B (default 0.5; 0: none)", default=0.5, metavar="B", least=0, most=1, needs="drives", expert=True,
    )  # fmt: skip
    repeat: int = option(
        "--drives: at most N repetitions of a frame (default 8)",
        default=8,
        metavar="N",
        least=1,
        needs="drives",
        expert=True,
    )
    times: tuple[int, ...] = option(
        "--drives: how often the frames of each folder are written, in the order of --drives (default: once)",
        default=(), metavar="N", needs="drives", expert=True,
    )  # fmt: skip
    questions: int = option(
        "--drives: questions about each frame from DIR/questions.jsonl, at most N (default 0)", default=0, metavar="N",
        least=0, needs="drives",
    )  # fmt: skip
    reasons: bool = option(
        "--drives: answers of actions end with the expert's reason", default=False, needs="drives", expert=True
    )
    unseen_reasons: bool = option(
        "--drives: also frames whose picture does not show why the expert slows down",
        default=False,
        needs="drives",
        expert=True,
    )
    prompts: Path | None = option(
        "--drives: file of driving prompts (as for ad2 drive run)", default=None, needs="drives", expert=True
    )


@dataclass(frozen=True, kw_only=True)
class ExportAnswersOptions:
    """`ad2 export answers`."""

    run: Path = option(
        "run folder (with summary.json), or a folder that contains one run", positional=True, metavar="RUN"
    )
    out: Path = option(
        "CODA-LM: folder of the answer files; DriveLM: file to write, or a folder for output.json (submission.json "
        "with team)",
        metavar="DIR|FILE.json",
    )
    tasks: str = option(
        "tasks of the run, of one benchmark; of CODA-LM one per file (default: all)", default="", metavar="TASK,..."
    )
    fill_empty: bool = option(
        "write an empty answer for a record or question without a reply, so that each has a row (default: no row)",
        default=False,
        expert=True,
    )
    parsed: bool = option(
        "DriveLM: write the choice of a closed question as the challenge spells it (B; Yes.), which it compares by "
        "exact equality (default: the reply, unchanged)",
        default=False,
        expert=True,
    )
    team: Path | None = option(
        "DriveLM: JSON file with method, team, authors, email, institution, country: write a submission that contains "
        "the rows",
        default=None,
        metavar="TEAM.json",
        expert=True,
    )


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "export", help="write training files from the tasks (docs/finetune.md), or a run's replies as official files"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(actions, "swift", run_swift, ExportSwiftOptions, help="messages with images in ms-swift's format")
    add_command(
        actions, "answers", run_answers, ExportAnswersOptions,
        help="replies of a run as CODA-LM's answer files, or as the DriveLM challenge's file",
    )  # fmt: skip


def run_swift(options: ExportSwiftOptions) -> int:
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.data.export.training import ExportSettings, card_path, export

    if options.out.suffix != ".jsonl":
        raise Ad2Error(f"--out {options.out}: the file name must end in .jsonl, from which ms-swift takes the format")
    if options.drives:
        return _run_drives(options)
    tasks, tested = find_tasks(options.tasks or "", options.split)
    settings = ExportSettings(
        out=options.out,
        split=options.split,
        images_out=options.images_out,
        limit=options.limit,
        shuffle=options.shuffle,
        seed=options.seed,
        allow_shared_scenes=options.allow_shared_scenes,
        drop_leaks=options.drop_leaks,
    )
    card = export(tasks, tested, settings)
    _print_summary(card, options.out)
    show(f"{options.out}: {card['rows']} rows, sha256 {card['sha256'][:16]}; card: {card_path(options.out)}")
    return 0


def _run_drives(options: ExportSwiftOptions) -> int:
    from lmms_eval_ad2.data.export.drives import DriveRowSettings, export_drives
    from lmms_eval_ad2.data.export.training import card_path

    settings = DriveRowSettings(
        asked=options.asked, balance=options.balance, repeat=options.repeat, times=options.times,
        questions=options.questions, reasons=options.reasons, unseen_reasons=options.unseen_reasons, seed=options.seed,
        prompts=options.prompts,
    )  # fmt: skip
    card = export_drives(options.drives or (), options.out, settings)
    counts = ", ".join(f"{kind} {n}" for kind, n in card["rows_by_question"].items())
    show(f"{options.out}: {card['rows']} rows ({counts}), sha256 {card['sha256'][:16]}; card: {card_path(options.out)}")
    return 0


def run_answers(options: ExportAnswersOptions) -> int:
    from lmms_eval_ad2.cli.rescore import find_run
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.data.export import answer_files
    from lmms_eval_ad2.scoring.result_files import read_summary

    run, names = find_run(options.run), [name for name in options.tasks.split(",") if name]
    tables = read_summary(run)["tasks"]
    benchmarks = {table.get("benchmark") for name, table in tables.items() if name in names or not names}
    found = sorted(benchmarks & {answer_files.BENCHMARK, answer_files.DRIVELM})
    if len(found) > 1:
        raise Ad2Error(f"{run} has tasks of {' and '.join(found)}: name those of one, with --tasks")
    if not found:
        wanted = f"--tasks {options.tasks}: " if names else ""
        raise Ad2Error(f"{wanted}{run} has no such task of CODA-LM or DriveLM; it has: {', '.join(tables) or 'none'}")
    if found == [answer_files.DRIVELM]:
        return _run_drivelm(options, run, names)
    if options.parsed or options.team:
        raise Ad2Error("parsed and team are for DriveLM; the answers of this run are of CODA-LM")
    for file in answer_files.export_answers(run, options.out, tasks=names, fill=options.fill_empty):
        show("\n".join(_answer_lines(file, options.fill_empty)))
    return 0


def _answer_lines(file: WrittenAnswers, filled: bool) -> list[str]:
    return [
        f"{file.path}: {file.rows} rows of {file.records} records of {file.data}, from {file.task}",
        *_lacking("records", file.not_asked, file.failed, filled),
    ]


def _lacking(items: str, not_asked: int, failed: int, filled: bool) -> list[str]:
    """One line per reason for which records or questions have no reply."""
    how = "written with an empty answer" if filled else "left out; --config fill_empty=true writes an empty answer"
    reasons = {f"{items} were not asked by the run": not_asked, "requests failed": failed}
    return [f"  {number} {text}: {how}" for text, number in reasons.items() if number]


def _run_drivelm(options: ExportAnswersOptions, run: Path, names: list[str]) -> int:
    from lmms_eval_ad2.data.export.answer_files import export_drivelm

    file = export_drivelm(
        run, options.out, tasks=names, fill=options.fill_empty, parsed=options.parsed, team=options.team
    )
    show("\n".join(_drivelm_lines(file, options)))
    return 0


def _drivelm_lines(file: WrittenDriveLm, options: ExportAnswersOptions) -> list[str]:
    lines = [
        f"{file.path}: {file.rows} rows of {file.questions} questions of {file.data}, from {', '.join(file.tasks)}"
    ]
    lines += _lacking("questions", file.not_asked, file.failed, options.fill_empty)
    if options.parsed:
        lines.append(f"  {file.parsed} closed questions: the parsed choice is written")
        if file.unparsed:
            lines.append(f"  {file.unparsed} closed questions: no choice could be parsed; the reply is unchanged")
    return lines


def find_tasks(names: str, split: str) -> tuple[list[ExportTask], dict[str, set[str]]]:
    """The tasks of a comma list of names, groups and patterns, and all splits that tasks evaluate, by dataset.

    A pattern selects the tasks whose data have `split` and prints those left out; a name is always selected.
    """
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.harness.task_files import groups

    all_tasks = {task.name: task for task in _open_loop()}
    tested: dict[str, set[str]] = defaultdict(set)
    for task in all_tasks.values():
        tested[task.dataset].add(task.tested)
    wanted: dict[str, ExportTask] = {}
    for name in filter(None, names.split(",")):
        if name in all_tasks:
            matched = [name]
        elif name in groups():
            matched = list(groups()[name])
        elif "*" in name:
            matched = _imported(fnmatch.filter(all_tasks, name), all_tasks, split)
        else:
            matched = []
        if not matched:
            raise Ad2Error(f"--tasks: no open-loop task '{name}' to export; all: ad2 tasks")
        wanted |= {n: all_tasks[n] for n in matched}
    if not wanted:
        raise Ad2Error("--tasks: name at least one task; all: ad2 tasks")
    return list(wanted.values()), dict(tested)


def _open_loop() -> list[ExportTask]:
    """All our tasks on records of the data home, sorted by name."""
    from lmms_eval_ad2.data.export.leaks import ExportTask
    from lmms_eval_ad2.harness.task_files import catalogue

    return [ExportTask(t.name, t.dataset, t.split, t.variant()) for t in catalogue() if t.settings]


def _imported(names: list[str], tasks: dict[str, ExportTask], split: str) -> list[str]:
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.data.home.dataset import splits_of

    there = [name for name in names if split in splits_of(tasks[name].dataset)]
    missing = sorted({tasks[name].dataset for name in set(names) - set(there)})
    hints = "".join(f"\n  to import it: ad2 data import {data} SOURCE --split {split}" for data in missing)
    if names and not there:
        raise Ad2Error(f"none of {len(names)} tasks has its data of split '{split}'{hints}")
    if missing:
        show(f"left out, no split '{split}': the tasks of {', '.join(missing)}{hints}", file=sys.stderr)
    return there


def _print_summary(card: dict[str, Any], out: Path) -> None:
    """Print counts by task, questions left out, and the limits of the leak check."""
    for name, about in card["tasks"].items():
        left = ", ".join(f"{why} {n}" for why, n in about["left_out"].items())
        show(
            f"{name}: {about['rows']} rows of {about['dataset']}/{about['split']}"
            + (f"; left out: {left}" * bool(left))
        )
    if card["unreadable"]["questions"]:
        first = "".join(f"\n  {fault}" for fault in card["unreadable"]["first"])
        show(f"left out, no readable picture: {card['unreadable']['questions']} questions{first}", file=sys.stderr)
    leak = card["leak_check"]
    compared = ", ".join(f"{c['name']}/{c['split']}" for c in leak["compared_with"])
    show(f"leak check: compared with {compared or 'nothing'}"
          + "".join(f"; {what} {leak[what]}" for what in ("dropped", "allowed") if leak[what]))  # fmt: skip
    for name in leak["without_own_evaluation_split"]:
        show(
            f"WARNING: no evaluation split of {name} is imported, so it is unknown whether {out.name} contains "
            f"questions of it: import it (ad2 data import {name} ...) and export again before you report a score on it",
            file=sys.stderr,
        )
