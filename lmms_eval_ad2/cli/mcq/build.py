"""`ad2 mcq build`: multiple-choice questions from DriveLM, NuScenes-QA, LingoQA or a file of records."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.mcq.build import McqBuildJob
    from lmms_eval_ad2.mcq.output_files import McqBuildResult
    from lmms_eval_ad2.mcq.sources import QuestionSource

EXAMPLES = """examples:
  offline, by rules, all questions of a DriveLM file:
    ad2 mcq build --source drivelm=v1_1_train_nus.json --images nuscenes --llm rules --out out/rules
  the paper's mixture, from imported data, by a model on your own server (vllm serve ...):
    ad2 mcq build --source drivelm:train --source nuscenes_qa:val --source lingoqa:train \\
        --mix drivelm=0.6,nuscenes_qa=0.2,lingoqa=0.2 --tasks perception=0.4,prediction=0.3,planning=0.3 \\
        --total 15400 --llm configs/mcq/local_vllm.yaml --out out/autodrive_qa
  both training files of LingoQA, from the folder that contains action/ and scenery/:
    ad2 mcq build --source lingoqa:train=LingoQA --llm rules --out out/lingoqa
  an estimate of the cost: ten questions; the same command without --limit continues:
    ad2 mcq build --source drivelm:train --llm openai:gpt-4o-2024-11-20 --out out/gpt4o --limit 10
  options A to F for the open questions of an AD2-Bench file:
    ad2 mcq build --source ad2_bench=records.jsonl --images images --llm openai:gpt-4o-2024-11-20 --out both
  the same questions with distractors made without error modelling (Table 8):
    ad2 mcq build --source drivelm:train --total 3000 --llm configs/mcq/openai.yaml --distractors naive --out out/naive

Each finished question is saved at once: after Ctrl-C or a crash the same command resumes and repeats no request.
docs/mcq.md describes the stages and the layout of DIR.

exit code: 0 all questions were made, 1 some are missing (endpoint failures, or too few questions in the sources),
2 invalid arguments, 130 Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class McqSourceOptions:
    source: tuple[str, ...] = option(
        "drivelm, nuscenes_qa, lingoqa (imported data, or a release at =PATH), or records=FILE; may be repeated; or "
        "alone ad2_bench=FILE: options A to F are added to its open questions",
        metavar="NAME[:SPLIT][=PATH]", repeated=True, identity=("sources", "plan"),
    )  # fmt: skip
    split: tuple[str, ...] = option(
        "split of a source that has several",
        default=(),
        metavar="[NAME=]SPLIT",
        repeated=True,
        identity="sources",
        expert=True,
    )
    images: tuple[str, ...] = option("folder of a source's images", default=(), metavar="[NAME=]DIR", repeated=True)
    skip_bad: bool = option("continue after bad rows of a source; they are counted", default=False, expert=True)
    total: int | None = option(
        "number of questions (default: all)", default=None, metavar="N", least=1, identity="plan"
    )
    mix: str | None = option(
        "shares of the sources, e.g. drivelm=0.6,lingoqa=0.4", default=None, metavar="NAME=SHARE,...",
        identity="plan",
    )  # fmt: skip
    tasks: str | None = option(
        "shares of perception, prediction and planning", default=None, metavar="TASK=SHARE,...", identity="plan"
    )
    seed: int = option(
        "seed of drawing and shuffling (default 0)", default=0, metavar="S", identity=("seed", "plan"), expert=True
    )


@dataclass(frozen=True, kw_only=True)
class McqMakerOptions:
    llm: str = option(
        "rules (offline), openai:MODEL, endpoint:MODEL@URL or FILE.yaml (configs/mcq/)", metavar="SPEC",
        identity="maker",
    )  # fmt: skip
    evaluator: str | None = option(
        "another model for the last stage (default: that of --llm)",
        default=None,
        metavar="SPEC",
        identity="maker",
        expert=True,
    )
    distractors: str = option(
        "all (default), naive (no error modelling), or one error category", default="all", metavar="KIND",
        identity=("distractors", "maker"),
    )  # fmt: skip
    n: int = option("proposals per category (default 6)", default=6, metavar="N", identity="maker", expert=True)
    rounds: int = option(
        "maximum refinements of an ambiguous set (default 3)", default=3, metavar="N", identity="maker", expert=True
    )
    threshold: int = option("minimum correctness (default 4)", default=4, metavar="1-5", identity="maker", expert=True)
    views: Literal["asked", "front", "all"] = option(
        "images shown to the model", default="asked", identity="maker", expert=True
    )
    prompts: Path | None = option(
        "own prompts (docs/mcq.md)", default=None, metavar="FILE.yaml", identity="maker", expert=True
    )
    cache: Path | None = option(
        "cache of replies (default: DIR/replies.sqlite)", default=None, metavar="FILE", expert=True
    )


@dataclass(frozen=True, kw_only=True)
class McqBuildOptions(McqSourceOptions, McqMakerOptions):
    """`ad2 mcq build`."""

    out: Path = option("output folder; the same command resumes in it", metavar="DIR")
    test: float | None = option(
        "when all questions are made, also write train.jsonl and test.jsonl with this share of test questions, drawn "
        "by the seed and without a scene in both", default=None, metavar="SHARE", least=0.0001, most=0.9999,
        expert=True,
    )  # fmt: skip
    limit: int | None = option("process at most N questions now, then stop", default=None, metavar="N", least=1)
    no_progress: bool = option("no progress bar", default=False, expert=True)


BOTH_FORMS = "ad2_bench="  # the source whose rows get options

GROUPS = {"questions": (McqSourceOptions,), "distractors": (McqMakerOptions,)}


def register(parts: Any) -> None:
    add_command(
        parts,
        "build",
        run,
        McqBuildOptions,
        GROUPS,
        help="make multiple-choice questions from open ones, by a model or by rules",
        epilog=EXAMPLES,
    )


def run(options: McqBuildOptions) -> int:
    """Return 0 if all questions were made, 1 if some are missing; raises Ad2Error for mistakes of the user."""
    from lmms_eval_ad2.mcq.build import build

    if BOTH_FORMS in options.source[0]:
        return _add_options(options)
    job = job_of(options)
    result = build(job)
    show(summary(result, job.out))
    if options.test is not None and not (result.unfinished or result.left):
        _divide(result.questions, options.test, options.seed)
    return 1 if result.unfinished or result.short or not result.card["counts"]["n"] else 0


def _divide(questions: Path, test: float, seed: int) -> None:
    """Write train.jsonl and test.jsonl next to the questions, and print how they are imported."""
    from lmms_eval_ad2.mcq.split import split

    done = split(questions, questions.parent, test=test, seed=seed)
    for path, (number, scenes) in done.items():
        show(f"{path}: {number} questions of {scenes} scene{'s' if scenes != 1 else ''}")
    for path in done:
        images = shlex.quote(str(questions.parent / "images"))
        show(f"  ad2 data import autodrive_qa {shlex.quote(str(path))} --images {images} --split {path.stem}")


def _add_options(options: McqBuildOptions) -> int:
    """Add options A to F to the open questions of an AD2-Bench file, so that its rows have both forms.

    Return 0 if no request failed, else 1: the same command asks only those again.
    """
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.mcq.both_forms import add_options
    from lmms_eval_ad2.mcq.makers import make_maker

    used = {"source", "images", "llm", "distractors", "seed", "cache", "out", "no_progress"}
    unused = [field for field in dataclasses.fields(options) if field.name not in used]
    if given := [field.name for field in unused if getattr(options, field.name) != field.default]:
        raise Ad2Error(f"--source {BOTH_FORMS}FILE: {given[0].replace('_', '-')} is for sets of questions; omit it")
    if len(options.source) > 1 or len(options.images) > 1 or not options.source[0].startswith(BOTH_FORMS):
        raise Ad2Error(f"--source {BOTH_FORMS}FILE: one file, with at most one --images")
    maker = make_maker(
        options.llm, kind=options.distractors, seed=options.seed, cache=options.cache or options.out / "replies.sqlite",
        progress=not options.no_progress,
    )  # fmt: skip
    source, out = Path(options.source[0].removeprefix(BOTH_FORMS)), options.out / "rows.jsonl"
    images = Path(options.images[0]) if options.images else None
    counts = add_options(source, out, maker, images=images, seed=options.seed)
    show(f"{out}: {counts.made} rows with options added, {counts.copied} copied unchanged")
    if why := _pairs(dict(sorted(counts.rejected.items()))):
        show(f"rejected: {why}")
    if counts.failed:
        show(f"{counts.failed} rows failed with the endpoint; the same command asks them again")
    return 1 if counts.failed else 0


def job_of(options: McqBuildOptions) -> McqBuildJob:
    """Return the job; raises Ad2Error for wrong arguments before the sources are read."""
    from lmms_eval_ad2.mcq.build import McqBuildJob
    from lmms_eval_ad2.mcq.makers import make_maker
    from lmms_eval_ad2.mcq.question_plan import parse_shares, plan
    from lmms_eval_ad2.mcq.sources import survey
    from lmms_eval_ad2.mcq.taxonomy import TASKS

    maker = make_maker(
        options.llm, kind=options.distractors, n=options.n, rounds=options.rounds, threshold=options.threshold,
        seed=options.seed, prompts=options.prompts, evaluator=options.evaluator,
        cache=options.cache or options.out / "replies.sqlite", views=options.views, progress=False,
    )  # fmt: skip
    sources = _sources(options)
    mix = parse_shares(options.mix, [source.name for source in sources]) if options.mix is not None else None
    tasks = parse_shares(options.tasks, TASKS) if options.tasks is not None else None
    progress = not options.no_progress
    surveyed = survey(sources, unsuited=maker.unsuited, progress=progress)
    drawn = plan(surveyed, mix=mix, tasks=tasks, total=options.total, seed=options.seed)
    return McqBuildJob(
        tuple(sources), surveyed, drawn, maker, options.out, seed=options.seed, kind=options.distractors,
        limit=options.limit, progress=progress,
    )  # fmt: skip


def _sources(options: McqBuildOptions) -> list[QuestionSource]:
    from lmms_eval_ad2.mcq.sources import check_names, open_source

    names = [spec.partition("=")[0].partition(":")[0].strip() for spec in options.source]
    check_names(names)
    splits, images = _by_name("split", options.split, names), _by_name("images", options.images, names)
    folders = {name: Path(text) for name, text in images.items()}
    return [
        open_source(spec, split=splits.get(name), images=folders.get(name), skip_bad=options.skip_bad)
        for spec, name in zip(options.source, names, strict=True)
    ]


def _by_name(option: str, values: Sequence[str] | None, names: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` for one source, `VALUE` for all."""
    from lmms_eval_ad2.core.errors import Ad2Error

    found: dict[str, str] = {}
    for text in values or ():
        name, equals, value = text.partition("=")
        if equals and name not in names and "/" not in name:
            raise Ad2Error(f"--{option} {text}: no source '{name}' here; sources: {', '.join(names)}")
        named = bool(equals) and name in names
        for target in [name] if named else names:
            if named or target not in found:
                found[target] = value if named else text
    return found


def summary(result: McqBuildResult, out: Path) -> str:
    """The text printed at the end: questions made and missing with reasons, cost, next commands."""
    spent = _flat(result.card["account"])
    usage = [f"usage of all starts together: {spent}"] if spent else []
    return "\n".join([*_made(result.card), *_missing(result), *usage, *_next(result, out)])


def _made(card: Mapping[str, Any]) -> Iterator[str]:
    from lmms_eval_ad2.report.table import Table

    counts = card["counts"]
    yield f"{counts['n']} questions made by {card['maker']} (distractors: {card['kind']}, seed {card['seed']})"
    rows = []
    for task, number in counts["task"].items():
        rows.append((task, "all", number))
        rows += [
            (task, name.split("/", 1)[1], n) for name, n in counts["subtask"].items() if name.startswith(f"{task}/")
        ]
    if rows:
        yield Table(("task", "sub-task", "questions"), rows, "llr").plain(indent=2)
    if counts["category"]:
        yield f"distractors: {_pairs(counts['category'])}"
    if counts["correctness_mean"] is not None:
        yield f"correctness: mean {counts['correctness_mean']:.2f} of 5 ({_pairs(counts['correctness'])})"
    else:
        yield "correctness: not rated"


def _missing(result: McqBuildResult) -> Iterator[str]:
    card = result.card
    for source in card["sources"]:
        for key, title in (("unclassified", "not usable"), ("left_out", "left out by the reader")):
            if source.get(key):
                yield f"{source['name']}, {title}: {_pairs(source[key])}"
        if source.get("bad"):
            yield f"{source['name']}, bad rows skipped: {source['bad']}"
    replies = {name.removeprefix("reply_"): n for name, n in card["notes"].items() if name.startswith("reply_")}
    if replies:
        yield f"unusable replies: {_pairs(replies)}"
    if card["rejected"]:
        yield f"rejected: {_pairs(card['rejected'])} (rejected.jsonl)"
    for stratum in result.short:
        where = f"{stratum['source']}, {stratum['task']}/{stratum['subtask']}"
        yield f"too few: {where}: {stratum['made']} of {stratum['asked']}, the source has no more questions"


def _next(result: McqBuildResult, out: Path) -> Iterator[str]:
    card = result.card
    if result.unfinished:
        reasons = _pairs(card["unfinished"])
        failed = f"{result.unfinished} questions failed at the endpoint or got no usable reply ({reasons})"
        yield f"NOT FINISHED: {failed}: run the same command again"
    if result.left:
        yield f"{result.left} questions are not processed yet (--limit): the same command without it continues"
    yield f"written: {result.questions}, card.json, rejected.jsonl"
    if card["counts"]["n"]:
        name = "" if card["name"] == "autodrive_qa" else f" --as {card['name']}"
        questions, images = shlex.quote(str(result.questions)), shlex.quote(str(out / "images"))
        yield "next:"
        yield f"  ad2 mcq check {shlex.quote(str(out))}"
        yield f"  ad2 data import autodrive_qa {questions} --images {images} --split {card['split']}{name}"


def _pairs(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items())


def _flat(account: Mapping[str, Any], above: str = "") -> str:
    parts = []
    for name, value in account.items():
        if isinstance(value, Mapping):
            parts.append(_flat(value, f"{above}{name} "))
        elif value:
            parts.append(f"{above}{name} {value:g}" if isinstance(value, float) else f"{above}{name} {value}")
    return ", ".join(filter(None, parts))
