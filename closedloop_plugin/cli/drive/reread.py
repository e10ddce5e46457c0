"""`ad2 drive reread`: what another interpreter makes of the words that a run has kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.core.options import add_command, fixed, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.core.state import Control
    from closedloop_plugin.driver.interpreter import Interpreter
    from closedloop_plugin.runner.rereading import ReadingComparison, RereadCounts, RereadDecision

_SHOWN, _SHOWN_JSON = 100, 2000  # characters of a text
NONE = "–"
SLOW = (
    "interpreter",
    "interpreter2",
    "mode",
    "describer",
    "situation",
    "prompts",
    "seed",
)  # options of the slow system


@dataclass(frozen=True, kw_only=True)
class DriveRereadOptions:
    """`ad2 drive reread`."""

    run: Path = option("run folder; nothing is written into it", metavar="RUN", positional=True)
    interpreter: str = option("slow system: rules (no model), endpoint:..., lmms:...", metavar="SPEC")
    interpreter2: str | None = option(
        "with --mode hybrid: slow system for situations with a threat", default=None, metavar="SPEC", expert=True
    )
    mode: Literal["cng", "dcs", "hybrid", "rules"] | None = option(
        "the slow system's answers, as of ad2 drive run (default: cng; rules: rules)", default=None
    )
    describer: str | None = option(
        "descriptions instead of pictures: none (the words alone), offline, endpoint:... or lmms:...", default=None,
        metavar="SPEC", expert=True,
    )  # fmt: skip
    situation: Literal["none", "speed", "full"] | None = option(
        "told to the slow system besides words and image (default: the profile's)", default=None, expert=True
    )
    policy: Literal["official", "strict"] | None = option(
        "numbers off the sets: official adapts them, strict leaves them unread (default: the run's)",
        default=None,
        expert=True,
    )
    prompts: str | None = option("file of own driving prompts", default=None, metavar="FILE", expert=True)
    cache: Path | None = option(
        "replies of models are kept here, and not asked for again (default: AD2_HOME/cache/reread.sqlite)",
        default=None,
        metavar="FILE",
        expert=True,
    )
    json: bool = option("print the figures as JSON", default=False)
    seed: int = fixed(0)


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "reread",
        run,
        DriveRereadOptions,
        help="what another interpreter reads in the words of a run; nothing is driven",
        description="Reads every kept decision of a run (docs/decisions-file.md) with another slow system, and "
        "compares the controls, after the profile's post-processing at the speed of the decision. A slow system that "
        "sees the front camera gets the saved frames (ad2 drive run --frames, 2 Hz); "
        "--config describer=none gives it the words alone.",
    )


def run(options: DriveRereadOptions) -> int:
    from tqdm import tqdm

    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.runner.driver import interpreter_of
    from closedloop_plugin.runner.options import DriverOptions
    from closedloop_plugin.runner.rereading import reread
    from closedloop_plugin.scenarios.suites.lookup import data_home
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.storage.identity import read_run

    identity = read_run(options.run)["identity"]
    files, not_kept = _files(options.run)
    rules = profile(str(identity.get("profile")))
    policy = options.policy or str(identity.get("policy"))
    cache = options.cache or data_home() / "cache" / "reread.sqlite"
    slow = {name: getattr(options, name) for name in SLOW}
    interpreter = interpreter_of(DriverOptions(agent="", **slow), rules, policy, cache=cache)
    pictures = _sees_pictures(options)
    if pictures and not (options.run / "frames").is_dir():
        raise Ad2Error(
            f"{options.run}: this slow system sees the front camera, and the run has no saved frames: drive with "
            "--frames, or read the words alone with --config describer=none"
        )
    with tqdm(desc="decisions", unit="", disable=options.json or interpreter.local) as bar:
        found = reread(options.run, files, interpreter, rules, pictures=pictures, advance=bar.update)
    found.total.skipped += Counter({"of episodes without a decision file": not_kept})
    if not found.total.read_again:
        reasons = ", ".join(f"{name} in {n}" for name, n in found.total.skipped.items())
        raise Ad2Error(f"{options.run}: no decision can be read again ({reasons or 'the files are empty'})")
    if options.json:
        print(json.dumps(to_json(options.run, identity, interpreter, found), indent=1))
    else:
        show(text(options.run, identity, interpreter, found))
    return 0


def _files(run: Path) -> tuple[list[Path], int]:
    """The decision files of the episodes that count, in the order of their names; decisions of those without one."""
    from closedloop_plugin.runner.decision_files import FOLDER, decision_file
    from closedloop_plugin.runner.store import read_records
    from closedloop_plugin.scoring.driving import MOST_REPETITIONS
    from lmms_eval_ad2.core.errors import Ad2Error

    records = read_records(run, MOST_REPETITIONS)
    counts = {
        decision_file(run, f"{record.route_id}_rep{record.repetition}"): record.counts.get("decisions", 0)
        for record in records
    }
    if not (found := sorted(file for file in counts if file.is_file())):
        raise Ad2Error(f"{run}: no decisions in {run / FOLDER}: no episode is finished, or an older version drove it")
    return found, sum(counts.values()) - sum(counts[file] for file in found)


def _sees_pictures(options: DriveRereadOptions) -> bool:
    models = [s for s in (options.interpreter, options.interpreter2) if s is not None and s.strip() != "rules"]
    return bool(models) and (options.describer or "").strip() != "none"


def text(run: Path, identity: dict[str, Any], interpreter: Interpreter, found: ReadingComparison) -> str:
    """The comparison as text."""
    from closedloop_plugin.runner.rereading import TOLERANCE
    from lmms_eval_ad2.report.table import Table

    rows = [_row(route, counts) for route, counts in found.routes.items()]
    rows = [*rows, _row("all", found.total)] if len(rows) > 1 else rows
    headers = ("route", "decisions", "read by\nboth", "only\nbefore", "only\nnow", "by\nnone", "agree %",
               "mean difference\nsteer throttle brake")  # fmt: skip
    skipped = [f"not read again: {n} ({reason})" for reason, n in found.total.skipped.items()]
    blocks = [
        f"{run}: before by {_before(identity)}, now by {interpreter.name}",
        Table(headers, rows, "lrrrrrrr").plain(),
        "\n".join([f"agree: of those read by both, all three controls within {TOLERANCE:g}", *skipped]),
        _examples("Largest differences", found.largest),
        _examples("Read only before", found.only_before),
        _examples("Read only now", found.only_now),
    ]
    return "\n\n".join(block for block in blocks if block)


def _before(identity: dict[str, Any]) -> str:
    found = identity.get("interpreter")
    return str(found.get("name")) if isinstance(found, dict) else "no interpreter"


def _row(name: str, counts: RereadCounts) -> list[str]:
    means = counts.mean_differences()
    agree = f"{100 * counts.agreeing / counts.both:.1f}" if counts.both else NONE
    numbers = (counts.read_again, counts.both, counts.only_before, counts.only_now, counts.neither)
    return [name, *map(str, numbers), agree, NONE if means is None else "  ".join(f"{mean:.3f}" for mean in means)]


def _examples(title: str, decisions: Sequence[RereadDecision]) -> str:
    return "\n".join([f"{title}:", *map(_example, decisions)]) if decisions else ""


def _example(one: RereadDecision) -> str:
    words = " | ".join(" ".join(reply.split()) for reply in one.decision.words.values())
    shown = words if len(words) <= _SHOWN else words[: _SHOWN - 3] + "..."
    reason = (one.decision.reading or {}).get("reason")
    before = _controls(one.before) or f"unread ({reason})"
    now = _controls(one.now) or f"unread ({' '.join(str(one.reading.reason).split())[:_SHOWN]})"
    return f"  {one.episode} at {one.decision.time_s:.1f} s: {shown}\n    before: {before}\n    now:    {now}"


def _controls(control: Control | None) -> str:
    if control is None:
        return ""
    return f"throttle {control.throttle:.2f}  steer {control.steer + 0.0:.2f}  brake {control.brake:.2f}"


def to_json(run: Path, identity: dict[str, Any], interpreter: Interpreter, found: ReadingComparison) -> dict[str, Any]:
    """The comparison as JSON; shares in 0..1."""
    return {
        "run": str(run),
        "before": identity.get("interpreter"),
        "now": interpreter.describe(),
        "total": _counts(found.total),
        "routes": {route: _counts(counts) for route, counts in found.routes.items()},
        "largest": [_entry(one) for one in found.largest],
        "only_before": [_entry(one) for one in found.only_before],
        "only_now": [_entry(one) for one in found.only_now],
    }


def _counts(counts: RereadCounts) -> dict[str, Any]:
    means = counts.mean_differences()
    return {
        "decisions": counts.read_again,
        "both": counts.both,
        "only_before": counts.only_before,
        "only_now": counts.only_now,
        "neither": counts.neither,
        "agreement": counts.agreeing / counts.both if counts.both else None,
        "mean_difference": None if means is None else dict(zip(("steer", "throttle", "brake"), means, strict=True)),
        "not_read_again": dict(counts.skipped),
    }


def _entry(one: RereadDecision) -> dict[str, Any]:
    return {
        "episode": one.episode,
        "tick": one.decision.tick,
        "t": one.decision.time_s,
        "words": {task: reply[:_SHOWN_JSON] for task, reply in one.decision.words.items()},
        "before": None if one.before is None else vars(one.before),
        "now": None if one.now is None else vars(one.now),
        "difference": one.difference,
        "reason_before": (one.decision.reading or {}).get("reason"),
        "reason_now": None if one.reading.reason is None else one.reading.reason[:_SHOWN_JSON],
    }
