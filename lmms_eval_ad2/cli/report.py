"""`ad2 report`: tables and a page of finished runs; `ad2 report compare A B`: paired comparison of two runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.core.options import ExclusiveOptions, add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.core.plugins import RunKind
    from lmms_eval_ad2.report import RunSummary
    from lmms_eval_ad2.report.published import PublishedTable
    from lmms_eval_ad2.report.table import ReportSection

COMPARE = "compare"


OUTPUT = ExclusiveOptions()
LISTS = ExclusiveOptions()
LIMIT = 20  # samples listed by --wrong


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """`ad2 report`."""

    results: tuple[str, ...] = option("folders of results, or: compare A B", metavar="RESULTS", positional=True)
    html: Path | None = option("also write a self-contained page", default=None, metavar="PAGE.html")
    markdown: bool = option("print the tables as Markdown", default=False, exclusive=OUTPUT)
    json: bool = option("print the figures as JSON", default=False, exclusive=OUTPUT)
    published: bool = option(
        "with the papers' figures in the terminal too (Markdown, JSON and the page have them)",
        default=False,
    )  # fmt: skip
    published_file: Path | None = option(
        "published rows of your own benchmarks, YAML (docs/own-benchmark.md); printed in the terminal too",
        default=None, metavar="FILE", expert=True,
    )  # fmt: skip
    no_published: bool = option("omit the papers' figures everywhere", default=False, expert=True)
    wide: bool = option(
        "print all columns, intervals and strict scores, and all tasks (default: one row per model, 100 columns)",
        default=False,
    )
    unparsed: bool = option(
        "list the replies that could not be read instead: by model, task and reason, with counts and examples",
        default=False, exclusive=LISTS,
    )  # fmt: skip
    sample: str | None = option(
        "print all about one sample instead: question, prompt, reply, what was read, scores, the judge's words",
        default=None, metavar="ID", exclusive=LISTS,
    )  # fmt: skip
    wrong: bool = option("list the samples that lost points instead, worst first", default=False, exclusive=LISTS)
    task: str | None = option("--sample, --wrong: of this task only", default=None, metavar="TASK")
    limit: int = option(f"--wrong: number of samples listed (default {LIMIT})", default=LIMIT, least=1, needs="wrong")
    images: Path | None = option(
        "--sample: write its pictures there, with the answer and the reference of points and boxes", default=None,
        metavar="DIR", needs="sample", expert=True,
    )  # fmt: skip
    force: bool = option("compare: even if data, judge or prompts differ", default=False)
    routes: str | None = option(
        "driven routes of official Bench2Drive files, and of runs on a suite that is not here (default: the suite of "
        "the run; for files bench2drive220)",
        default=None,
        metavar="FILE|DIR|SUITE",
    )
    traffic_signs: Literal["v0.0.3", "v0.0.4"] | None = option(
        "drives: variant of Bench2Drive's ability Traffic_Signs, for all runs (default: that of each run's suite)",
        default=None, expert=True,
    )  # fmt: skip
    breakdowns: bool = option(
        "also print tables by sub-task, source, weather, severity, and of drives by scenario type and route",
        default=False,
    )
    kinds: Literal["all", "paper"] = option(
        "wrong answers of AutoDrive-QA by the kind of the chosen option: shares over all kinds (default), or over the "
        "three groups of the paper's Table 7",
        default="all",
        expert=True,
    )
    distractors: tuple[str, str] | None = option(
        "compare: two sets of distractors (naive, all, a category) of the same questions, paired by question",
        default=None, metavar=("SET_A", "SET_B"), expert=True,
    )  # fmt: skip
    tasks: tuple[str, str] | None = option(
        "compare: two tasks on the same data, paired by record, else by image: the gain of a chain of thought, the "
        "effect of a visual prompt",
        default=None, metavar=("TASK_A", "TASK_B"), expert=True,
    )  # fmt: skip


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "report",
        run,
        ReportOptions,
        help="print tables of finished runs in the layout of the papers; write a page; compare runs",
        usage="ad2 report RESULTS... [--html PAGE.html] [--wide | --markdown | --json] [--published] [--breakdowns]\n"
        "                  [--routes FILE]\n"
        "       ad2 report RESULTS... --unparsed [--markdown | --json]\n"
        "       ad2 report RUN... --sample ID [--task TASK] [--json]\n"
        "       ad2 report RUN... --wrong [--task TASK] [--limit N] [--json]\n"
        "       ad2 report compare A B [--html PAGE.html] [--json | --markdown] [--force] [--routes FILE]\n"
        "       ad2 report compare RUN [RUN] --config 'distractors=[naive, all]' [--json | --markdown] [--force]\n"
        "       ad2 report compare RUN [RUN] --config 'tasks=[ad2_cot, ad2_reasoning]' [--json | --markdown] [--force]",
        description="RESULTS are run folders, folders of them, or official Bench2Drive result files. 'compare' tests "
        "two runs against each other, paired by sample, with Holm's correction over the tasks (write ./compare for a "
        "folder of that name). Run folders of `ad2 drive run` and official files are paired by route.",
    )


def run(options: ReportOptions) -> int:
    _refuse_both(options)
    if options.results[0] == COMPARE:
        return _compare(options)
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.report import tables
    from lmms_eval_ad2.report.published import own_tables

    if options.force:
        raise Ad2Error("--force is an option of: ad2 report compare A B")
    if options.distractors or options.tasks:
        name = "distractors" if options.distractors else "tasks"
        raise Ad2Error(f"--config {name} is an option of: ad2 report compare RUN [RUN]")
    paths = [Path(p) for p in options.results]
    if options.unparsed:
        return _unparsed(options, paths)
    if options.sample is not None or options.wrong:
        return _samples(options, paths)
    if options.task:
        raise Ad2Error("--task is an option of --sample and --wrong")
    own = own_tables(options.published_file) if options.published_file else None
    by_kind, covered = _results(paths)
    driven = {"published": not options.no_published, **_drive_options(options)}
    sections = [kind.report(results, **driven) for kind, results in by_kind]
    paths = [path for path in paths if path not in covered or report.holds_runs(path)]
    # Reports on stderr what it leaves out.
    runs = report.with_floors(report.load(paths)) if paths else []
    known = dict.fromkeys(task.benchmark for each in runs for task in each.tasks.values())
    if own and not own.keys() & known:
        have = f"the runs have {', '.join(known)}" if known else "there is no run of a benchmark in these paths"
        raise Ad2Error(f"{options.published_file}: rows of {', '.join(own)}, but {have}")
    if (options.routes or options.traffic_signs) and not sections:
        raise Ad2Error("--routes and traffic_signs are for driven results; there are none in these paths")
    if options.json:
        figures = tables.as_json(runs, published=not options.no_published, kinds=options.kinds, own=own)
        _print_json({**figures, **{section.name: section.data for section in sections}})
    else:
        if runs:
            shape = {"markdown": options.markdown, "breakdowns": options.breakdowns, "wide": options.wide}
            text = tables.render(runs, published=_in_text(options), kinds=options.kinds, own=own, **shape)
            print(text, end="\n" if sections else "")
        _print(sections, options)
    if options.html:
        _write_page(options, options.html, sections, runs, report.unfinished(paths), own)
    return 0


def _refuse_both(options: ReportOptions) -> None:
    from lmms_eval_ad2.core.errors import Ad2Error

    if options.published and options.no_published:
        raise Ad2Error("--published and --config no_published=true contradict each other; omit one")
    if options.distractors and options.tasks:
        raise Ad2Error("--config distractors and --config tasks are two comparisons; name one of them")


def _in_text(options: ReportOptions) -> bool:
    """True if the printed tables have the papers' figures: in a terminal only if asked for."""
    named = options.published_file is not None and not options.no_published
    return options.published or named or (options.markdown and not options.no_published)


def _shapes_tables(options: ReportOptions) -> bool:
    """True if an option of the tables is given that a list does not have."""
    return bool(options.html or options.breakdowns or options.routes or options.traffic_signs or options.wide)


def _unparsed(options: ReportOptions, paths: Sequence[Path]) -> int:
    """List unread replies of all kinds of runs."""
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.report import unread

    if _shapes_tables(options) or options.kinds != "all":
        raise Ad2Error("--unparsed is a list of its own: only --json and --markdown go with it")
    by_kind, covered = _results(paths)
    rest = [path for path in paths if path not in covered or report.holds_runs(path)]
    found = unread.unread(report.load(rest)) if rest else []
    found = unread.by_count([*found, *(one for kind, results in by_kind for one in kind.unread(results))])
    if options.json:
        _print_json({"unread": [asdict(one) for one in found]})
    else:
        print(unread.render(found, markdown=options.markdown), end="")
    return 0


def _samples(options: ReportOptions, paths: Sequence[Path]) -> int:
    """Print one sample in all tasks of all runs that have it, or the samples that lost points, worst first."""
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.report import sample_pictures, samples

    if _shapes_tables(options) or options.markdown:
        raise Ad2Error("--sample and --wrong print lists of their own: of the other options only --json goes with them")
    runs = report.load(paths)
    if options.sample is None:
        lost = samples.lost_points(runs, options.task, options.limit)
        if options.json:
            _print_json({"wrong": asdict(lost)})
        else:
            print(samples.render_lost(lost, [str(path) for path in paths]), end="")
        return 0
    found = samples.find(runs, options.sample, options.task)
    if options.json:
        _print_json({"samples": [samples.as_json(one) for one in found]})
    else:
        print("\n".join(samples.render_sample(one) for one in found), end="")
    for number, one in enumerate(found, 1) if options.images else ():
        for line in sample_pictures.save(one.row, one.task, Path(str(options.images)), number):
            if not options.json:
                show(line)
    return 0


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


def _drive_options(options: ReportOptions) -> dict[str, Any]:
    """The options for driven results; a kind of another package receives a variant only if one is chosen."""
    signs = {"traffic_signs": options.traffic_signs} if options.traffic_signs else {}
    return {"routes": options.routes, **signs}


def _results(paths: Sequence[Path]) -> tuple[list[tuple[RunKind, list[Path]]], set[Path]]:
    """(the results at or below the paths by run kind, the paths with such results)."""
    from lmms_eval_ad2.core import plugins

    found: list[tuple[RunKind, list[Path]]] = []
    covered: set[Path] = set()
    for kind in plugins.loaded(plugins.RUN_KINDS):
        by_path = {path: results for path in paths if (results := kind.find(path))}
        covered |= by_path.keys()
        results = list({result.resolve(): result for some in by_path.values() for result in some}.values())
        if results:
            found.append((kind, results))
    return found, covered


def _print(sections: Sequence[ReportSection], options: ReportOptions) -> None:
    shape = {"markdown": options.markdown, "details": options.breakdowns, "wide": options.wide}
    for section in sections:
        print(section.render(published=_in_text(options), **shape), end="")


def _write_page(
    options: ReportOptions, path: Path, sections: Sequence[ReportSection], runs: Sequence[RunSummary] = (),
    unfinished: Sequence[Path] = (), own: Mapping[str, PublishedTable] | None = None,
) -> None:  # fmt: skip
    made = not path.absolute().parent.exists()
    from lmms_eval_ad2.report.page import report_page

    published = not options.no_published
    report_page.write(
        runs, path, published=published, unfinished=unfinished, sections=sections, kinds=options.kinds, own=own,
    )  # fmt: skip
    if not options.json:
        show(f"\nreport page: {path}" + (f" (made the folder {path.parent})" if made else ""))


def _compare(options: ReportOptions) -> int:
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.report import compare, load
    from lmms_eval_ad2.scoring.metrics.intervals import METHOD

    if options.kinds != "all":
        raise Ad2Error("--config kinds is an option of the tables: ad2 report RUN... --config kinds=paper")
    if options.unparsed or options.sample is not None or options.wrong or options.task:
        raise Ad2Error(
            "--unparsed, --sample, --wrong and --task list the samples of runs: ad2 report RUN... --unparsed"
        )
    in_one = options.distractors or options.tasks  # two sets of distractors, or two tasks, in one run
    if not (len(options.results) == 3 or (in_one and len(options.results) == 2)):
        raise Ad2Error(
            "usage: ad2 report compare A B [--json] [--markdown] [--force] [--config 'distractors=[SET_A, SET_B]' | "
            "--config 'tasks=[TASK_A, TASK_B]']"
        )
    if not in_one and _compared_by_kind(options):
        return 0
    if options.html or options.routes or options.traffic_signs:
        raise Ad2Error(
            "--html, --routes and traffic_signs of compare are for drives: this pair is compared as text, Markdown "
            "or JSON"
        )
    folders = [_one(path) for path in (options.results[1], options.results[-1])]
    if folders[0].resolve() == folders[1].resolve() and not in_one:
        raise Ad2Error(f"{folders[0]}: compared with itself; name two runs")
    # Loaded together, so that two runs of one model get different names.
    by_folder = {run.folder.resolve(): run for run in load(folders)}
    a, b = (by_folder[folder.resolve()] for folder in folders)
    sets, tasks = options.distractors, options.tasks
    if sets:
        rows = compare.compare_sets(a, b, sets, force=options.force)
    elif tasks:
        rows = compare.compare_tasks(a, b, tasks, force=options.force)
    else:
        rows = compare.compare(a, b, force=options.force)
    if options.json:
        about = {
            "a": str(a.folder), "b": str(b.folder), "interval_method": METHOD, "tasks": [asdict(row) for row in rows],
        }  # fmt: skip
        _print_json(about)
    else:
        print(compare.render(a, b, rows, markdown=options.markdown, sets=sets, tasks=tasks), end="")
    return 0


def _compared_by_kind(options: ReportOptions) -> bool:
    """Compare and print two runs of a kind that a plugin declares; False if neither is of such a kind."""
    from lmms_eval_ad2.core import plugins
    from lmms_eval_ad2.core.errors import Ad2Error

    a, b = (Path(path) for path in options.results[1:])
    for kind in plugins.loaded(plugins.RUN_KINDS):
        which = [kind.recognises(folder) for folder in (a, b)]
        if not any(which):
            continue
        if not all(which):
            other = b if which[0] else a
            raise Ad2Error(f"{other}: not {kind.about}, unlike the other; both must be of one kind")
        if a.resolve() == b.resolve():
            raise Ad2Error(f"{a}: compared with itself; name two runs")
        published = not options.no_published
        section = kind.compare(a, b, force=options.force, published=published, **_drive_options(options))
        if options.json:
            _print_json(section.data)
        else:
            _print([section], options)
        if options.html:
            _write_page(options, options.html, [section])
        return True
    return False


def _one(path: str) -> Path:
    """The folder of the one run at or below `path`."""
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.report import load

    runs = load([Path(path)])
    if len(runs) != 1:
        raise Ad2Error(f"{path}: expected one run, found {len(runs)}: {', '.join(str(r.folder) for r in runs)}")
    return runs[0].folder
