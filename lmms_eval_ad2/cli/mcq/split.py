"""`ad2 mcq split`: divide a built set into training and test questions without a common scene."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show


@dataclass(frozen=True, kw_only=True)
class McqSplitOptions:
    """`ad2 mcq split`."""

    questions: Path = option("OUT/questions.jsonl of ad2 mcq build", metavar="FILE.jsonl", positional=True)
    test: float = option("share of the test questions (default 0.2)", default=0.2, metavar="SHARE")
    seed: int = option("seed of drawing the scenes (default 0)", default=0, metavar="S")
    out: Path | None = option(
        "folder of train.jsonl and test.jsonl (default: that of FILE)", default=None, metavar="DIR"
    )


def register(parts: Any) -> None:
    add_command(
        parts,
        "split",
        run,
        McqSplitOptions,
        help="divide a built set by scene into training and test questions",
    )


def run(options: McqSplitOptions) -> int:
    from lmms_eval_ad2.mcq.split import split

    folder = options.out or options.questions.parent
    done = split(options.questions, folder, test=options.test, seed=options.seed)
    for path, (questions, scenes) in ((done.train, done.n_train), (done.test, done.n_test)):
        show(f"{path}: {questions} questions of {scenes} scene{'s' if scenes != 1 else ''}")
    print("next:")
    for path in (done.train, done.test):
        images = options.questions.parent / "images"
        show(f"  ad2 data import autodrive_qa {path} --images {images} --split {path.stem}")
    return 0
