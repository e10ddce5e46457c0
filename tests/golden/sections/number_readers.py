"""Numbers that every reader accepts: 19 JSON values and 18 words in each place where external files contain numbers.

For each place and input: the value that was read (repr), "refused" (an error message of ours, in any wording), or
"fails" (a Python exception, which a user sees as a traceback). Readers are called through commands if that is short.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import data_layouts
import number_files
import number_functions
from number_functions import Reader, Refused, write
from workspace import Workspace, read_jsonl

COST = "minutes"
HUGE = "1" + "0" * 400
JSON_VALUES = {
    "true": "true", "false": "false", "null": "null", "NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity",
    "1e400": "1e400", "1e300": "1e300", "10^400": HUGE, "1": "1", "1.0": "1.0", "50": "50", "50.0": "50.0",
    "-0.0": "-0.0", "-1": "-1", "0.5": "0.5", '"1"': '"1"', '"nan"': '"nan"', "[1]": "[1]",
}  # fmt: skip
YAML_VALUES = {**JSON_VALUES, "NaN": ".nan", "Infinity": ".inf", "-Infinity": "-.inf", "1e400": "1.0e+400",
               "1e300": "1.0e+300"}  # fmt: skip
WORDS = {
    word: word for word in ("1", "1.0", "+1", "-0.0", "-1", "0.5", ".5", "nan", "inf", "-inf", "1e400", "1e300",
                            "1_0", "0x10", "1,5", "true", "\u0661")
} | {"10^400": HUGE}  # fmt: skip


class Failed(Exception):
    """A command ended in a traceback."""


def record(work: Workspace) -> dict[str, Any]:
    os.environ.update(work.environment())
    os.chdir(work.folder)
    imported = number_functions.readers(_ours(), work.folder)
    places: dict[str, tuple[Mapping[str, str], Reader]] = {}
    for kind, values in (("json", JSON_VALUES), ("yaml", YAML_VALUES), ("words", WORDS)):
        for name, reader in {**_commands(work).get(kind, {}), **imported.get(kind, {})}.items():
            places[f"{kind}: {name}"] = values, reader
    found = {name: {label: _outcome(reader, token) for label, token in values.items()}
             for name, (values, reader) in places.items()}  # fmt: skip
    if unread := [name for name, outcomes in found.items() if set(outcomes.values()) <= {"refused", "fails"}]:
        raise RuntimeError(f"these readers took nothing, so that they prove nothing: {unread}")
    return found


def _outcome(reader: Reader, token: str) -> str:
    try:
        return repr(reader(token)).replace(HUGE, "10^400")
    except Failed:
        return "fails"
    except Exception as exc:  # our own classes, and ValueError, which some readers document
        return "refused" if type(exc).__module__ != "builtins" or isinstance(exc, ValueError) else "fails"


def _ad2(*words: str | Path) -> str:
    """Output of the command. Raises Refused for exit code 2."""
    (command,) = entry_points(group="console_scripts", name="ad2")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = command.load()([str(word) for word in words])
        except Exception as exc:
            raise Failed from exc
    if code == 2:
        raise Refused(err.getvalue())
    return out.getvalue()


def _commands(work: Workspace) -> dict[str, dict[str, Reader]]:
    """Readers that an `ad2` command calls within a few milliseconds."""
    folder = work.folder
    return {
        "json": {
            **{f"release {name}": _release(folder, *about) for name, about in number_files.RELEASES.items()},
            **{f"boxes {name}": _boxes(folder, text) for name, text in number_files.BOXES.items()},
            **{f"annotation {name}": _actions(folder, field, text)
               for name, (field, text) in number_files.ACTIONS.items()},
            **{f"official result {name}": _drive_score(folder / "results.json", text)
               for name, text in number_files.official().items()},
            **{f"episode {name}": _drive_score(folder / "episodes.jsonl", text + "\n")
               for name, text in number_files.episodes().items() if name not in number_files.NOT_SCORED},
            **{f"run folder {name}": _drive_merge(folder, text) for name, text in number_files.episodes().items()},
            **{f"metric_info {name}": _metric_info(folder, text) for name, text in number_files.METRICS.items()},
            **{f"summary {name}": _report(folder, text) for name, text in number_files.summaries().items()},
            "ratings score": _ratings(folder),
            "drivelm truth tag": _drivelm(folder),
        },
        "words": {f"route file {name}": _routes(folder, text) for name, text in number_files.ROUTES.items()},
    }  # fmt: skip


def _release(folder: Path, release: str, file: str, text: str, keys: tuple[str, ...]) -> Reader:
    """`ad2 data import`, then the keys of the first record in an annotation folder."""
    root = folder / "release"
    if not root.exists():
        data_layouts.nuscenes_qa(root / "nuscenes")
        data_layouts.coda_lm(root / "coda", images=1, regions=1, chinese=False)

    def read(token: str) -> Any:
        path = write(root / file, text.replace('"@"', token))
        source = root / "coda" if release == "coda_lm" else path
        split = "val" if release == "nuscenes_qa" else "test"
        images = () if release in ("coda_lm", "nuscenes_qa") else ("--images", path.parent)
        words = ("--as", "read", "--split", split, "--partial", "--no-resume")
        _ad2("data", "import", release, source, *words, *images)
        notes = folder / f"notes_{len(list(folder.glob('notes_*')))}"
        _ad2("annotate", "read", "--out", notes, "--no-page", "--split", split)
        return [row[key] for row in read_jsonl(notes / "records.jsonl") for key in keys]

    return read


def _boxes(folder: Path, text: str) -> Reader:
    data_layouts.picture(folder / "pictures" / "a.png", 20)

    def read(token: str) -> Any:
        path = write(folder / "boxes.json", text.replace('"@"', token))
        notes = folder / f"boxed_{len(list(folder.glob('boxed_*')))}"
        _ad2("annotate", folder / "pictures", "--boxes", path, "--ask", "region", "--out", notes, "--no-page")
        return read_jsonl(notes / "records.jsonl")[0]["mark"]["coords"]

    return read


def _actions(folder: Path, field: str, text: str) -> Reader:
    """A line of actions.jsonl in a folder of one finished record; the mark as it is exported."""
    source = data_layouts.records(folder / "source")
    source.write_text(source.read_text("utf-8").splitlines()[0] + "\n", "utf-8")

    def read(token: str) -> Any:
        notes = folder / "annotated"
        if not notes.exists():
            _ad2("annotate", source, "--out", notes, "--no-page")
        lines = [number_files.action(*about) for about in number_files.FINISHED]
        lines.append(number_files.action(field, "@").replace('"@"', text.replace('"@"', token)))
        write(notes / "actions.jsonl", "\n".join(lines) + "\n")
        _ad2("annotate", "export", notes, "--out", folder / "out.jsonl", "--reviewer", "anna")
        rows = read_jsonl(folder / "out.jsonl")
        return [(row["mark"]["coords"], row["meta"]["annotation"].get("scores")) for row in rows]

    return read


def _drive_score(path: Path, text: str) -> Reader:
    def read(token: str) -> Any:
        write(path, text.replace('"@"', token))
        routes = write(path.parent / "one.xml", number_files.ROUTE)
        found = json.loads(_ad2("drive", "score", path, "--routes", routes, "--json"))
        return [found[key] for key in ("driving_score", "success_rate", "efficiency", "comfortness", "n_routes")]

    return read


def _drive_merge(folder: Path, text: str) -> Reader:
    """The number of episodes that a resumed run or a merge accepts."""

    def read(token: str) -> Any:
        out = folder / f"merged_{len(list(folder.glob('merged_*')))}"
        run = folder / "run"
        write(run / "episodes.jsonl", text.replace('"@"', token) + "\n")
        write(run / "run.json", json.dumps(number_files.RUN))
        _ad2("merge", out, run, "--partial")
        return len(read_jsonl(out / "episodes.jsonl"))

    return read


def _metric_info(folder: Path, text: str) -> Reader:
    def read(token: str) -> Any:
        rows = json.loads(number_files.official()["score_route"].replace('"@"', "100"))
        results = write(folder / "results.json", json.dumps(rows))
        metrics = write(folder / "metrics" / "s" / "metric_info.json", text.replace('"@"', token)).parents[1]
        routes = write(folder / "one.xml", number_files.ROUTE)
        words = ("--routes", routes, "--metric-info", metrics, "--json")
        return json.loads(_ad2("drive", "score", results, *words))["comfortness"]

    return read


def _report(folder: Path, text: str) -> Reader:
    def read(token: str) -> Any:
        write(folder / "finished" / "summary.json", text.replace('"@"', token))
        (task,) = json.loads(_ad2("report", folder / "finished", "--json", "--no-published"))["tasks"]
        score = task["score"]
        return [score[key] for key in ("official", "strict", "ci", "n", "clusters")], task.get("correctness")

    return read


def _ratings(folder: Path) -> Reader:
    def read(token: str) -> Any:
        rows = ({"id": "1", "task": "t", "model": model, "score": score} for model, score in (("a", "@"), ("b", 5)))
        text = "\n".join(json.dumps(row) for row in rows).replace('"@"', token)
        ratings = write(folder / "ratings.jsonl", text)
        votes = write(
            folder / "votes.jsonl", json.dumps({"id": "1", "task": "t", "models": ["a", "b"], "votes": ["a"]})
        )
        found = json.loads(_ad2("judge", "agree", ratings, votes, "--json"))["t"]
        return [found[key] for key in ("consistency", "judge_ties", "unrated")]

    return read


def _drivelm(folder: Path) -> Reader:
    def read(token: str) -> Any:
        truth = write(folder / "truth.json", json.dumps(number_files.DRIVELM).replace('"@"', token))
        answers = write(folder / "answers.json", json.dumps([{"id": "s_f_0", "answer": "No."}]))
        words = ("--truth", truth, "--tokenizer", "plain", "--json")
        found = json.loads(_ad2("drivelm", "score", answers, *words))
        return [found[key] for key in ("n_accuracy", "n_language", "n_match", "n_llm", "n_skipped_by_walk")]

    return read


def _routes(folder: Path, text: str) -> Reader:
    def read(token: str) -> Any:
        path = write(folder / "added.xml", text.replace("@", token))
        name = f"added{len(list((folder / 'ad2home').rglob('added*')))}"
        _ad2("drive", "routes", "add", path, "--name", name)
        return "taken"

    return read


def _ours() -> SimpleNamespace:
    """All product names of this section: readers that no short command calls."""
    from closedloop_plugin.carla.leaderboard_agent import ad2_link
    from closedloop_plugin.carla.servers import record
    from closedloop_plugin.cli.drive.selection import values_of
    from closedloop_plugin.interpreters.parsing.controls import read_cng
    from closedloop_plugin.maps.towns.reference_line import number
    from closedloop_plugin.robots.course.records import read_records
    from closedloop_plugin.robots.onboard import clamp, wire
    from closedloop_plugin.robots.onboard.settings import read_settings
    from closedloop_plugin.robots.vehicles.robot_config import read_robot
    from closedloop_plugin.runner.latency import read_latency
    from closedloop_plugin.serve.chat import read_chat
    from closedloop_plugin.threats.spec import Distance
    from closedloop_plugin.threats.spec_parsing import first_object
    from closedloop_plugin.worlds.bridge.params import check_values
    from lmms_eval_ad2.harness.models.arguments import whole_number
    from lmms_eval_ad2.judge import make_judge, verdict
    from lmms_eval_ad2.llm.completion import ChatReply, read_completion
    from lmms_eval_ad2.llm.model import read_model
    from lmms_eval_ad2.mcq.replies import evaluation

    return SimpleNamespace(
        ad2_link=ad2_link,
        read_cng=read_cng,
        read_attribute=number,
        read_course=read_records,
        clamp=clamp,
        wire=wire,
        read_onboard=read_settings,
        read_robot=read_robot,
        read_latency=read_latency,
        read_chat=read_chat,
        read_server=record.read,
        read_spec_object=first_object,
        Distance=Distance,
        check_values=check_values,
        values_of=values_of,
        whole_number=whole_number,
        make_judge=make_judge,
        read_verdict=verdict.read,
        ChatReply=ChatReply,
        read_completion=read_completion,
        read_model=read_model,
        read_evaluation=evaluation,
    )
