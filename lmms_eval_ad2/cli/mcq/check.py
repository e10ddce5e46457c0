"""`ad2 mcq check`: is a set of multiple-choice questions fit to measure with?"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmms_eval_ad2.llm.cache import ReplyCache
    from lmms_eval_ad2.llm.model import LanguageModel
    from lmms_eval_ad2.records import Record

EXAMPLES = """examples:
  without any model: duplicates, faulty options, biases of length, place and wording
    ad2 mcq check out/rules
  an imported set, asked of a language model without its images, each question in four orders:
    ad2 mcq check autodrive_qa --llm endpoint:qwen3-8b@http://localhost:8000/v1 --rotations 4 --out c.json
  correctness from 1 to 5 by an evaluator who sees the images, on 300 questions drawn by the seed:
    ad2 mcq check out/gpt4o --evaluator configs/mcq/openai.yaml --sample 300

exit code: 0 no row needs mending, 1 invalid, duplicate or faulty rows, 2 nothing could be checked; biases only warn"""


def register(parts: Any) -> None:
    p = parts.add_parser(
        "check", help="duplicates, biases, and answers without the image in a set of multiple choice",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    p.add_argument(
        "questions", metavar="FILE.jsonl|OUT|DATASET",
        help="ad2 data schema autodrive_qa; the OUT of ad2 mcq build; or an imported set",
    )  # fmt: skip
    p.add_argument("--split", help="which split of DATASET")
    p.add_argument("--images", type=Path, metavar="DIR", help="the folder that image paths are relative to")
    p.add_argument("--llm", metavar="SPEC", help="a model that answers without the images (openai:..., FILE.yaml)")
    p.add_argument("--rotations", type=int, default=1, metavar="N", help="orders of the options for --llm (default 1)")
    p.add_argument("--evaluator", metavar="SPEC", help="a model that sees the images and marks correctness, 1 to 5")
    p.add_argument(
        "--views", choices=("asked", "front", "all"), default="asked", help="images that the evaluator is shown"
    )
    p.add_argument("--prompts", type=Path, metavar="FILE.yaml", help="your own wording of the evaluator's prompt")
    p.add_argument("--sample", type=int, metavar="N", help="so many questions for the models (default: all)")
    p.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    p.add_argument("--out", type=Path, metavar="FILE.json", help="write the whole report")
    p.add_argument("--cache", type=Path, metavar="FILE", help="the models' replies (default: beside --out)")
    p.add_argument("--json", action="store_true", help="print the report as JSON")
    p.add_argument("--no-progress", action="store_true", help="no progress bars")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0 where nothing must be mended, else 1; what the user can mend is an Ad2Error."""
    from lmms_eval_ad2.cli.mcq.check_text import text
    from lmms_eval_ad2.mcq import check
    from lmms_eval_ad2.storage.files import atomic_write_json

    _refuse_wrong(args)
    models = _models(args)
    source, images = _built(args)
    questions = check.read(source, split=args.split, images=images)
    report = check.check(questions, progress=not args.no_progress)
    _ask(args, models, report, _drawn(args, questions.records), questions.image_root)
    report["warnings"] = check.warnings(report)
    if args.out:
        atomic_write_json(args.out, report, errors="backslashreplace")
    said = json.dumps(report, ensure_ascii=False, indent=1) if args.json else text(report)
    print(said.encode("utf-8", "backslashreplace").decode())  # half a surrogate pair, which JSON can spell
    return 1 if report["found"] else 0


def _refuse_wrong(args: argparse.Namespace) -> None:
    from lmms_eval_ad2.errors import Ad2Error

    for name in ("rotations", "sample"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise Ad2Error(f"--{name} {value}: 1 or more")
    if args.prompts is not None and not args.evaluator:
        raise Ad2Error("--prompts is the evaluator's wording: give --evaluator as well")


def _built(args: argparse.Namespace) -> tuple[str, Path | None]:
    """The questions and their images; the OUT of `ad2 mcq build` stands for both."""
    folder = Path(args.questions)
    if not (folder / "questions.jsonl").is_file():
        return args.questions, args.images
    return str(folder / "questions.jsonl"), args.images or folder / "images"


def _models(args: argparse.Namespace) -> tuple[LanguageModel | None, LanguageModel | None]:
    """--llm and --evaluator, before anything is read: a missing key must not cost the reader minutes."""
    from lmms_eval_ad2.llm.model import read_model

    return (
        read_model(args.llm) if args.llm else None,
        read_model(args.evaluator, owner="--evaluator") if args.evaluator else None,
    )


def _drawn(args: argparse.Namespace, records: list[Record]) -> list[Record]:
    """The questions for the models, the same at every start."""
    if args.sample is None or args.sample >= len(records):
        return records
    chosen = set(random.Random(args.seed).sample(range(len(records)), args.sample))
    return [record for number, record in enumerate(records) if number in chosen]


def _ask(
    args: argparse.Namespace, models: tuple[LanguageModel | None, LanguageModel | None], report: dict[str, Any],
    records: list[Record], image_root: Path,
) -> None:  # fmt: skip
    """Put into the report what models said, where any were named."""
    llm, evaluator = models
    if not (llm or evaluator):
        return
    from lmms_eval_ad2.mcq.rating import rate
    from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts
    from lmms_eval_ad2.mcq.text_only import text_only

    texts = McqPromptTexts.load(args.prompts)
    cache, progress = _cache(args), not args.no_progress
    if llm:
        report["text_only"] = text_only(records, llm, cache=cache, rotations=args.rotations, progress=progress)
    if evaluator:
        report["correctness"] = rate(
            records, image_root, evaluator, texts=texts, cache=cache, views=args.views, progress=progress
        )


def _cache(args: argparse.Namespace) -> ReplyCache | None:
    from lmms_eval_ad2.llm.cache import ReplyCache

    path = args.cache or (args.out.with_name(args.out.name + ".sqlite") if args.out else None)
    return ReplyCache(path) if path else None
