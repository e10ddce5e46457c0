"""`ad2 mcq split` and `ad2 mcq options`: files of questions derived from files of questions.

split: a built set divided into training and test questions without a common scene. options: options A to F added to
the open questions of an AD2-Bench file, so that it has both forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

OPTIONS_EXAMPLES = """examples:
    ad2 mcq options records.jsonl --images images --llm openai:gpt-4o-2024-11-20 --out both.jsonl
    ad2 data import ad2_bench both.jsonl --images images

Three hard distractors come from the model (or --llm rules), E and F are those of the paper (A.1). Options are English;
tasks in Chinese ask such a row as an open question. Rows with options, and those that are not free text, are copied.

exit code: 0 no request failed, 1 the endpoint failed for some rows (the same command asks only those again),
2 invalid arguments"""


@dataclass(frozen=True, kw_only=True)
class McqOptionsOptions:
    """`ad2 mcq options`."""

    source: Path = option("rows of ad2 data list ad2_bench --layout", metavar="FILE.jsonl", positional=True)
    out: Path = option("file of the rows with both forms", metavar="FILE.jsonl")
    images: Path | None = option("folder of the images (default: that of FILE)", default=None, metavar="DIR")
    llm: str = option("rules (offline), openai:MODEL, endpoint:MODEL@URL or FILE.yaml (configs/mcq/)", metavar="SPEC")
    distractors: str = option("all (default), naive, or one error category", default="all", metavar="KIND")
    seed: int = option("seed of the order of the options (default 0)", default=0, metavar="S")
    cache: Path | None = option("cache of replies (default: OUT.sqlite)", default=None, metavar="FILE")
    no_progress: bool = option("no progress bar", default=False)


@dataclass(frozen=True, kw_only=True)
class McqSplitOptions:
    """`ad2 mcq split`."""

    questions: Path = option("OUT/questions.jsonl of ad2 mcq build", metavar="FILE.jsonl", positional=True)
    test: float = option("share of the test questions (default 0.2)", default=0.2, metavar="SHARE")
    seed: int = option("seed of drawing the scenes (default 0)", default=0, metavar="S")
    out: Path | None = option(
        "folder of train.jsonl and test.jsonl (default: that of FILE)", default=None, metavar="DIR"
    )


def register_split(parts: Any) -> None:
    add_command(
        parts, "split", run_split, McqSplitOptions, help="divide a built set by scene into training and test questions"
    )


def register_options(parts: Any) -> None:
    add_command(
        parts, "options", run_options, McqOptionsOptions, epilog=OPTIONS_EXAMPLES,
        help="add options A to F to the open questions of an AD2-Bench file",
    )  # fmt: skip


def run_split(options: McqSplitOptions) -> int:
    from lmms_eval_ad2.mcq.split import split

    folder = options.out or options.questions.parent
    done = split(options.questions, folder, test=options.test, seed=options.seed)
    for path, (questions, scenes) in done.items():
        show(f"{path}: {questions} questions of {scenes} scene{'s' if scenes != 1 else ''}")
    print("next:")
    for path in done:
        images = options.questions.parent / "images"
        show(f"  ad2 data import autodrive_qa {path} --images {images} --split {path.stem}")
    return 0


def run_options(options: McqOptionsOptions) -> int:
    from lmms_eval_ad2.mcq.both_forms import add_options
    from lmms_eval_ad2.mcq.makers import make_maker

    maker = make_maker(
        options.llm,
        kind=options.distractors,
        seed=options.seed,
        cache=options.cache or options.out.with_suffix(".sqlite"),
        progress=not options.no_progress,
    )
    counts = add_options(options.source, options.out, maker, images=options.images, seed=options.seed)
    why = ", ".join(f"{number} {reason}" for reason, number in sorted(counts.rejected.items()))
    show(f"{options.out}: {counts.made} rows with options added, {counts.copied} copied unchanged")
    if why:
        show(f"rejected: {why}")
    if counts.failed:
        show(f"{counts.failed} rows failed with the endpoint; the same command asks them again")
    return 1 if counts.failed else 0
