"""`lmms_eval_ad2.evaluate`: the open-loop tasks as a function (docs/training-loop.md).

The scores are those of `ad2 eval` with the same model and options.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.coordinates import ENV as FRAME_ENV
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import environment_number
from lmms_eval_ad2.report.runs import RunSummary, TaskSummary
from lmms_eval_ad2.storage.training_card import STRICT_ENV

if TYPE_CHECKING:
    from lmms_eval.api.model import lmms

    from lmms_eval_ad2.harness.models.engine_model import AnswerFunction


@dataclass(frozen=True)
class EvaluationResult:
    """A finished evaluation.

    `folder`: of its answers, samples and summary.json; None if it was temporary. `about`: model, judge, data, versions
    (the block "run" of summary.json). `tasks`: the table of each task. `table`: the text that `ad2 eval` prints.
    """

    folder: Path | None
    about: Mapping[str, Any]
    tasks: Mapping[str, TaskSummary]
    table: str

    @property
    def scores(self) -> dict[str, float | None]:
        """The main score of each task under the benchmark's own rules, in percent; None: it could not be scored."""
        return {name: task.score.official for name, task in self.tasks.items()}

    def __str__(self) -> str:
        return self.table


def evaluate(
    model: str | lmms | AnswerFunction,
    tasks: str | Sequence[str] = "ad2_*",
    *,
    model_args: str = "",
    out: Path | str | None = None,
    name: str | None = None,
    judge: str | None = None,
    judge_repeats: int | None = None,
    judge_images: bool = False,
    frame: str | None = None,
    prompts: Path | str | None = None,
    limit: float | None = None,
    repeats: int = 1,
    batch_size: int = 1,
    device: str | None = None,
    gen_kwargs: Mapping[str, Any] | str | None = None,
    strict_contamination: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> EvaluationResult:
    """Evaluate a model on open-loop tasks. May be called any number of times in one process.

    model: the name of an lmms-eval model (loaded with `model_args`, and again in each call); a loaded model object of
    lmms-eval; or a function that answers prompts, `answer(prompts, settings) -> texts`, with at most `batch_size`
    ModelPrompt (`text`, `images`: PIL images) and the task's GenerationSettings. Objects and functions stay loaded.
    tasks: names, wildcards and groups, as in `ad2 eval --tasks`.
    out: folder of answers and scores, as `ad2 eval --out`; None: a temporary one. name: of an object or function and
    its weights, e.g. "mine-step500"; answers that `out` has of that name are not requested again. Without a name each
    call asks all questions.
    gen_kwargs: generation settings that replace the tasks' own, {"max_new_tokens": 64} or "max_new_tokens=64"; as
    lmms-eval's --gen_kwargs. progress: called with (answers, requests) after each batch, instead of a bar.
    judge, judge_repeats, judge_images, frame, prompts, limit, repeats, device, strict_contamination: as in `ad2 eval`.

    Under torchrun all ranks call it, with `out`, and with `name` for an object or a function.
    Raises Ad2Error for a mistake of the user, and if every request failed. Random number generators keep their state.
    """
    from lmms_eval_ad2.harness.library import run_tasks

    if environment_number("WORLD_SIZE", 1) > 1 and (out is None or not (name or isinstance(model, str))):
        raise Ad2Error("evaluate under torchrun: give `out`, and `name` for a model object or function: ranks share it")
    with contextlib.ExitStack() as held:
        base = Path(out) if out else Path(held.enter_context(tempfile.TemporaryDirectory(prefix="ad2_eval_")))
        folder = run_tasks(
            model,
            tasks if isinstance(tasks, str) else ",".join(tasks),
            model_args=model_args,
            out=base,
            name=name,
            limit=limit,
            repeats=repeats,
            batch_size=batch_size,
            device=device,
            gen_kwargs=_generation_text(gen_kwargs),
            progress=progress,
            settings={
                "AD2_JUDGE": judge,
                "AD2_JUDGE_REPEATS": str(judge_repeats) if judge_repeats else None,
                "AD2_JUDGE_IMAGES": "1" if judge_images else None,
                "AD2_PROMPTS": str(prompts) if prompts else None,
                FRAME_ENV: frame,
                STRICT_ENV: "1" if strict_contamination else None,
            },
        )
        return _result(folder, kept=out is not None)


def _generation_text(gen_kwargs: Mapping[str, Any] | str | None) -> str:
    """The settings as lmms-eval's command line has them."""
    if isinstance(gen_kwargs, Mapping):
        return ",".join(f"{name}={value}" for name, value in gen_kwargs.items())
    return gen_kwargs or ""


def _result(folder: Path, kept: bool) -> EvaluationResult:
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.report import tables

    run: RunSummary = report.load([folder])[0]
    table = tables.render(report.with_floors([run]))
    return EvaluationResult(folder if kept else None, run.about, run.tasks, table)
