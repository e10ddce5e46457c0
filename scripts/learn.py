"""Train a small driving model from nothing and report how it drives: collect, label, train, DAgger, drive, report.

    scripts/learn.sh --out runs/learn                          # two cores, about two hours
    scripts/learn.sh --out runs/trial --scale 0.01 --suite demo
    scripts/learn.sh --out runs/gpu --device cuda --config large.yaml --rate 2.5e-4  # of 68 M

The model is trained, drives and answers; then its blind twin, which is trained on the same rows in the same steps, with
black pictures; then drivers and answers without a model, on the same routes and questions.
After kill -9 or Ctrl-C the same command resumes: every stage is an `ad2` command. Exit code: 0 all stages are finished,
1 a stage failed, 2 wrong arguments, 130 Ctrl-C. See docs/learn.md.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from first_hour import spread
from stages import Stage, refuse_missing, run_stages

from closedloop_plugin.cli.learn.model_size import MOST_SEED, ModelSizeOptions, size_of, size_words
from closedloop_plugin.learn.model_folder import CPU
from closedloop_plugin.learn.trained_agent import DECISION_HZ, MOST_TOKENS, SIZE, agent_of
from closedloop_plugin.scenarios.suites.lookup import EMBEDDED, routes_home, suite
from lmms_eval_ad2.core.command_errors import run_command
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_options, option, read_options
from lmms_eval_ad2.core.run_files import CommandParser
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.training_card import MOST_BYTES

SIGHTED, BLIND = "sighted", "blind"
BASELINES = ("straight", "steer-only", "expert", "speaking-expert")
ANSWERERS = ("ad2_chance", "ad2_majority", "ad2_oracle")
TASKS = "bench_ad2_world"
ASKED = 4  # questions of each frame among the rows
IN_A_STEP = "4"  # of a picture, the driving question among them
# Of that one and of multiple choice. With a weight of 1 for the latter, some seeds never learn to find the letter.
DRIVING_WEIGHT, CHOICE_WEIGHT = "6", "5"
DROPOUT = "0.25"  # of picture tokens: a lower loss on new routes
QUESTIONS = 150  # of each task about the held-out routes
LOSS_PICTURES = 2000  # of held-out routes
BATCH, LEAST_BATCH, LEAST_STEPS = 40, 8, 100  # of a trial: a model with fewer steps does not begin to speak
TAUGHT = ("expert", "words")  # drives without a model
EXPERT_SHARE = 0.25  # of the model's first drives, in which the expert speaks; halved in each round
# Seconds between frames of training routes. Frames of more routes teach more than more frames of a route.
EVERY_S = "1"
ROUTE_FRAMES = 20  # that a route gives at least, on average
OWN_TIMES = 3  # how often frames of the model's own drives are among the rows: they show its errors
MORE_RATE = 0.7  # learning rate of the rounds, in that of the first training
LISTED = 350  # bytes of a collected frame in the list of what the model was trained on, at most
# Of the collections, added to 1000 times the seed. The held-out routes are none of the driven ones (`unlike`).
SEEDS = {"expert": 100, "words": 150, "held": 200, "own": 300}


@dataclass(frozen=True, kw_only=True)
class LearnOptions(ModelSizeOptions):
    """The command line. Numbers are for --scale 1."""

    out: Path = option("folder of all results (default: runs/learn)", default=Path("runs/learn"), metavar="DIR")
    seed: int = option("seed of routes, weights and drives (default 0)", default=0, least=0, most=MOST_SEED)
    scale: float = option("share of all sizes below, for a trial (default 1)", default=1.0, metavar="SHARE")
    frames: int = option("frames of the expert's drives", default=15_000, least=1)
    word_frames: int = option("frames of drives with wrong words", default=30_000, least=1)
    own_frames: int = option("frames of each round in which the model drives", default=3_000, least=1)
    rounds: int = option("rounds in which the model drives and the expert labels (DAgger)", default=2, least=0)
    see: int = option("training steps of the vision encoder alone", default=2_500, least=0)
    steps: int = option("training steps of the whole model before the first round", default=3_000, least=1)
    more_steps: int = option("training steps in each round", default=800, least=1)
    rate: float = option(
        "highest learning rate (default 0.001); wide encoders do not learn to see with it", default=1e-3, least=1e-6,
        most=10,
    )  # fmt: skip
    held: int = option("made routes on which nothing is trained, for the questions", default=88, least=1)
    suite: str = option("suite to drive (default embedded220)", default=EMBEDDED, metavar="NAME")
    routes: int = option("routes of the suite, spread over its scenario types", default=55, least=1)
    workers: int = option("simulators in parallel", default=2, least=1)
    processes: int = option("processes of the training, one core each; on a GPU one", default=2, least=1)
    device: str = option("where the model is trained, drives and answers (default cpu)", default=CPU)
    no_baselines: bool = option("only the two models drive and answer", default=False)
    dry_run: bool = option("only print the commands", default=False)

    def scaled(self, number: int) -> int:
        return max(1, round(number * self.scale))


class LearnStages:
    """The stages of one run."""

    def __init__(self, options: LearnOptions) -> None:
        self.options, self.out = options, options.out
        self.runs = options.out / "runs"
        self.ids = ",".join(r.id for r in spread(suite(options.suite).routes, options.scaled(options.routes)))

    def all(self) -> list[Stage]:
        measured = {kind: [self.drive(kind), self.questions(kind)] for kind in (SIGHTED, BLIND)}
        sighted = [*self.training(), *self.held_out(), *measured[SIGHTED]]
        blind = [*self.blind_twin(), *measured[BLIND]]
        return [*self.data(), *sighted, *blind, *self.losses(), *self.baselines(), self.report()]

    def data(self) -> list[Stage]:
        """The expert's drives and those with wrong words; questions about both."""
        o = self.options
        expert, words = (self.out / "drives" / name for name in TAUGHT)
        count, word_count = o.scaled(o.frames), o.scaled(o.word_frames)
        wrong = ("--driver", "disturbed-speaker", "--config", f"decision_hz={DECISION_HZ}")
        return [
            self._collect("collect", expert, SEEDS["expert"], count),
            self._collect("collect with wrong words", words, SEEDS["words"], word_count, more=wrong),
            Stage("label", ("drive", "label", str(expert))),
            Stage("label wrong words", ("drive", "label", str(words))),
            Stage("import train", ("data", "import", "world", str(expert), "--split", "train")),
        ]

    def held_out(self) -> list[Stage]:
        """Drives of the expert on routes that are in none of the others, and questions about them."""
        o, held = self.options, self.out / "drives" / "held"
        others = [word for folder in self._drives(o.rounds) for word in ("--config", f"unlike={folder}")]
        return [
            self._drive_and_collect("collect held-out routes", held, SEEDS["held"], o.scaled(o.held), others),
            Stage("label held-out routes", ("drive", "label", str(held), "--limit", str(o.scaled(QUESTIONS)))),
            Stage("import test", ("data", "import", "world", str(held), "--split", "test")),
        ]

    def _drives(self, rounds: int) -> list[Path]:
        """The folders of all drives up to a round."""
        return [self.out / "drives" / name for name in (*TAUGHT, *(f"own{k + 1}" for k in range(rounds)))]

    def training(self) -> list[Stage]:
        """The sighted model: on the expert's drives, then rounds of its own drives."""
        o = self.options
        stages = [self._rows(0), self._train(SIGHTED, 0)]
        for number in range(1, o.rounds + 1):
            own = self._drives(number)[-1]
            driver = ["--driver", self._agent(SIGHTED, number - 1), "--config", f"decision_hz={DECISION_HZ}"]
            driver += [
                "--config",
                "stop_after_unread=0",
                "--config",
                f"expert_share={EXPERT_SHARE / 2 ** (number - 1):g}",
            ]
            stages += [
                self._collect(
                    f"round {number}: its own drives", own, SEEDS["own"] + number, o.scaled(o.own_frames), more=driver
                ),
                Stage(f"round {number}: label", ("drive", "label", str(own))),
                self._rows(number),
                self._train(SIGHTED, number),
            ]  # fmt: skip
        return stages

    def blind_twin(self) -> list[Stage]:
        """The same trainings on the same rows, with black pictures."""
        return [self._train(BLIND, number) for number in range(self.options.rounds + 1)]

    def drive(self, kind: str) -> Stage:
        """A model drives the routes of the suite."""
        own = (
            "--agent",
            self._agent(kind, self.options.rounds),
            "--size",
            SIZE,
            "--config",
            f"decision_hz={DECISION_HZ}",
        )
        return self._drive(kind, *own, "--config", "stop_after_unread=0", "--config", "strict_contamination=true")

    def questions(self, kind: str) -> Stage:
        """A model answers the questions about the held-out routes."""
        device = self.options.device
        given = f"pretrained={self._model(kind, self.options.rounds)},device_map={device}"
        own = ("--model", "llava_hf", "--model-args", given, "--device", device, "--batch-size", "1")
        return self._questions(kind, *own, "--config", "strict_contamination=true")

    def losses(self) -> list[Stage]:
        """The loss of all models about the held-out routes: the learning curve over the rounds."""
        held, rows = self.out / "drives" / "held", self.out / "rows" / "held.jsonl"
        models = [str(self._model(kind, k)) for kind in (SIGHTED, BLIND) for k in range(self.options.rounds + 1)]
        asked = ("--config", "reasons=true", "--questions", str(ASKED))
        place = () if self.options.device == CPU else ("--device", self.options.device)
        loss = ("learn", "loss", *models, "--rows", str(rows), "--pictures", str(self.options.scaled(LOSS_PICTURES)))
        return [
            Stage("rows held-out", ("export", "swift", "--drives", str(held), "--out", str(rows), *asked)),
            Stage("loss of held-out rows", (*loss, *place)),
        ]

    def baselines(self) -> list[Stage]:
        """The same routes and questions without a model."""
        if self.options.no_baselines:
            return []
        spoken = ("--config", "tasks=action", "--interpreter", "rules", "--config", f"decision_hz={DECISION_HZ}")
        stages = [
            self._drive(driver, "--agent", driver, *(spoken if "speak" in driver else ())) for driver in BASELINES
        ]
        return stages + [self._questions(name, "--model", name) for name in ANSWERERS]

    def report(self) -> Stage:
        page = ("report", str(self.runs), "--html", str(self.out / "report.html"))
        return Stage("report", page, repeated=True)

    def _drive(self, name: str, *driver: str) -> Stage:
        words = ["drive", "run", "--suite", self.options.suite, "--routes-ids", self.ids, "--retry-failed"]
        words += ["--workers", str(self.options.workers), "--seed", str(self.options.seed)]
        return Stage(f"drive {name}", (*words, *driver, "--out", str(self.runs / name / "drive")))

    def _questions(self, name: str, *model: str) -> Stage:
        words = ("eval", "--tasks", TASKS, "--judge", "lexical", "--config", "strict_requests=true", *model)
        return Stage(f"questions {name}", (*words, "--out", str(self.runs / name / "questions")))

    def _model(self, kind: str, number: int) -> Path:
        return self.out / "models" / f"{kind}{number}"

    def _agent(self, kind: str, number: int) -> str:
        return agent_of(self._model(kind, number), MOST_TOKENS, self.options.device)

    def _collect(self, name: str, folder: Path, seed: int, frames: int, more: Sequence[str] = ()) -> Stage:
        """Frames of as many routes as they take."""
        routes = -(-frames // ROUTE_FRAMES)
        return self._drive_and_collect(
            name, folder, seed, routes, ("--frames", str(frames), "--config", f"every={EVERY_S}", *more)
        )

    def _drive_and_collect(self, name: str, folder: Path, seed: int, routes: int, more: Sequence[str]) -> Stage:
        words = ["drive", "collect", "--routes", str(routes), "--out", str(folder), "--size", SIZE]
        words += ["--seed", str(1000 * self.options.seed + seed), "--workers", str(self.options.workers)]
        return Stage(name, (*words, *more))

    def _rows(self, number: int) -> Stage:
        """Rows of the drives without a model, or of those of a round."""
        drives = [self._drives(number)[-1]] if number else self._drives(0)
        words = [
            "export",
            "swift",
            "--drives",
            *map(str, drives),
            "--out",
            str(self._row_file(number)),
            "--config",
            "reasons=true",
        ]
        words += ["--questions", str(ASKED), *(["--config", f"times={OWN_TIMES}"] if number else [])]
        return Stage(f"rows {number}", tuple(words))

    def _row_file(self, number: int) -> Path:
        return self.out / "rows" / f"{number}.jsonl"

    def _train(self, kind: str, number: int) -> Stage:
        """A training on the rows up to a round: from random weights, then from the model of the round before."""
        o, rows = self.options, [str(self._row_file(k)) for k in range(number + 1)]
        words = ["learn", "train", "--rows", *rows, "--out", str(self._model(kind, number))]
        words += ["--steps", str(o.scaled(o.more_steps) if number else max(o.scaled(o.steps), LEAST_STEPS))]
        words += ["--config", f"batch={min(BATCH, max(LEAST_BATCH, o.scaled(BATCH)))}", "--seed", str(o.seed)]
        words += ["--processes", str(o.processes)] if o.device == CPU else ["--device", o.device]
        words += [
            "--config",
            f"per_picture={IN_A_STEP}",
            "--config",
            f"driving_weight={DRIVING_WEIGHT}",
            "--config",
            f"choice_weight={CHOICE_WEIGHT}",
        ]
        words += ["--config", f"dropout={DROPOUT}"]
        if number:
            words += ["--start", str(self._model(kind, number - 1)), "--config", f"rate={MORE_RATE * o.rate:g}"]
        else:
            words += ["--config", f"see={o.scaled(o.see)}", "--config", f"rate={o.rate:g}", *size_words(o)]
        words += ["--blind"] if kind == BLIND else []
        return Stage(f"train {kind} {number}", tuple(words))


def check_scale(options: LearnOptions) -> None:
    """Raises Ad2Error for a share out of range, or if the trained model's list of its data would be too large."""
    if not 0 < options.scale <= 10:
        raise Ad2Error(f"--scale {options.scale:g}: must be above 0 and at most 10")
    numbers = (options.frames, options.word_frames, *[options.own_frames] * options.rounds)
    frames, most = sum(map(options.scaled, numbers)), MOST_BYTES // LISTED
    if frames > most:
        raise Ad2Error(f"{frames:,} frames in all drives: at most {most:,}; a model names what it was trained on")


def environment(options: LearnOptions) -> dict[str, str]:
    """A data home of the run's own, so that its questions replace nobody's.

    One thread for each process: more slow down so small a model.
    """
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    return {"AD2_HOME": str((options.out / "home").absolute()), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": threads}


def copy_suites(home: Path) -> None:
    """The user's suites, into another data home."""
    for file in routes_home().glob("*.xml"):
        with atomic_write(home / "routes" / file.name) as copy:
            copy.write(file.read_text("utf-8"))


def show_commands(stages: Sequence[Stage], variables: Mapping[str, str]) -> None:
    """Print them as they are run, with what `environment` and `copy_suites` do, for a shell."""
    home, files = Path(variables["AD2_HOME"], "routes"), map(str, sorted(routes_home().glob("*.xml")))
    print("export", shlex.join(f"{name}={value}" for name, value in variables.items()))
    print(shlex.join(("mkdir", "-p", str(home))))
    for file in files:
        print(shlex.join(("cp", file, str(home))))
    for stage in stages:
        print(f"# {stage.name}\n{stage.shown}")


def parser() -> argparse.ArgumentParser:
    shown = argparse.RawDescriptionHelpFormatter
    made = CommandParser("learn.sh", description=__doc__, formatter_class=shown)
    add_options(made, LearnOptions, {})
    return made


def main(words: Sequence[str] | None = None) -> int:
    args = parser().parse_args(words)
    return run_command("learn.sh", lambda: run(read_options(LearnOptions, args)))


def run(options: LearnOptions) -> int:
    check_scale(options)
    size_of(options)  # a size that the training refuses, before hours of collecting
    stages, variables = LearnStages(options).all(), environment(options)
    if options.dry_run:
        show_commands(stages, variables)
        return 0
    if options.device != CPU:
        refuse_missing(options.device)  # before hours of collecting
    copy_suites(Path(variables["AD2_HOME"]))
    return run_stages(stages, options.out, options.device, variables, stop_at_failure=True)


if __name__ == "__main__":
    raise SystemExit(main())
