"""Record the behaviour of this version and compare another version with it: model requests, scores, records, files.

    python scripts/golden.py list                       # the sections and their contents
    python scripts/golden.py record [SECTION ...]       # writes tests/golden/recordings/SECTION.json
    python scripts/golden.py compare [SECTION ...]      # exit code 1 and a list of differences where one is found
    python scripts/golden.py compare --quick            # only the sections that take seconds

Each section is a module in tests/golden/sections with `record(work: Workspace) -> dict`. It runs in its own process and
its own folder. JSON values are compared key by key and floats bit by bit; large results are recorded as sha256 digests.
Record a section again only if a change of behaviour is intended, and list the change in CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

REPO = Path(__file__).resolve().parent.parent
GOLDEN = REPO / "tests" / "golden"
SECTIONS = GOLDEN / "sections"
RECORDINGS = GOLDEN / "recordings"
MOST_SHOWN = 20
sys.path.insert(0, str(GOLDEN))


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("action", choices=("list", "record", "compare", "run-section"))
    p.add_argument("sections", nargs="*", metavar="SECTION", help="default: all")
    p.add_argument("--quick", action="store_true", help="only sections that take seconds")
    p.add_argument("--jobs", type=int, default=2, help="number of sections run at once (default 2)")
    p.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    args = p.parse_args()
    names = args.sections or sorted(path.stem for path in SECTIONS.glob("*.py"))
    unknown = [name for name in names if not (SECTIONS / f"{name}.py").is_file()]
    if unknown:
        p.error(f"no such section: {', '.join(unknown)}; see: golden.py list")
    if args.action == "run-section":
        return _run_section(names[0], args.out)
    if args.quick:
        names = [name for name in names if _load(name).COST == "seconds"]
    if args.action == "list":
        for name in names:
            module = _load(name)
            print(f"{name:24} {module.COST:8} {(module.__doc__ or '').strip().splitlines()[0]}")
        return 0
    return _all(names, args.action, args.jobs)


def _all(names: list[str], action: str, jobs: int) -> int:
    failed = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        outs = {name: Path(folder) / f"{name}.json" for name in names}
        for name, seconds, error in pool.map(lambda item: _in_process(*item), outs.items()):
            problems = [error] if error else _keep_or_compare(name, outs[name], action)
            state = "FAILED" if error else "differs" if problems else ("recorded" if action == "record" else "equal")
            print(f"{name:24} {state:8} {seconds:6.1f} s", flush=True)
            for line in problems[:MOST_SHOWN]:
                print(f"    {line}")
            if len(problems) > MOST_SHOWN:
                print(f"    and {len(problems) - MOST_SHOWN} more differences")
            if problems:
                failed.append(name)
    print(f"{len(names) - len(failed)} sections {'recorded' if action == 'record' else 'equal'}, {len(failed)} not")
    return 1 if failed else 0


def _keep_or_compare(name: str, new: Path, action: str) -> list[str]:
    """Keep the new recording, or list its differences from the kept one."""
    kept = RECORDINGS / f"{name}.json"
    if action == "record":
        RECORDINGS.mkdir(exist_ok=True)
        kept.write_text(new.read_text("utf-8"), "utf-8")
        return []
    if not kept.is_file():
        return [f"no recording: {kept.relative_to(REPO)}"]
    return list(differences(json.loads(kept.read_text("utf-8")), json.loads(new.read_text("utf-8"))))


def differences(kept: Any, new: Any, where: str = "") -> Iterator[str]:
    """One line for each value that differs. Values of different types differ; floats are compared exactly."""
    if isinstance(kept, dict) and isinstance(new, dict):
        for key in sorted(kept.keys() | new.keys()):
            path = f"{where}/{key}"
            if key not in new:
                yield f"{path}: missing"
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


def _in_process(name: str, out: Path) -> tuple[str, float, str]:
    """Run one section in its own process; returns name, seconds, and the end of its error output if it failed."""
    started = time.monotonic()
    command = [sys.executable, __file__, "run-section", name, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    error = "" if done.returncode == 0 else f"exit code {done.returncode}:\n{done.stderr[-3000:]}"
    return name, time.monotonic() - started, error


def _run_section(name: str, out: Path) -> int:
    from workspace import Workspace

    module = _load(name)
    with tempfile.TemporaryDirectory(prefix=f"golden-{name}-") as folder:
        work = Workspace(Path(folder).resolve())
        work.home.mkdir()
        value = work.scrub(module.record(work))
    out.write_text(json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return 0


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"golden_{name}", SECTIONS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    raise SystemExit(main())
