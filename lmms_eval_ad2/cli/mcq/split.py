"""`ad2 mcq split`: training and test questions of a built set, no scene in both."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(parts: Any) -> None:
    p = parts.add_parser("split", help="divide a built set by scene, for fine-tuning and for the test of it")
    p.add_argument("questions", type=Path, metavar="FILE.jsonl", help="OUT/questions.jsonl of ad2 mcq build")
    p.add_argument("--test", type=float, default=0.2, metavar="SHARE", help="of the questions (default 0.2)")
    p.add_argument("--seed", type=int, default=0, metavar="S", help="which scenes (default 0)")
    p.add_argument("--out", type=Path, metavar="DIR", help="for train.jsonl and test.jsonl (default: beside FILE)")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from lmms_eval_ad2.mcq.split import split

    folder = args.out or args.questions.parent
    done = split(args.questions, folder, test=args.test, seed=args.seed)
    for path, (questions, scenes) in ((done.train, done.n_train), (done.test, done.n_test)):
        print(f"{path}: {questions} questions of {scenes} scene{'s' if scenes != 1 else ''}")
    print("next:")
    for path in (done.train, done.test):
        images = args.questions.parent / "images"
        print(f"  ad2 data import autodrive_qa {path} --images {images} --split {path.stem}")
    return 0
