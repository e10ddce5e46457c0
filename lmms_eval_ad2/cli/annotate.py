"""`ad2 annotate`: human review of records on a web page, export of the decisions, agreement between reviewers."""

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

PARTS = ("page", "export", "agreement", "summary")
ASKS = "general,suggestion,region,chain"
EXAMPLES = """examples:
  ad2 annotate sample_coda_lm --out notes                         review a dataset of the data home
  ad2 annotate reviewed.jsonl --images pictures --out notes       review a file of records
  ad2 annotate pictures --boxes boxes.json --out notes            annotate pictures that have no texts yet
  ad2 annotate pictures --out notes --pre endpoint:qwen2.5-vl@http://127.0.0.1:8000/v1
  ad2 annotate export notes --out records.jsonl --merge majority
  ad2 annotate summary notes
  ad2 annotate autodrive_qa --check --out checked                 people solve and judge 400 multiple-choice questions
  ad2 annotate summary checked

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
        "dataset of the data home, FILE.jsonl of records, or a folder of pictures", metavar="SOURCE", positional=True,
        identity=("source", "sha256"),
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

    folder: Path = option(metavar="DIR", positional=True)
    out: Path = option("file of records to write", metavar="FILE.jsonl")
    reviewer: str | None = option(
        "export only the decisions of this reviewer", default=None, metavar="NAME", exclusive=MERGE
    )
    merge: Literal["majority"] | None = option(
        "export the decisions of more than half of the reviewers who finished a record", default=None, exclusive=MERGE
    )


@dataclass(frozen=True, kw_only=True)
class AnnotationResultOptions:
    """`ad2 annotate summary` and `ad2 annotate summary`."""

    folder: Path = option(metavar="DIR", positional=True)
    json: bool = option("print JSON", default=False)


GROUPS = {
    "source": (AnnotationSourceOptions,), "check of questions": (QuestionCheckOptions,),
    "page": (AnnotationPageOptions,),
}  # fmt: skip


def register(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "annotate", help="review and annotate records on a web page; export, agreement",
        description="Annotate pictures and review texts in a browser. Each action is saved before the next.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    add_command(parts, "page", page, AnnotateOptions, GROUPS, help="open the page (the default)")
    add_command(parts, "export", export, AnnotationExportOptions, help="write finished, complete records as JSON lines")
    add_command(parts, "agreement", agreement, AnnotationResultOptions, help="agreement between reviewers")
    add_command(parts, "summary", summary, AnnotationResultOptions, help="results of a check of questions by people")
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
    from lmms_eval_ad2.annotate.project import open_project
    from lmms_eval_ad2.annotate.review_log import reviewer_name
    from lmms_eval_ad2.data.sample import BENCHMARKS, dataset_name, ensure_sample

    reviewer = reviewer_name(options.reviewer) if options.reviewer else ""
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

    project = _open_project(options.folder)
    done = write(project, options.out, reviewer=options.reviewer, merged=options.merge)
    show(f"{done.n} of {len(project.folder)} records -> {options.out}")
    for reason, count in done.left_out.most_common():
        show(f"  left out: {count} {reason}")
    show(f"  image paths are relative to {project.folder.about.image_root}")
    return 0 if done.n else 1


def agreement(options: AnnotationResultOptions) -> int:
    from lmms_eval_ad2.annotate.results import acceptance
    from lmms_eval_ad2.annotate.results import agreement as measure

    project = _open_project(options.folder)
    found = {**measure(project), "drafts": acceptance(project)}
    if options.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    for line in _lines(found):
        show(line)
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    from lmms_eval_ad2.cli.check_text import number

    scores, verdicts, changes = found["scores"], found["verdicts"], found["changes"]
    lines = ["finished: " + (", ".join(f"{reviewer} {n}" for reviewer, n in found["finished"].items()) or "none")]
    lines.append(
        f"scores ({found['scale'][0]}-{found['scale'][1]}): {scores['units']} texts, "
        f"{scores['units_by_two_or_more']} by two or more; Krippendorff's alpha "
        f"{number(scores['alpha_interval'])} (interval), {number(scores['alpha_ordinal'])} (ordinal)"
    )
    for name, part in (("keep / change / delete", verdicts), ("complete / incomplete", found["complete"])):
        lines.append(
            f"{name}: {part['units_by_two_or_more']} by two or more, {_share(part['same'])} of pairs alike, "
            f"alpha {number(part['alpha_nominal'])} (nominal)"
        )
    lines.append(
        f"changed by two or more: {changes['units_by_two_or_more']} texts, similarity {number(changes['similarity'])}"
    )
    for pair in found["pairs"]:
        kappa, rho, gap = (number(pair[name]) for name in ("kappa_quadratic", "spearman", "mean_difference"))
        lines.append(
            f"{' - '.join(pair['reviewers'])}: {pair['scores']} scores, weighted kappa {kappa} (quadratic), Spearman "
            f"{rho}, mean difference {gap}; {pair['verdicts']} verdicts, {_share(pair['same_verdict'])} alike"
        )
    return lines + _draft_lines(found["drafts"])


def _draft_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Our shares of accepted drafts, and below those of regions the paper's."""
    from lmms_eval_ad2.report import published

    lines = [
        f"drafts of {row['task']} by {row['author']}: {row['accepted']} of {row['reviewed']} reviews accepted them "
        f"unchanged ({_share(row['share'])})"
        for row in rows
    ]
    if any(row["task"] == "region" for row in rows):
        table = published.table("coda_lm", 4)
        figures = ", ".join(f"{row.labels['prompt']} {row.values['recall']:g} %" for row in table.rows)
        lines.append(f"  {table.source}: {figures} (GPT-4V, 100 images; its requirements are not defined)")
    return lines


def summary(options: AnnotationResultOptions) -> int:
    from lmms_eval_ad2.annotate.folder import open_folder
    from lmms_eval_ad2.annotate.project import QuestionCheckProject
    from lmms_eval_ad2.annotate.results import summary as results
    from lmms_eval_ad2.cli.check_text import summary_lines

    found = results(QuestionCheckProject(open_folder(options.folder)))
    if options.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    for line in summary_lines(found):
        show(line)
    return 0


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
