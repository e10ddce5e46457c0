"""Evaluate open vision-language models on one GPU: sample questions, demo routes, routes of embedded220, one report.

    scripts/first_hour.sh qwen25-3b=qwen2_5_vl,pretrained=/models/Qwen2.5-VL-3B-Instruct \\
        qwen3-4b=qwen3_vl,pretrained=/models/Qwen3-VL-4B-Instruct \\
        llava15-7b=llava_hf,pretrained=/models/llava-1.5-7b-hf --out runs/first-hour

NAME=WRAPPER,KEY=VALUE,...: a name for rows and folders, a model of lmms-eval, its arguments. batch_size, max_new_tokens
and temperature hold for questions and drives. After kill -9 or Ctrl-C the same command resumes. Exit code: 0 all
stages are finished, 1 a stage failed or was left out (named at the end), 2 wrong arguments, 130 Ctrl-C. See
docs/first-hour.md.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from first_hour_checks import absent_notes, check_commands, is_local
from stages import Stage, refuse_missing, run_stages

from closedloop_plugin.core.routes import Route
from closedloop_plugin.scenarios.suites.lookup import EMBEDDED, suite
from lmms_eval_ad2.core.command_errors import run_command
from lmms_eval_ad2.core.coordinates import FrameSetting
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_options, option, read_options
from lmms_eval_ad2.core.run_files import CommandParser
from lmms_eval_ad2.storage.local_weights import local_weights

MODEL_FILES = Path(__file__).resolve().parent.parent / "configs" / "models"
ENVIRONMENT = {"HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1")}
ANSWERERS = ("ad2_chance", "ad2_majority", "ad2_oracle")
SPEAKER = "speaking-expert"
DRIVERS = ("straight", "steer-only", "expert", SPEAKER)
GENERATION = ("max_new_tokens", "temperature")
ENGINES = ("vllm",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


@dataclass(frozen=True, kw_only=True)
class FirstHourOptions:
    """The command line."""

    models: tuple[str, ...] = option(
        "a name for rows and folders, a model of lmms-eval, its arguments; three, for example", positional=True,
        metavar="NAME=WRAPPER,KEY=VALUE,...",
    )  # fmt: skip
    out: Path = option(
        "folder of all results (default: runs/first-hour)", default=Path("runs/first-hour"), metavar="DIR"
    )
    device: str = option("cuda (default), cuda:N, cpu; none: no such argument for the wrapper", default="cuda")
    routes: int = option("routes of embedded220 (default 20)", default=20, metavar="N", least=0, most=220)
    workers: int = option("simulators in parallel (default 4)", default=4, metavar="W", least=1)
    decision_hz: float = option("decisions per second, of the models (default 2)", default=2.0, metavar="HZ")
    size: str = option("images of the drives (default 800x450)", default="800x450", metavar="WxH")
    tasks: str = option("questions (default: ad2demo_*)", default="ad2demo_*", metavar="TASK,...")
    no_baselines: bool = option("only the models", default=False)
    limit: int | None = option(
        "only N questions a task and N demo routes, for a trial", default=None, metavar="N", least=1
    )
    stop_after_unread: int | None = option(
        "as in `ad2 drive run`, whose default is 20; 0: never", default=None, metavar="N", least=0
    )
    dry_run: bool = option("only print the commands", default=False)


@dataclass(frozen=True)
class EvaluatedModel:
    """A model of the command line. arguments: those of lmms-eval's wrapper; generation: settings of GENERATION."""

    name: str
    wrapper: str
    arguments: dict[str, str]
    generation: dict[str, str] = field(default_factory=dict)
    batch_size: str = "1"
    frame: str | None = None  # of coordinates; None: the tasks' own

    @property
    def eval_words(self) -> list[str]:
        """Options of `ad2 eval`; --device is separate there."""
        given = {key: value for key, value in self.arguments.items() if key != "device"}
        words = ["--model", self.wrapper, "--model-args", _joined(given), "--batch-size", self.batch_size]
        if device := self.arguments.get("device"):
            words += ["--device", device]
        if self.frame:
            words += ["--frame", self.frame]
        return words

    @property
    def agent(self) -> str:
        """The value of --agent."""
        settings = {**self.arguments, **self.generation, "batch_size": self.batch_size}
        return f"lmms:{self.wrapper},{_joined(settings)}"


def model_of(text: str, device: str) -> EvaluatedModel:
    """From `NAME=WRAPPER,KEY=VALUE,...`. device: given to the wrapper, unless the text has one or it is "none"."""
    name, equals, rest = text.partition("=")
    wrapper, _, listed = rest.partition(",")
    if not equals or not _NAME.fullmatch(name) or not re.fullmatch(r"\w+", wrapper):
        raise Ad2Error(
            f"{text}: expected NAME=WRAPPER,pretrained=FOLDER[,KEY=VALUE...], NAME of letters, digits, . _ -"
        )
    pairs = [pair.partition("=") for pair in listed.split(",") if pair]
    if any(not key or not mark for key, mark, _ in pairs):
        raise Ad2Error(f"{text}: expected KEY=VALUE, separated by commas, after {wrapper}")
    given = {key: value for key, _, value in pairs}
    for key, value in given.items():
        if value.startswith("~"):
            raise Ad2Error(f"{name}: {key}={value}: the shell does not expand ~ here; write $HOME")
        if is_local(key, value) and not Path(value).exists():
            raise Ad2Error(f"{name}: {key}={value}: no such file or folder; docs/first-hour.md has the downloads")
    generation = {key: given.pop(key) for key in GENERATION if key in given}
    batch_size, frame = given.pop("batch_size", "1"), given.pop("frame", None) or frame_of(wrapper)
    if frame:
        FrameSetting.parse(frame, f"{name}: frame")
    places = {} if device == "none" else {"device": device, "device_map": device}
    return EvaluatedModel(name, wrapper, {**places, **given}, generation, batch_size, frame)


def frame_of(wrapper: str) -> str | None:
    """The coordinate frame of the wrapper's family, from configs/models/<wrapper>.yaml; None: the tasks' own.

    An engine loads models of any family.
    """
    file = MODEL_FILES / f"{wrapper}.yaml"
    if wrapper in ENGINES or not file.is_file():
        return None
    frame = yaml.safe_load(file.read_text("utf-8")).get("env", {}).get("AD2_FRAME")
    return None if frame is None else str(frame)


def spread(routes: Sequence[Route], count: int) -> list[Route]:
    """`count` routes, spread over the scenario types.

    Types in alphabetical order, routes of a type in the order of the file. Round k has of type number j its route
    number j + k (modulo their number), so that towns and weathers vary, too. The first rounds are taken whole, of the
    last one evenly spaced routes.
    """
    by_type: dict[str, list[Route]] = {}
    for route in routes:
        by_type.setdefault(route.scenario, []).append(route)
    types = [by_type[name] for name in sorted(by_type)]
    found: list[Route] = []
    for k in range(max(map(len, types))):
        one = [of_type[(j + k) % len(of_type)] for j, of_type in enumerate(types) if k < len(of_type)]
        taken = min(len(one), count - len(found))
        found += [one[i * len(one) // taken] for i in range(taken)]
    return found


def stages_of(options: FirstHourOptions, models: Sequence[EvaluatedModel]) -> list[Stage]:
    """All stages: baselines before models, questions before drives, the report last."""
    runs = options.out / "runs"
    limit = [] if options.limit is None else ["--limit", str(options.limit)]
    words = ["eval", "--tasks", options.tasks, "--judge", "lexical", "--config", "strict_requests=true", *limit]
    stages = [
        Stage(f"questions {name}", (*words, "--model", name, "--out", str(runs / name / "questions")))
        for name in ANSWERERS
        if not options.no_baselines
    ]
    for model in models:
        rest = ["--", "--gen_kwargs", _joined(model.generation)] if model.generation else []
        out = ["--out", str(runs / model.name / "questions")]
        stages.append(_stage(f"questions {model.name}", [*words, *model.eval_words, *out, *rest], model))
    stages += _drives("demo", ["--suite", "demo", *limit], options, models)
    if options.routes:
        selected, missing = _selected(options.routes)
        stages += _drives("routes", ["--suite", EMBEDDED, "--routes-ids", selected], options, models, missing)
    page = ("report", str(runs), "--html", str(options.out / "report.html"))
    return [*stages, Stage("report", page, repeated=True)]


def _drives(
    part: str, routes: Sequence[str], options: FirstHourOptions, models: Sequence[EvaluatedModel], missing: str = ""
) -> list[Stage]:
    runs = options.out / "runs"
    words = ["drive", "run", *routes, "--workers", str(options.workers), "--retry-failed"]
    rate = ["--config", f"decision_hz={options.decision_hz:g}"]
    stages = []
    for driver in () if options.no_baselines else DRIVERS:
        spoken = ["--config", "tasks=action", "--interpreter", "rules", *rate] if driver == SPEAKER else []
        out = ["--out", str(runs / driver / part)]
        stages.append(_stage(f"{part} {driver}", [*words, "--agent", driver, *spoken, *out], missing=missing))
    unread = [] if options.stop_after_unread is None else ["--config", f"stop_after_unread={options.stop_after_unread}"]
    for model in models:
        seen = ["--agent", model.agent, "--size", options.size, *rate, *unread]
        out = ["--out", str(runs / model.name / part)]
        stages.append(_stage(f"{part} {model.name}", [*words, *seen, *out], model, missing))
    return stages


def _stage(name: str, words: Sequence[str], model: EvaluatedModel | None = None, missing: str = "") -> Stage:
    return Stage(name, tuple(words), local_weights(model.arguments) if model else {}, missing=missing)


def _selected(count: int) -> tuple[str, str]:
    """(ids of the routes, joined by commas; why there are none)."""
    try:
        return ",".join(route.id for route in spread(suite(EMBEDDED).routes, count)), ""
    except Ad2Error as exc:
        return "", str(exc)


def _joined(values: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in values.items())


def parser() -> argparse.ArgumentParser:
    made = CommandParser("first_hour.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(made, FirstHourOptions, {})
    return made


def models_of(options: FirstHourOptions) -> list[EvaluatedModel]:
    """The models; raises Ad2Error for a mistake in the options."""
    if not re.fullmatch(r"cpu|none|cuda(:\d+)?", options.device):
        raise Ad2Error(f"--device {options.device}: cuda, cuda:N, cpu or none")
    models = [model_of(text, options.device) for text in options.models]
    names = [*ANSWERERS, *DRIVERS, *(model.name for model in models)]
    for model in models:
        if names.count(model.name) > 1:
            raise Ad2Error(f"{model.name}: this name is given twice, or that of a baseline")
    return models


def main(words: Sequence[str] | None = None) -> int:
    args = parser().parse_intermixed_args(words)  # options may be between the models
    return run_command("first_hour.sh", lambda: run(read_options(FirstHourOptions, args)))


def run(options: FirstHourOptions) -> int:
    models = models_of(options)
    check_commands(options.decision_hz, options.size, options.tasks)
    stages = stages_of(options, models)
    pretrained = {model.name: model.arguments.get("pretrained", "") for model in models}
    for line in absent_notes(pretrained) if ENVIRONMENT["HF_HUB_OFFLINE"] == "1" else ():
        print(line, file=sys.stderr)
    if options.dry_run:
        for stage in stages:
            print(f"# {stage.name}" + (f": left out: {stage.missing}" if stage.missing else f"\n{stage.shown}"))
        return 0
    if options.device.startswith("cuda"):
        refuse_missing(options.device)
    return run_stages(stages, options.out, options.device, ENVIRONMENT)


if __name__ == "__main__":
    raise SystemExit(main())
