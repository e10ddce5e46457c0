"""`ad2 data`: import releases into the data home; list, count, verify and remove imported datasets."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.data.home.statistics import DatasetStatistics
from lmms_eval_ad2.report.table import Table

if TYPE_CHECKING:
    from lmms_eval_ad2.data.home import DatasetManifest, DatasetVerification

# `ad2 data list NAME`: records of a dataset by part and sub-task, weather and severity, or what else its records state.

NOT_STATED = "not stated"
_MOST_COLUMNS = 12  # more values of a condition are rows


def render(found: DatasetStatistics) -> str:
    """One table per condition: rows are parts and sub-tasks, columns the values of the condition.

    The cells of weather also have the numbers by severity.
    """
    blocks = [f"{found.name} ({found.split}): {found.n} records, sha256 {found.sha256[:16]}"]
    split = "severity" if {"weather", "severity"} <= set(found.conditions) else ""
    for condition in [name for name in found.conditions if name != split] or [""]:
        blocks.append(_table(found, condition, split if condition == "weather" else ""))
    return "\n\n".join(blocks)


def _table(found: DatasetStatistics, condition: str, split: str) -> str:
    """The table of one condition ("": only totals), with the numbers by the condition `split` in its cells."""
    kinds = sorted({key[:2] for key in found.counts})
    values = found.values(condition) if condition else []
    if condition and found.total(**{condition: ""}):
        values.append("")
    rows: list[Sequence[object]] = []
    for part, subtask in kinds:
        where = {"part": part, "subtask": subtask}
        cells = [_cell(found, split, **where, **{condition: value}) for value in values]
        rows.append((part, subtask, *cells, _cell(found, split, **where)))
    rows.append(("all", "", *(_cell(found, split, **{condition: value}) for value in values), _cell(found, split)))
    headers = ["part", "sub-task", *(value or NOT_STATED for value in values), "all"]
    if len(values) > _MOST_COLUMNS:
        names = ["/".join(filter(None, (str(row[0]), str(row[1])))) for row in rows]
        headers, rows = [condition, *names], [
            (header, *(row[i] for row in rows)) for i, header in enumerate(headers[2:], 2)
        ]  # fmt: skip
        text = Table(headers, rows, "l" + "r" * len(names)).plain()
    else:
        text = Table(headers, rows, "ll" + "r" * (len(values) + 1)).plain()
    title = f"by {condition}" if condition else "by part and sub-task"
    if split:
        title += f"; in brackets: {' / '.join(found.values(split))}"
        title += ", the rest states none" if found.total(**{split: ""}) else ""
    return f"{title}\n{text}"


def _cell(found: DatasetStatistics, split: str, **where: str) -> str:
    n = found.total(**where)
    if not (split and n):
        return str(n)
    return f"{n} ({'/'.join(str(found.total(**where, **{split: value})) for value in found.values(split))})"


@dataclass(frozen=True, kw_only=True)
class DataImportOptions:
    """`ad2 data import`."""

    release: str = option("name of the release, see `ad2 data list --layout`", metavar="NAME", positional=True)
    source: Path = option("the release's file or folder", metavar="SOURCE", positional=True)
    split: str | None = option("split (default: the release's own)", default=None)
    images: Path | None = option("folder that image paths are relative to", default=None, metavar="DIR")
    format: str | None = option(
        "format of a release that has several (coda_lm: raw, llava)", default=None, metavar="F", expert=True
    )
    metadata: Path | None = option(
        "COCO file of CODA's annotations: adds time and weather of the images (coda_lm, format raw)",
        default=None, metavar="FILE", expert=True,
    )  # fmt: skip
    skip_bad: bool = option("continue after bad rows; they are counted and listed", default=False)
    check_images: bool = option("decode every image; a broken one is a bad row", default=False, expert=True)
    partial: bool = option("accept other numbers of records than the release has, and missing images", default=False)
    name: str | None = option("store it under this name", default=None, flag="--as", metavar="NAME")
    no_resume: bool = option("restart instead of continuing an interrupted import", default=False, expert=True)


@dataclass(frozen=True, kw_only=True)
class DataListOptions:
    """`ad2 data list`."""

    name: str | None = option(
        "count the records of this dataset by part and sub-task, weather and severity, or what else they state",
        default=None, metavar="NAME", positional=True,
    )  # fmt: skip
    layout: bool = option(
        "print the file layout that an import of release NAME accepts instead (without NAME: all releases)",
        default=False,
    )
    json: bool = option("print the complete manifests, or every combination of counts, as JSON", default=False)


@dataclass(frozen=True, kw_only=True)
class DataVerifyOptions:
    """`ad2 data verify`."""

    name: str = option(metavar="NAME", positional=True)
    split: str | None = option("split (default: all that are imported)", default=None)
    images: Path | None = option(
        "first set the folder that image paths are relative to, after the images were moved", default=None,
        metavar="DIR",
    )  # fmt: skip
    decode: bool = option("decode every image and compare its size", default=False)
    json: bool = option("print JSON", default=False)


@dataclass(frozen=True, kw_only=True)
class DataRemoveOptions:
    """`ad2 data remove`."""

    name: str = option(metavar="NAME", positional=True)
    split: str | None = option("split (may be omitted if there is only one)", default=None)


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("data", help="import benchmarks; list and verify imported data")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(actions, "import", run_import, DataImportOptions, help="read a release from disk into the data home")
    add_command(
        actions, "list", run_list, DataListOptions,
        help="list the imported datasets, count the records of one, or print the file layout of a release",
    )  # fmt: skip
    add_command(
        actions,
        "verify",
        run_verify,
        DataVerifyOptions,
        help="check hashes, counts and records; exit code 1 if something is wrong",
    )
    add_command(
        actions, "remove", run_remove, DataRemoveOptions,
        help="remove an imported split from the data home, without asking; your images stay",
    )  # fmt: skip


def run_import(options: DataImportOptions) -> int:
    from lmms_eval_ad2.data.home import import_release

    manifest = import_release(
        options.release,
        options.source,
        split=options.split,
        images=options.images,
        fmt=options.format,
        metadata=options.metadata,
        name=options.name,
        skip_bad=options.skip_bad,
        check_images=options.check_images,
        partial=options.partial,
        resume=not options.no_resume,
    )
    show(_describe(manifest))
    for note in manifest.source.get("notes", ()):
        show(f"  {note}")
    for reason, number in manifest.left_out.items():
        show(f"  left out by design: {number} ({reason})")
    if manifest.bad_rows:
        from lmms_eval_ad2.data.home.manifest import split_dir

        where = split_dir(manifest.name, manifest.split) / "bad_rows.jsonl"
        show(f"  bad rows skipped: {manifest.bad_rows}, listed in {where}", file=sys.stderr)
    return 0


def run_list(options: DataListOptions) -> int:
    from lmms_eval_ad2.data.home import home, list_datasets
    from lmms_eval_ad2.data.home.dataset import damage

    if options.layout:
        return _print_layout(options.name)
    if options.name:
        return _print_statistics(options.name, options.json)
    manifests = list_datasets()
    if options.json:
        rows = [{**manifest.to_dict(), "damaged": damage(manifest) or None} for manifest in manifests]
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return 0
    if not manifests:
        print(f"no datasets in {home()}; ad2 data list --layout lists the releases that can be imported")
    for manifest in manifests:
        show(damage(manifest) or _describe(manifest))
    return 0


def _print_statistics(name: str, as_json: bool) -> int:
    from lmms_eval_ad2.data.home.dataset import load_dataset
    from lmms_eval_ad2.data.home.statistics import statistics

    found = [statistics(load_dataset(name, split)) for split in _splits(name, None)]
    if as_json:
        print(json.dumps([one.to_json() for one in found], ensure_ascii=False, indent=1))
    else:
        show("\n\n".join(map(render, found)))
    return 0


def _print_layout(name: str | None) -> int:
    from lmms_eval_ad2.data.releases import find_release, releases

    if name:
        print(find_release(name).schema, end="")
    else:
        print(Table(("release", "title"), [(r.name, r.title) for r in releases().values()]).plain())
    return 0


def run_remove(options: DataRemoveOptions) -> int:
    from lmms_eval_ad2.data.home.removal import remove

    done = remove(options.name, options.split)
    records = "an incomplete or damaged import" if done.n is None else f"{done.n} records"
    show(f"removed {done.name} ({done.split}): {records}; {', '.join(map(str, done.folders))}")
    for reason in done.kept:
        show(f"  kept: {reason}")
    if done.image_root:
        show(f"  images were not touched: {done.image_root}")
    return 0


def run_verify(options: DataVerifyOptions) -> int:
    from lmms_eval_ad2.data.home import relocate, verify

    splits = _splits(options.name, options.split)
    if options.images:
        for split in splits:
            relocate(options.name, split, options.images)
    verdicts = [verify(options.name, split, options.decode) for split in splits]
    if options.json:
        print(json.dumps([_verdict_dict(verdict) for verdict in verdicts], ensure_ascii=False, indent=1))
    else:
        for verdict in verdicts:
            _print_verdict(verdict)
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def _splits(name: str, split: str | None) -> list[str]:
    """The requested split, or all; "test" for an unknown name: its error message names the command to run."""
    from lmms_eval_ad2.data.home.dataset import splits_of

    return [split] if split else splits_of(name) or ["test"]


def _describe(manifest: DatasetManifest) -> str:
    tasks = ", ".join(f"{task} {number}" for task, number in manifest.counts["task"].items())
    return (
        f"{manifest.name} ({manifest.split}): {manifest.n} records [{tasks}], "
        f"images at {manifest.image_root}, sha256 {manifest.sha256[:16]}"
    )


def _verdict_dict(verdict: DatasetVerification) -> dict[str, Any]:
    return {
        "name": verdict.name, "split": verdict.split, "ok": verdict.ok, "n": verdict.n, "n_images": verdict.n_images,
        "n_problems": verdict.n_problems, "problems": list(verdict.problems),
    }  # fmt: skip


def _print_verdict(verdict: DatasetVerification) -> None:
    images = f", {verdict.n_images} images" if verdict.n_images else ""
    state = "ok" if verdict.ok else f"{verdict.n_problems} problems"
    show(f"{verdict.name} ({verdict.split}): {verdict.n} records{images}: {state}")
    for problem in verdict.problems:
        show(f"  {problem}")
    if verdict.n_problems > len(verdict.problems):
        print(f"  ... and {verdict.n_problems - len(verdict.problems)} more")
