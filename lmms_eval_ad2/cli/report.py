"""`ad2 report`: tables and a page of finished runs; `ad2 report compare A B`: two runs, sample by sample."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmms_eval_ad2.report import RunSummary

COMPARE = "compare"


def register(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "report",
        help="tables of finished runs in the shape of the papers', a page, a comparison",
        usage="ad2 report RESULTS... [--html PAGE.html] [--markdown | --json] [--no-published]\n"
        "       ad2 report compare A B [--json | --markdown] [--force] [--no-published]\n"
        "       ad2 report compare RUN [RUN] --distractors naive all [--json | --markdown] [--force]",
        description="RESULTS are run folders, or folders above them. 'compare' tests two runs against each other, "
        "paired by sample, with Holm's correction over the tasks. (A folder named 'compare' is reached as ./compare.) "
        "Of two folders of `ad2 drive run`, STANDARD and THREAT: both side by side, paired by route, with the drop.",
    )
    p.add_argument("results", nargs="+", metavar="RESULTS", help="folders with results, or: compare A B")
    p.add_argument("--html", type=Path, metavar="PAGE.html", help="also write one self-contained page")
    form = p.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="tables as Markdown")
    form.add_argument("--json", action="store_true", help="figures as JSON")
    p.add_argument("--no-published", action="store_true", help="without the papers' figures")
    p.add_argument("--force", action="store_true", help="compare: even where data, judge or way of asking differ")
    p.add_argument("--breakdowns", action="store_true", help="also tables by sub-task, source, weather, severity")
    p.add_argument(
        "--distractors", nargs=2, metavar=("SET_A", "SET_B"),
        help="compare: the same questions with other distractors (naive, all, a category), paired by question",
    )  # fmt: skip
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if args.results[0] == COMPARE:
        return _compare(args)
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.report import tables

    if args.force:
        raise Ad2Error("--force belongs to: ad2 report compare A B")
    if args.distractors:
        raise Ad2Error("--distractors belongs to: ad2 report compare RUN [RUN]")
    paths = [Path(p) for p in args.results]
    runs = report.load(paths)  # what it leaves out it says on stderr
    published = not args.no_published
    if args.json:
        print(json.dumps(_as_json(runs, published), ensure_ascii=False, indent=1))
    else:
        print(tables.render(runs, published=published, markdown=args.markdown, breakdowns=args.breakdowns), end="")
    if args.html:
        from lmms_eval_ad2.report import html

        html.write(runs, args.html, published=published, unfinished=report.unfinished(paths))
        if not args.json:
            print(f"\nreport page: {args.html}")
    return 0


def _as_json(runs: list[RunSummary], published: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from lmms_eval_ad2.report.grid import grids

    return {
        "runs": [{"folder": str(r.folder), "name": r.name, "role": r.role, "run": dict(r.about)} for r in runs],
        "tables": [asdict(grid) for grid in grids(runs, with_published=published)],
        "tasks": [{"run": r.name, **asdict(task)} for r in runs for task in r.tasks.values()],
    }


def _compare(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.metrics.intervals import METHOD
    from lmms_eval_ad2.report import compare, load

    one = args.distractors and len(args.results) == 2  # two sets of distractors in one run
    if not (one or len(args.results) == 3) or args.html:
        raise Ad2Error("usage: ad2 report compare A B [--json] [--markdown] [--force] [--distractors SET_A SET_B]")
    if not args.distractors and _compared_by_kind(args):
        return 0
    folders = [_one(path) for path in (args.results[1], args.results[-1])]
    if folders[0].resolve() == folders[1].resolve() and not args.distractors:
        raise Ad2Error(f"{folders[0]}: compared with itself; name two runs")
    # Loaded together, so that two runs of one model have names of their own.
    by_folder = {run.folder.resolve(): run for run in load(folders)}
    a, b = (by_folder[folder.resolve()] for folder in folders)
    sets = tuple(args.distractors) if args.distractors else None
    if sets:
        rows = compare.compare_sets(a, b, sets, force=args.force)
    else:
        rows = compare.compare(a, b, force=args.force)
    if args.json:
        about = {
            "a": str(a.folder), "b": str(b.folder), "interval_method": METHOD, "tasks": [asdict(row) for row in rows],
        }  # fmt: skip
        print(json.dumps(about, ensure_ascii=False, indent=1))
    else:
        print(compare.render(a, b, rows, markdown=args.markdown, sets=sets), end="")
    return 0


def _compared_by_kind(args: argparse.Namespace) -> bool:
    """Two runs of a kind that a plugin knows are compared and printed; False where neither is of such a kind."""
    from lmms_eval_ad2 import plugins
    from lmms_eval_ad2.errors import Ad2Error

    a, b = (Path(path) for path in args.results[1:])
    for kind in plugins.loaded(plugins.RUN_KINDS):
        which = [kind.recognises(folder) for folder in (a, b)]
        if not any(which):
            continue
        if not all(which):
            other = b if which[0] else a
            raise Ad2Error(f"{other}: not {kind.about}, and the other one is; compare two of one kind")
        if a.resolve() == b.resolve():
            raise Ad2Error(f"{a}: compared with itself; name two runs")
        shape = {"as_json": args.json, "markdown": args.markdown, "published": not args.no_published}
        print(kind.compare(a, b, force=args.force, **shape), end="")
        return True
    return False


def _one(path: str) -> Path:
    """The folder of the one run at or below `path`."""
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.report import load

    runs = load([Path(path)])
    if len(runs) != 1:
        raise Ad2Error(f"{path}: expected one run, found {len(runs)}: {', '.join(str(r.folder) for r in runs)}")
    return runs[0].folder
