"""`ad2 mcq check`: is a set of multiple-choice questions fit to measure with?"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.options import add_command, option

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


@dataclass(frozen=True, kw_only=True)
class McqCheckOptions:
    """`ad2 mcq check`."""

    questions: str = option(
        "ad2 data schema autodrive_qa; the OUT of ad2 mcq build; or an imported set",
        metavar="FILE.jsonl|OUT|DATASET", positional=True,
    )  # fmt: skip
    split: str | None = option("which split of DATASET", default=None)
    images: Path | None = option("the folder that image paths are relative to", default=None, metavar="DIR")
    llm: str | None = option(
        "a model that answers without the images (openai:..., FILE.yaml)", default=None, metavar="SPEC"
    )
    rotations: int = option("orders of the options for --llm (default 1)", default=1, metavar="N", least=1)
    evaluator: str | None = option(
        "a model that sees the images and marks correctness, 1 to 5", default=None, metavar="SPEC"
    )
    views: Literal["asked", "front", "all"] = option("images that the evaluator is shown", default="asked")
    prompts: Path | None = option("your own wording of the evaluator's prompt", default=None, metavar="FILE.yaml")
    sample: int | None = option("so many questions for the models (default: all)", default=None, metavar="N", least=1)
    seed: int = option("of the sample (default 0)", default=0)
    out: Path | None = option("write the whole report", default=None, metavar="FILE.json")
    cache: Path | None = option("the models' replies (default: beside --out)", default=None, metavar="FILE")
    json: bool = option("print the report as JSON", default=False)
    no_progress: bool = option("no progress bars", default=False)


def register(parts: Any) -> None:
    add_command(
        parts,
        "check",
        run,
        McqCheckOptions,
        help="duplicates, biases, and answers without the image in a set of multiple choice",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(options: McqCheckOptions) -> int:
    """0 where nothing must be mended, else 1; what the user can mend is an Ad2Error."""
    from lmms_eval_ad2.cli.mcq.check_text import text
    from lmms_eval_ad2.mcq import check
    from lmms_eval_ad2.storage.files import atomic_write_json

    _refuse_wrong(options)
    models = _models(options)
    source, images = _built(options)
    questions = check.read(source, split=options.split, images=images)
    report = check.check(questions, progress=not options.no_progress)
    _ask(options, models, report, _drawn(options, questions.records), questions.image_root)
    report["warnings"] = check.warnings(report)
    if options.out:
        atomic_write_json(options.out, report, errors="backslashreplace")
    said = json.dumps(report, ensure_ascii=False, indent=1) if options.json else text(report)
    print(said.encode("utf-8", "backslashreplace").decode())  # half a surrogate pair, which JSON can spell
    return 1 if report["found"] else 0


def _refuse_wrong(options: McqCheckOptions) -> None:
    from lmms_eval_ad2.errors import Ad2Error

    if options.prompts is not None and not options.evaluator:
        raise Ad2Error("--prompts is the evaluator's wording: give --evaluator as well")


def _built(options: McqCheckOptions) -> tuple[str, Path | None]:
    """The questions and their images; the OUT of `ad2 mcq build` stands for both."""
    folder = Path(options.questions)
    if not (folder / "questions.jsonl").is_file():
        return options.questions, options.images
    return str(folder / "questions.jsonl"), options.images or folder / "images"


def _models(options: McqCheckOptions) -> tuple[LanguageModel | None, LanguageModel | None]:
    """--llm and --evaluator, before anything is read: a missing key must not cost the reader minutes."""
    from lmms_eval_ad2.llm.model import read_model

    return (
        read_model(options.llm) if options.llm else None,
        read_model(options.evaluator, owner="--evaluator") if options.evaluator else None,
    )


def _drawn(options: McqCheckOptions, records: list[Record]) -> list[Record]:
    """The questions for the models, the same at every start."""
    if options.sample is None or options.sample >= len(records):
        return records
    chosen = set(random.Random(options.seed).sample(range(len(records)), options.sample))
    return [record for number, record in enumerate(records) if number in chosen]


def _ask(
    options: McqCheckOptions, models: tuple[LanguageModel | None, LanguageModel | None], report: dict[str, Any],
    records: list[Record], image_root: Path,
) -> None:  # fmt: skip
    """Put into the report what models said, where any were named."""
    llm, evaluator = models
    if not (llm or evaluator):
        return
    from lmms_eval_ad2.mcq.rating import rate
    from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts
    from lmms_eval_ad2.mcq.text_only import text_only

    texts = McqPromptTexts.load(options.prompts)
    cache, progress = _cache(options), not options.no_progress
    if llm:
        report["text_only"] = text_only(records, llm, cache=cache, rotations=options.rotations, progress=progress)
    if evaluator:
        report["correctness"] = rate(
            records, image_root, evaluator, texts=texts, cache=cache, views=options.views, progress=progress
        )


def _cache(options: McqCheckOptions) -> ReplyCache | None:
    from lmms_eval_ad2.llm.cache import ReplyCache

    path = options.cache or (options.out.with_name(options.out.name + ".sqlite") if options.out else None)
    return ReplyCache(path) if path else None
