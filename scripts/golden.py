"""Record the behaviour of this version and compare another version with it: requests, scores, records, files, texts.

    python scripts/golden.py list                     # the groups of tests/golden/table and their rows
    python scripts/golden.py compare [NAME ...]       # exit code 1 and the rows that differ, and how
    python scripts/golden.py record [NAME ...]        # writes tests/golden/recordings/GROUP.json

NAME is GROUP or GROUP:ROW; without one, all groups except those of tier soak (`--all`: these too; `--soak`: only these;
`--quick`: only those that take seconds). A row is a command line or a function of tests/golden, and what is kept of it
(tests/golden/rows.py). Record a row again only for an intended change, with its reason in CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
GOLDEN = REPO / "tests" / "golden"
RECORDINGS = GOLDEN / "recordings"
MOST_SHOWN = 30
sys.path[:0] = [str(REPO), str(GOLDEN), str(REPO / "tests")]

from rows import Group, groups, needs_data, recorded_rows, test_data  # noqa: E402 -- of tests/golden


@dataclass
class Outcome:
    """What a group gave: its rows, the rows that failed, and why the whole group was not run."""

    group: str
    seconds: float
    rows: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    skipped: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("action", choices=("list", "record", "compare", "run-group"))
    p.add_argument("names", nargs="*", metavar="NAME", help="GROUP or GROUP:ROW")
    tiers = p.add_mutually_exclusive_group()
    tiers.add_argument("--all", action="store_true", help="also groups of tier soak")
    tiers.add_argument("--soak", action="store_true", help="only groups of tier soak")
    p.add_argument("--quick", action="store_true", help="only groups that take seconds")
    p.add_argument("--jobs", type=int, default=2, help="groups run at once (default 2)")
    p.add_argument("--times", action="store_true", help="print the CPU-seconds of each row")
    p.add_argument("--keep", type=Path, metavar="DIR", help="keep the groups' folders here, to look at their files")
    args = p.parse_args(arguments)
    table = groups()
    wanted = _wanted(p, table, args)
    if args.action == "list":
        for name in wanted:
            group = table[name]
            print(f"{name}  (tier {group.tier}, about {group.cpu_s} CPU-seconds)  {group.about}")
            print(*(f"    {row}" for row in group.rows), sep="\n")
        return 0
    if args.action == "run-group":
        print(json.dumps(vars(_run(table[args.names[0]], args.keep))))
        return 0
    return _all(table, wanted, args)


def _wanted(p: argparse.ArgumentParser, table: Mapping[str, Group], args: argparse.Namespace) -> dict[str, set[str]]:
    """Group -> the rows that are recorded or compared; none: all. Groups that take long come first."""
    wanted: dict[str, set[str]] = {}
    for name in args.names:
        group, _, row = name.partition(":")
        if group not in table or (row and row not in table[group].rows):
            p.error(f"no such group or row: {name}; see: golden.py list --all")
        wanted.setdefault(group, set()).update([row] if row else [])
    if not wanted:
        tiers = ("soak",) if args.soak else ("verify", "soak") if args.all else ("verify",)
        wanted = {name: set() for name, group in table.items() if group.tier in tiers}
    if args.quick:
        wanted = {name: rows for name, rows in wanted.items() if table[name].cpu_s <= 10}
    return dict(sorted(wanted.items(), key=lambda item: -table[item[0]].cpu_s))


def _all(table: Mapping[str, Group], wanted: Mapping[str, set[str]], args: argparse.Namespace) -> int:
    bad: list[str] = []
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max(1, min(2, args.jobs)), mp_context=context) as pool:
        started = [pool.submit(_in_worker, table[name], args.keep) for name in wanted]
        for future in concurrent.futures.as_completed(started):
            outcome = future.result()
            rows = wanted[outcome.group] or set(table[outcome.group].rows)
            bad += _finish(outcome, rows, record=args.action == "record")
            for row, cpu_s in sorted(outcome.cpu_s.items(), key=lambda item: -item[1]) if args.times else ():
                print(f"    {cpu_s:6.1f} CPU-seconds  {outcome.group}:{row}")
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"{len(wanted)} groups, {sum(u.ru_utime + u.ru_stime for u in usage):.0f} CPU-seconds")
    if bad and args.action == "compare":
        again = " ".join(dict.fromkeys(bad))
        print(f"\n{len(bad)} rows differ from the recordings. If a change is intended: its reason in CHANGELOG.md, and")
        print(f"    python scripts/golden.py record {again}")
    return 1 if bad else 0


def _in_worker(group: Group, keep: Path | None) -> Outcome:
    """Run a group in this process, or in one of its own if it changes the process: programs that run in it."""
    if not group.in_process:
        return _run(group, keep)
    command = [sys.executable, __file__, "run-group", group.name, *(["--keep", str(keep)] if keep else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return Outcome(group.name, 0.0, errors={"(all)": done.stderr[-3000:]})
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def _run(group: Group, keep: Path | None) -> Outcome:
    started = time.monotonic()
    outcome = Outcome(group.name, 0.0)
    if needs_data(group) and not test_data().is_dir():
        outcome.skipped = f"no real test data at {test_data()}; set AD2_TEST_DATA"
        if os.environ.get("CI") == "true":
            outcome.errors["(all)"] = outcome.skipped
        return outcome
    with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
        folder = keep / group.name if keep else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        outcome.rows, outcome.errors, outcome.cpu_s = recorded_rows(group, folder.resolve())
    outcome.seconds = time.monotonic() - started
    return outcome


def _finish(outcome: Outcome, rows: set[str], *, record: bool) -> list[str]:
    """Keep the recording, or print its differences from the kept one. Returns the names of rows that are not well."""
    name, path = outcome.group, RECORDINGS / f"{outcome.group}.json"
    kept = read_recording(path)
    lines = {row: [f"failed: {error}"] for row, error in outcome.errors.items() if row in rows or row == "(all)"}
    if record and outcome.rows:
        known = outcome.rows.keys() | outcome.errors.keys()
        old = {row: value for row, value in kept.items() if row in known and (row not in rows or row in lines)}
        write_recording(path, {**old, **{row: value for row, value in outcome.rows.items() if row in rows}})
    elif not record and not outcome.skipped:
        for row in sorted(rows - lines.keys()):
            found = differences(kept.get(row), outcome.rows.get(row))
            lines |= {row: shown} if (shown := list(found)) else {}
    state = "FAILED" if outcome.errors else "skipped" if outcome.skipped else "differs" if lines else "ok"
    print(f"{name:20} {state:8} {len(rows):4} rows {outcome.seconds:6.1f} s {outcome.skipped}", flush=True)
    for row, found_lines in lines.items():
        print(f"    {name}:{row}")
        print(*(f"        {line}" for line in found_lines[:MOST_SHOWN]), sep="\n")
        if len(found_lines) > MOST_SHOWN:
            print(f"        and {len(found_lines) - MOST_SHOWN} more differences")
    return [name if row == "(all)" or " " in row else f"{name}:{row}" for row in lines]


def read_recording(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8"))["rows"]) if path.is_file() else {}


def write_recording(path: Path, rows: Mapping[str, Any]) -> None:
    """One line of JSON for each row, so that a change of one row is a change of one line."""
    from lmms_eval_ad2 import __version__

    lines = [f"{json.dumps(name)}: {_compact(value)}" for name, value in sorted(rows.items())]
    path.parent.mkdir(exist_ok=True)
    head = f'{{"recorded": {json.dumps(__version__)}, "rows": {{'
    path.write_text(f"{head}\n" + ",\n".join(lines) + "\n}}\n", "utf-8")


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def differences(kept: Any, new: Any, where: str = "") -> Iterator[str]:
    """One line for each value that differs. Values of different types differ; floats are compared exactly."""
    if isinstance(kept, dict) and isinstance(new, dict):
        for key in sorted(kept.keys() | new.keys()):
            path = f"{where}/{key}"
            if key not in new:
                yield f"{path}: missing, was {_short(kept[key])}"
            elif key not in kept:
                yield f"{path}: new: {_short(new[key])}"
            else:
                yield from differences(kept[key], new[key], path)
    elif isinstance(kept, list) and isinstance(new, list) and len(kept) == len(new):
        for index, (one, two) in enumerate(zip(kept, new, strict=True)):
            yield from differences(one, two, f"{where}[{index}]")
    elif type(kept) is not type(new) or repr(kept) != repr(new):
        yield f"{where}: {_short(kept)} -> {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:150]}... ({len(text)} characters)"


if __name__ == "__main__":
    raise SystemExit(main())
