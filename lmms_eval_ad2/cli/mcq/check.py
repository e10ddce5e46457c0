"""`ad2 mcq check`: find faults and biases in a set of multiple-choice questions."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.core.options import add_command, option

if TYPE_CHECKING:
    from lmms_eval_ad2.core.records import Record
    from lmms_eval_ad2.llm.model import LanguageModel

EXAMPLES = """examples:
  without a model: duplicates, faulty options, biases of length, position and wording:
    ad2 mcq check out/rules
  an imported set, answered by a language model without the images, each question in four orders:
    ad2 mcq check autodrive_qa --llm endpoint:qwen3-8b@http://localhost:8000/v1 --config rotations=4 --out c.json
  correctness from 1 to 5 by an evaluator with the images, on 300 questions drawn by the seed:
    ad2 mcq check out/gpt4o --evaluator configs/mcq/openai.yaml --sample 300

exit code: 0 no faults, 1 invalid, duplicate or faulty rows, 2 nothing could be checked; biases are only warnings"""


@dataclass(frozen=True, kw_only=True)
class McqCheckOptions:
    """`ad2 mcq check`."""

    questions: str = option(
        "file in the layout of `ad2 data list autodrive_qa --layout`, output folder of ad2 mcq build, or imported set",
        metavar="FILE.jsonl|OUT|DATASET", positional=True,
    )  # fmt: skip
    split: str | None = option("split of DATASET", default=None, expert=True)
    images: Path | None = option("folder that image paths are relative to", default=None, metavar="DIR", expert=True)
    llm: str | None = option(
        "model that answers without the images (openai:..., FILE.yaml)", default=None, metavar="SPEC"
    )
    rotations: int = option("orders of the options for --llm (default 1)", default=1, metavar="N", least=1, expert=True)
    evaluator: str | None = option(
        "model that rates correctness from 1 to 5 with the images", default=None, metavar="SPEC"
    )
    views: Literal["asked", "front", "all"] = option("images shown to the evaluator", default="asked", expert=True)
    prompts: Path | None = option("own prompt of the evaluator", default=None, metavar="FILE.yaml", expert=True)
    sample: int | None = option("number of questions for the models (default: all)", default=None, metavar="N", least=1)
    seed: int = option("seed of the sample (default 0)", default=0, metavar="S", expert=True)
    out: Path | None = option("write the complete report", default=None, metavar="FILE.json")
    cache: Path | None = option(
        "cache of replies (default: FILE.json.sqlite of --out)", default=None, metavar="FILE", expert=True
    )
    json: bool = option("print the report as JSON", default=False)
    no_progress: bool = option("no progress bars", default=False, expert=True)


def register(parts: Any) -> None:
    add_command(
        parts,
        "check",
        run,
        McqCheckOptions,
        help="find duplicates, faulty options and biases in a set of multiple-choice questions",
        epilog=EXAMPLES,
    )


def run(options: McqCheckOptions) -> int:
    """Return 0 if no faults were found, else 1; raises Ad2Error for mistakes of the user."""
    from lmms_eval_ad2.cli.mcq.check_text import text
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.llm.model import read_model
    from lmms_eval_ad2.mcq import check
    from lmms_eval_ad2.storage.files import atomic_write_json

    if options.prompts is not None and not options.evaluator:
        raise Ad2Error("--config prompts replaces the evaluator's prompt: --evaluator is required too")
    # The models are read first, so that a missing key is reported before minutes of work.
    llm = read_model(options.llm) if options.llm else None
    evaluator = read_model(options.evaluator, owner="--evaluator") if options.evaluator else None
    source, images, folder = options.questions, options.images, Path(options.questions)
    if (folder / "questions.jsonl").is_file():  # an output folder of `ad2 mcq build`
        source, images = str(folder / "questions.jsonl"), images or folder / "images"
    questions = check.read(source, split=options.split, images=images)
    report = check.check(questions, progress=not options.no_progress)
    if llm or evaluator:
        _query_models(options, llm, evaluator, report, _drawn(options, questions.records), questions.image_root)
    report["warnings"] = check.warnings(report)
    if options.out:
        atomic_write_json(options.out, report, errors="backslashreplace")
    printed = json.dumps(report, ensure_ascii=False, indent=1) if options.json else text(report)
    print(printed.encode("utf-8", "backslashreplace").decode())  # JSON can contain half a surrogate pair
    return 1 if report["found"] else 0


def _drawn(options: McqCheckOptions, records: list[Record]) -> list[Record]:
    """The questions for the models, the same at every start."""
    if options.sample is None or options.sample >= len(records):
        return records
    chosen = set(random.Random(options.seed).sample(range(len(records)), options.sample))
    return [record for number, record in enumerate(records) if number in chosen]


def _query_models(
    options: McqCheckOptions, llm: LanguageModel | None, evaluator: LanguageModel | None, report: dict[str, Any],
    records: list[Record], image_root: Path,
) -> None:  # fmt: skip
    """Add the results of --llm and --evaluator to the report."""
    from lmms_eval_ad2.llm.cache import ReplyCache
    from lmms_eval_ad2.mcq.model_checks import rate, text_only
    from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts

    texts = McqPromptTexts.load(options.prompts)
    path = options.cache or (options.out.with_name(options.out.name + ".sqlite") if options.out else None)
    cache, progress = ReplyCache(path) if path else None, not options.no_progress
    if llm:
        report["text_only"] = text_only(records, llm, cache=cache, rotations=options.rotations, progress=progress)
    if evaluator:
        report["correctness"] = rate(
            records, image_root, evaluator, texts=texts, cache=cache, views=options.views, progress=progress
        )
