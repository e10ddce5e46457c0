"""`ad2 annotate`: people's decisions on a web page: reviews of records, checks of questions, votes on pairs of answers.

A folder of decisions is of one of these kinds; `page`, `export` and `summary` find out which.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.cli.local_page import serve_until_stopped
from lmms_eval_ad2.core.options import ExclusiveOptions, add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.annotate.folder import AnnotationFolder
    from lmms_eval_ad2.annotate.project import AnnotationProject

PARTS = ("page", "export", "summary", "sample")
ASKS = "general,suggestion,region,chain"
EXAMPLES = """examples:
  ad2 annotate sample_coda_lm --out notes                         review a dataset of the data home
  ad2 annotate reviewed.jsonl --images pictures --out notes       review a file of records
  ad2 annotate pictures --boxes boxes.json --out notes            annotate pictures that have no texts yet
  ad2 annotate pictures --out notes --pre endpoint:qwen2.5-vl@http://127.0.0.1:8000/v1
  ad2 annotate export notes --out records.jsonl --merge majority
  ad2 annotate summary notes                                      agreement between reviewers
  ad2 annotate autodrive_qa --check --out checked                 people solve and judge 400 multiple-choice questions
  ad2 annotate summary checked
  ad2 annotate sample runs/a runs/b --out study                   pairs of answers; then: ad2 annotate page study
  ad2 annotate export study --out votes                           votes and the judge's marks, and their consistency

`ad2 annotate SOURCE` is short for `ad2 annotate page SOURCE`; the same command reopens the folder.
Reference: docs/annotate.md"""


@dataclass(frozen=True, kw_only=True)
class AnnotationSourceOptions:
    split: str | None = option("split of a dataset (default: its only one)", default=None, expert=True)
    images: Path | None = option("folder of the images (default: the one of SOURCE)", default=None, metavar="DIR")
    boxes: Path | None = option("boxes of the pictures, in our format or COCO's", default=None, metavar="FILE.json")
    select: Literal["largest", "all"] = option(
        "boxes that get a region record: the 2 largest of each category without crowded ones, as in CODA-LM (default), "
        "or all",
        default="largest",
        expert=True,
    )
    ask: str = option(
        f"questions about each picture of a folder (default {ASKS})", default=ASKS, metavar="A,B", expert=True
    )
    limit: int | None = option("only the first N records", default=None, metavar="N", least=1, expert=True)
    lang: Literal["en", "zh"] | None = option(
        "language of the texts under review (default en)", default=None, identity="lang", expert=True
    )
    pre: str | None = option(
        "draft texts by a model (endpoint:MODEL@URL, openai:...) or from answers in FILE.jsonl",
        default=None,
        metavar="MODEL|FILE",
    )
    pre_coords: bool = option(
        "give marked objects to the drafting model by coordinates instead of a drawn box (CODA-LM Table 4)",
        default=False,
        expert=True,
    )


@dataclass(frozen=True, kw_only=True)
class QuestionCheckOptions:
    check: bool = option(
        "solve and judge multiple-choice questions instead of reviewing texts", default=False, identity="task"
    )
    sample: int | None = option(
        "number of questions, by the tasks' shares (default 400, as in AutoDrive-QA)", default=None, metavar="N",
        least=1, identity="n", expert=True,
    )  # fmt: skip
    seed: int | None = option("seed of the sample (default 0)", default=None, metavar="S", identity="seed", expert=True)


@dataclass(frozen=True, kw_only=True)
class AnnotationPageOptions:
    reviewer: str = option("name of the reviewer; can be entered on the page", default="", metavar="NAME")
    scale: Literal[5, 10] | None = option(
        "highest score; scores start at 1 (default 10)", default=None, identity="scale", expert=True
    )
    host: str = option("address to listen on (default 127.0.0.1: this machine only)", default="127.0.0.1")
    port: int = option(
        "port to listen on; 0 selects a free one (default 7861)", default=7861, least=0, most=65_535, metavar="P"
    )
    allow_host: str = option(
        "further names, separated by commas, that browsers may use for this page (default: its address and names)",
        default="", metavar="NAMES", expert=True,
    )  # fmt: skip
    no_page: bool = option("create the folder and the drafts, then exit", default=False, expert=True)


@dataclass(frozen=True, kw_only=True)
class AnnotateOptions(AnnotationSourceOptions, QuestionCheckOptions, AnnotationPageOptions):
    """`ad2 annotate page`."""

    source: str = option(
        "dataset of the data home, FILE.jsonl of records, a folder of pictures, or a study to vote on",
        metavar="SOURCE", positional=True, identity=("source", "sha256"),
    )  # fmt: skip
    out: Path | None = option(
        "annotation folder; contains records, drafts and decisions. Needed unless SOURCE is one, which is then opened "
        "again",
        default=None,
        metavar="DIR",
    )


MERGE = ExclusiveOptions()


@dataclass(frozen=True, kw_only=True)
class AnnotationExportOptions:
    """`ad2 annotate export`."""

    folder: Path = option("annotation folder, or study", metavar="DIR", positional=True)
    out: Path = option(
        "file of records to write; of a study: folder for ratings.jsonl and votes.jsonl", metavar="FILE.jsonl|DIR"
    )
    reviewer: str | None = option(
        "export only the decisions of this reviewer", default=None, metavar="NAME", exclusive=MERGE
    )
    merge: Literal["majority"] | None = option(
        "export the decisions of more than half of the reviewers who finished a record", default=None, exclusive=MERGE
    )
    runs: tuple[Path, ...] = option(
        "study: runs with the judge's marks, e.g. rescored ones (default: those that it was drawn from)",
        default=(), metavar="RUN", expert=True,
    )  # fmt: skip
    by: Literal["run", "mean-score"] = option(
        "study: the judge's winner if it has several runs, as in ad2 judge agree", default="run", expert=True
    )


@dataclass(frozen=True, kw_only=True)
class PreferenceSampleOptions:
    """`ad2 annotate sample`."""

    runs: tuple[Path, ...] = option("two or more run folders of ad2 eval", metavar="RUN", positional=True)
    out: Path = option("folder of the study to write", metavar="STUDY")
    n: int = option("records per task (default 100)", default=100, metavar="N", least=1)
    seed: int = option("of the sample and of the sides (default 0)", default=0)


@dataclass(frozen=True, kw_only=True)
class AnnotationResultOptions:
    """`ad2 annotate summary`."""

    folder: Path = option(metavar="DIR", positional=True)
    json: bool = option("print JSON", default=False)


GROUPS = {
    "source": (AnnotationSourceOptions,), "check of questions": (QuestionCheckOptions,),
    "page": (AnnotationPageOptions,),
}  # fmt: skip


def register(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "annotate", help="review records and vote on answers on a web page; export, agreement",
        description="Annotate pictures and review texts in a browser. Each action is saved before the next.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    add_command(parts, "page", page, AnnotateOptions, GROUPS, help="open the page (the default)")
    add_command(
        parts, "export", export, AnnotationExportOptions,
        help="write finished, complete records as JSON lines; of a study: votes and marks, and their consistency",
    )  # fmt: skip
    add_command(
        parts, "summary", summary, AnnotationResultOptions,
        help="agreement between reviewers, or results of a check of questions",
    )  # fmt: skip
    add_command(
        parts, "sample", sample, PreferenceSampleOptions, help="draw pairs of answers of runs for people to vote on"
    )
    _page_by_default(p)


def _page_by_default(p: argparse.ArgumentParser) -> None:
    """Make `page` the default: it is inserted if the first word is no part."""
    parse = p.parse_known_args

    def parse_known_args(args: Any = None, namespace: Any = None) -> Any:
        words = list(args or ())
        if words and words[0] not in (*PARTS, "-h", "--help"):
            words.insert(0, "page")
        return parse(words, namespace)

    p.parse_known_args = parse_known_args  # type: ignore[method-assign]


def page(options: AnnotateOptions) -> int:
    from lmms_eval_ad2.annotate.folder import is_folder, open_or_make
    from lmms_eval_ad2.annotate.pairwise_study import is_study
    from lmms_eval_ad2.annotate.project import open_project
    from lmms_eval_ad2.annotate.review_log import reviewer_name
    from lmms_eval_ad2.data.sample import BENCHMARKS, dataset_name, ensure_sample

    reviewer = reviewer_name(options.reviewer) if options.reviewer else ""
    if is_study(Path(options.source)):
        return _vote(options, reviewer)
    _refuse_combinations(options)
    out, request = _target(options)
    if request.source in map(dataset_name, BENCHMARKS):
        ensure_sample()  # before its first use
    if options.boxes and not is_folder(out):
        from lmms_eval_ad2.annotate.blank_records import read_boxes, selection_note

        show(selection_note(read_boxes(options.boxes), options.select))
    folder = open_or_make(out, request)
    show(f"{folder.path}: {len(folder)} records of {folder.about.source}, images in {folder.about.image_root}")
    if options.pre:
        _drafts(folder, options.pre, options.pre_coords)
    project = open_project(folder)
    if options.no_page:
        return 0
    from lmms_eval_ad2.annotate.page import serve

    serve_until_stopped(
        functools.partial(serve, project, reviewer=reviewer), host=options.host, port=options.port,
        allow_host=options.allow_host, visitors="see the pictures and change the texts",
        saved=f"all decisions are in {folder.path}",
    )  # fmt: skip
    return 0


def sample(options: PreferenceSampleOptions) -> int:
    from lmms_eval_ad2.annotate.pairwise_study import draw
    from lmms_eval_ad2.cli.rescore import find_run

    study = draw([find_run(run) for run in options.runs], options.out, n=options.n, seed=options.seed)
    for task, counts in study.drawn.items():
        few = "" if counts["items"] == options.n else f", fewer than {options.n}"
        show(f"{task}: {counts['items']} of {counts['common']} records{few}, {counts['pairs']} pairs of answers")
    show(f"study of {', '.join(study.runs)} -> {options.out}; vote: ad2 annotate page {options.out}")
    return 0


def _vote(options: AnnotateOptions, voter: str) -> int:
    """Open the page on which people vote on the pairs of a study."""
    from lmms_eval_ad2.annotate.votes import open_project, serve
    from lmms_eval_ad2.core.errors import Ad2Error

    page = {"source", *(field.name for field in dataclasses.fields(AnnotationPageOptions))} - {"scale", "no_page"}
    others = [field for field in dataclasses.fields(options) if field.name not in page]
    if given := [field.name for field in others if getattr(options, field.name) != field.default]:
        raise Ad2Error(f"{options.source} is a study: {given[0].replace('_', '-')} is not for votes; omit it")
    project = open_project(Path(options.source))
    show(f"{options.source}: {len(project.pairs)} pairs of answers, votes of {len(project.voters())} people")
    serve_until_stopped(
        functools.partial(serve, project, voter=voter), host=options.host, port=options.port,
        allow_host=options.allow_host, visitors="see the pictures and vote", saved=f"all votes are in {options.source}",
    )  # fmt: skip
    return 0


def _target(options: AnnotateOptions) -> tuple[Path, Any]:
    """The annotation folder and the request; SOURCE alone may be the folder, which is then opened again."""
    from lmms_eval_ad2.annotate.folder import QUESTIONS, is_folder, open_folder
    from lmms_eval_ad2.core.errors import Ad2Error

    request = _request(options)
    if options.out is not None:
        return options.out, request
    folder = Path(options.source)
    if not is_folder(folder):
        raise Ad2Error(
            f"--out is required: ad2 annotate {options.source} --out DIR; DIR is a new folder, or the one to continue "
            "(which can also be opened by its path alone: ad2 annotate DIR)"
        )
    about = open_folder(folder).about
    return folder, dataclasses.replace(request, source=about.source, check=about.task == QUESTIONS)


def _refuse_combinations(options: AnnotateOptions) -> None:
    from lmms_eval_ad2.core.errors import Ad2Error

    shown = {"pre": "--pre", "boxes": "--boxes", "scale": "--config scale"}
    if options.check and (given := [n for n in shown if getattr(options, n) is not None]):
        raise Ad2Error(f"{shown[given[0]]} is for the review of texts; --check has no use for it")
    if not options.check and (given := [n for n in ("sample", "seed") if getattr(options, n) is not None]):
        raise Ad2Error(f"--config {given[0]} is for the check of questions: add --check")


def _request(options: AnnotateOptions) -> Any:
    from lmms_eval_ad2.annotate.blank_records import ASKS
    from lmms_eval_ad2.annotate.folder import AnnotationRequest
    from lmms_eval_ad2.llm.settings import one_of

    asks = tuple(one_of(ask.strip(), ASKS, "kind in ask") for ask in options.ask.split(",") if ask.strip())
    same = [field.name for field in dataclasses.fields(AnnotationRequest) if field.name != "asks"]
    return AnnotationRequest(asks=asks, **{name: getattr(options, name) for name in same})


def _drafts(folder: AnnotationFolder, spec: str, coords: bool) -> None:
    from lmms_eval_ad2.annotate import drafts
    from lmms_eval_ad2.annotate.project import ACTIONS
    from lmms_eval_ad2.annotate.review_log import ReviewLog
    from lmms_eval_ad2.annotate.scene_notes import SceneNotes

    begun = {name for _, name in ReviewLog(folder.path / ACTIONS).states}
    summary = drafts.fill(folder, spec, begun, notes=SceneNotes(folder).of, coords=coords)
    show(summary.line())
    for code, detail in summary.details.items():
        if detail:
            show(f"  {code}, for example: {' '.join(detail.split())[:200]}")


def _open_project(path: Path) -> AnnotationProject:
    from lmms_eval_ad2.annotate.folder import open_folder
    from lmms_eval_ad2.annotate.project import AnnotationProject

    return AnnotationProject(open_folder(path))


def export(options: AnnotationExportOptions) -> int:
    """Return 0 if at least one record was written, else 1."""
    from lmms_eval_ad2.annotate.export import export as write
    from lmms_eval_ad2.annotate.pairwise_study import is_study
    from lmms_eval_ad2.core.errors import Ad2Error

    if is_study(options.folder):
        return _export_study(options)
    if options.runs or options.by != "run":
        raise Ad2Error(f"--config {'runs' if options.runs else 'by'}: is for studies; {options.folder} is none")
    project = _open_project(options.folder)
    done = write(project, options.out, reviewer=options.reviewer, merged=options.merge)
    show(f"{done.n} of {len(project.folder)} records -> {options.out}")
    for reason, count in done.left_out.most_common():
        show(f"  left out: {count} {reason}")
    show(f"  image paths are relative to {project.folder.about.image_root}")
    return 0 if done.n else 1


def _export_study(options: AnnotationExportOptions) -> int:
    from lmms_eval_ad2.annotate.pairwise_study import judged_answers, rating_rows, vote_rows
    from lmms_eval_ad2.annotate.votes import open_project
    from lmms_eval_ad2.cli.judge import print_agreement
    from lmms_eval_ad2.cli.rescore import find_run
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.judge import agreement, files

    if options.reviewer or options.merge:
        raise Ad2Error(f"{options.folder} is a study: its votes are exported by voter; omit --reviewer and --merge")
    project = open_project(options.folder)
    votes = project.human_votes()
    if not votes:
        raise Ad2Error(f"{options.folder} has no votes yet: ad2 annotate page {options.folder}")
    answers, judge = judged_answers(project.study, [find_run(run) for run in options.runs])
    files.write_rows(options.out / "ratings.jsonl", rating_rows(answers, judge))
    files.write_rows(options.out / "votes.jsonl", vote_rows(votes))
    n, voters = sum(len(one.votes) for one in votes), len(project.voters())
    show(f"{n} votes of {voters} people on {len(votes)} of {len(project.pairs)} pairs; judge: {judge}")
    print_agreement(agreement.compare(answers, votes, options.by), options.by, False)
    return 0


def summary(options: AnnotationResultOptions) -> int:
    """Print the agreement between reviewers of texts, or the results of a check of questions."""
    from lmms_eval_ad2.annotate import results
    from lmms_eval_ad2.annotate.folder import open_folder
    from lmms_eval_ad2.annotate.project import QuestionCheckProject, open_project
    from lmms_eval_ad2.cli.check_text import agreement_lines, summary_lines

    project = open_project(open_folder(options.folder))
    if isinstance(project, QuestionCheckProject):
        found = results.summary(project)
    else:
        found = {**results.agreement(project), "drafts": results.acceptance(project)}
    if options.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    for line in summary_lines(found) if isinstance(project, QuestionCheckProject) else agreement_lines(found):
        show(line)
    return 0
