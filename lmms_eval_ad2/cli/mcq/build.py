"""`ad2 mcq build`: multiple choice from the open questions of DriveLM, NuScenes-QA, LingoQA or a file of records."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmms_eval_ad2.mcq.base import DistractorMaker
    from lmms_eval_ad2.mcq.build import McqBuildJob
    from lmms_eval_ad2.mcq.output_files import McqBuildResult
    from lmms_eval_ad2.mcq.question_plan import QuestionPlan
    from lmms_eval_ad2.mcq.sources import QuestionSource
    from lmms_eval_ad2.mcq.survey import SourceSurvey

EXAMPLES = """examples:
  offline, by rules, every question of a DriveLM file:
    ad2 mcq build --source drivelm=v1_1_train_nus.json --images nuscenes --llm rules --out out/rules
  the paper's mixture, from imported data, by a model of one's own server (vllm serve ...):
    ad2 mcq build --source drivelm:train --source nuscenes_qa:val --source lingoqa:train \\
        --mix drivelm=0.6,nuscenes_qa=0.2,lingoqa=0.2 --tasks perception=0.4,prediction=0.3,planning=0.3 \\
        --total 15400 --llm configs/mcq/local_vllm.yaml --out out/autodrive_qa
  both training files of LingoQA, action/ and scenery/, from the folder that holds them:
    ad2 mcq build --source lingoqa:train=LingoQA --llm rules --out out/lingoqa
  what would it cost? ten questions; without --limit the same command goes on:
    ad2 mcq build --source drivelm:train --llm openai:gpt-4o-2024-11-20 --out out/gpt4o --limit 10
  for Table 8, the same questions with distractors made without error modelling:
    ad2 mcq build --source drivelm:train --total 3000 --llm configs/mcq/openai.yaml --distractors naive --out out/naive

Every finished question is on disk at once: after Ctrl-C or a crash the same command goes on, and asks nothing twice.
The layout of OUT, and what each stage asks, stand in docs/mcq.md.

exit code: 0 all made, 1 some are missing (the endpoint failed, or the sources ran out), 2 nothing could be built as
asked, 130 Ctrl-C"""


def register(parts: Any) -> None:
    p = parts.add_parser(
        "build",
        help="make multiple choice from open questions, by a model or by rules",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _register_sources(p.add_argument_group("which questions"))
    _register_maker(p.add_argument_group("how they are made"))
    p.add_argument("--out", type=Path, required=True, metavar="DIR", help="the same command goes on in it")
    p.add_argument("--limit", type=int, metavar="N", help="ask at most N questions now, then stop")
    p.add_argument("--no-progress", action="store_true", help="no progress bar")
    p.set_defaults(func=run)


def _register_sources(which: Any) -> None:
    which.add_argument(
        "--source", action="append", required=True, metavar="NAME[:SPLIT][=PATH]",
        help="drivelm, nuscenes_qa, lingoqa: imported data, or a release at =PATH; records=FILE; repeat for more",
    )  # fmt: skip
    which.add_argument("--split", action="append", metavar="[NAME=]SPLIT", help="where a source has several")
    which.add_argument("--images", action="append", metavar="[NAME=]DIR", help="the folder of a source's images")
    which.add_argument("--skip-bad", action="store_true", help="go on after bad rows of a source; they are counted")
    which.add_argument("--total", type=int, metavar="N", help="how many questions (default: all)")
    which.add_argument("--mix", metavar="NAME=SHARE,...", help="shares of the sources, such as drivelm=0.6,lingoqa=0.4")
    which.add_argument("--tasks", metavar="TASK=SHARE,...", help="shares of perception, prediction and planning")
    which.add_argument("--seed", type=int, default=0, metavar="S", help="of drawing and of shuffling (default 0)")


def _register_maker(how: Any) -> None:
    how.add_argument(
        "--llm", required=True, metavar="SPEC",
        help="rules (offline), openai:MODEL, endpoint:MODEL@URL or FILE.yaml (configs/mcq/)",
    )  # fmt: skip
    how.add_argument("--evaluator", metavar="SPEC", help="another model for the last stage (default: the same)")
    how.add_argument(
        "--distractors", default="all", metavar="KIND",
        help="all (default), naive (no error modelling), or one error category alone",
    )  # fmt: skip
    how.add_argument("--n", type=int, default=6, metavar="N", help="proposals a category (default 6)")
    how.add_argument("--rounds", type=int, default=3, metavar="N", help="refinements of an ambiguous set (default 3)")
    how.add_argument("--threshold", type=int, default=4, metavar="1-5", help="least correctness (default 4)")
    how.add_argument(
        "--views", choices=("asked", "front", "all"), default="asked", help="images that the model is shown"
    )
    how.add_argument("--prompts", type=Path, metavar="FILE.yaml", help="your own wording (docs/mcq.md)")
    how.add_argument("--cache", type=Path, metavar="FILE", help="replies (default: DIR/replies.sqlite)")


def run(args: argparse.Namespace) -> int:
    """0 where all is made, 1 where something is missing; what the user can mend is an Ad2Error."""
    from lmms_eval_ad2.mcq.build import build
    from lmms_eval_ad2.sigterm import ended_by_sigterm

    job = job_of(args)
    with ended_by_sigterm():
        result = build(job)
    print(summary(result, job.out))
    return 1 if result.unfinished or result.short or not result.card["counts"]["n"] else 0


def job_of(args: argparse.Namespace) -> McqBuildJob:
    """Everything that can be wrong with the arguments is told here, before the sources are read."""
    from lmms_eval_ad2.mcq.build import McqBuildJob
    from lmms_eval_ad2.mcq.survey import survey

    _check(args)
    maker = _maker(args)
    sources = _sources(args)
    shares = _shares(args, [source.name for source in sources])
    surveyed = survey(sources, progress=not args.no_progress)
    return McqBuildJob(
        tuple(sources), surveyed, _plan(args, surveyed, *shares), maker, args.out, args.seed, args.distractors,
        args.limit, not args.no_progress,
    )  # fmt: skip


def _check(args: argparse.Namespace) -> None:
    """What the maker and the plan do not check themselves, or only after long reading."""
    from lmms_eval_ad2.errors import Ad2Error

    for name in ("total", "limit"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise Ad2Error(f"--{name} {value}: 1 or more")


def _maker(args: argparse.Namespace) -> DistractorMaker:
    from lmms_eval_ad2.mcq.maker_spec import make_maker

    return make_maker(
        args.llm, kind=args.distractors, n=args.n, rounds=args.rounds, threshold=args.threshold, seed=args.seed,
        prompts=args.prompts, evaluator=args.evaluator, cache=args.cache or args.out / "replies.sqlite",
        views=args.views, progress=False,
    )  # fmt: skip


def _sources(args: argparse.Namespace) -> list[QuestionSource]:
    from lmms_eval_ad2.mcq.sources import check_names, open_source

    names = [spec.partition("=")[0].partition(":")[0].strip() for spec in args.source]
    check_names(names)
    splits, images = _by_name("split", args.split, names), _by_name("images", args.images, names)
    return [
        open_source(
            spec, split=splits.get(name), images=Path(images[name]) if name in images else None, skip_bad=args.skip_bad
        )
        for spec, name in zip(args.source, names, strict=True)
    ]


def _by_name(option: str, values: Sequence[str] | None, names: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` for one source, `VALUE` for all."""
    from lmms_eval_ad2.errors import Ad2Error

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


def _shares(args: argparse.Namespace, names: Sequence[str]) -> tuple[dict[str, float] | None, dict[str, float] | None]:
    from lmms_eval_ad2.data.releases.autodrive_qa import TASKS
    from lmms_eval_ad2.mcq.question_plan import parse_shares

    return (
        parse_shares(args.mix, names) if args.mix is not None else None,
        parse_shares(args.tasks, TASKS) if args.tasks is not None else None,
    )


def _plan(args: argparse.Namespace, surveyed: SourceSurvey, mix: Any, tasks: Any) -> QuestionPlan:
    from lmms_eval_ad2.mcq.question_plan import plan

    return plan(surveyed, mix=mix, tasks=tasks, total=args.total, seed=args.seed)


# What `ad2 mcq build` says at its end: what was made, what was not and why, what it cost, what to type next.
def summary(result: McqBuildResult, out: Path) -> str:
    """A few lines, read off the card."""
    return "\n".join([*_made(result.card), *_missing(result), *_spent(result.card), *_next(result, out)])


def _made(card: Mapping[str, Any]) -> Iterator[str]:
    counts = card["counts"]
    yield f"{counts['n']} questions made by {card['maker']} (distractors: {card['kind']}, seed {card['seed']})"
    for task, number in counts["task"].items():
        yield f"  {task:<12}{number:>7}"
        for name, n in counts["subtask"].items():
            if name.startswith(f"{task}/"):
                yield f"    {name.removeprefix(task + '/'):<30}{n:>7}"
    if counts["category"]:
        yield f"distractors: {_pairs(counts['category'])}"
    if counts["correctness_mean"] is not None:
        yield f"correctness: mean {counts['correctness_mean']:.2f} of 5 ({_pairs(counts['correctness'])})"
    else:
        yield "correctness: nobody rated"


def _missing(result: McqBuildResult) -> Iterator[str]:
    card = result.card
    for source in card["sources"]:
        for what, said in (("unclassified", "cannot be used"), ("left_out", "left out by its reader")):
            if source.get(what):
                yield f"{source['name']}, {said}: {_pairs(source[what])}"
        if source.get("bad"):
            yield f"{source['name']}, bad rows skipped: {source['bad']}"
    if card["rejected"]:
        yield f"rejected: {_pairs(card['rejected'])} (rejected.jsonl)"
    for lot in result.short:
        where = f"{lot['source']}, {lot['task']}/{lot['subtask']}"
        yield f"short: {where}: {lot['made']} of {lot['asked']}, and no more questions in the source"


def _spent(card: Mapping[str, Any]) -> Iterator[str]:
    if spent := _flat(card["account"]):
        yield f"spent, all starts together: {spent}"


def _next(result: McqBuildResult, out: Path) -> Iterator[str]:
    card = result.card
    if result.unfinished:
        failed = f"{result.unfinished} questions failed with the endpoint ({_pairs(card['unfinished'])})"
        yield f"NOT FINISHED: {failed}: run the same command again"
    if result.left:
        yield f"{result.left} questions were not asked yet (--limit): the same command without it goes on"
    yield f"written: {result.questions}, card.md, card.json, rejected.jsonl"
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
