"""`ad2 merge`: join the shards of a run, of `ad2 eval` or of another run kind (`ad2 drive run`), into one folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.core.plugins import RunKind


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """`ad2 merge`."""

    out: Path = option("folder of the merged run", metavar="OUT", positional=True)
    folders: tuple[Path, ...] = option("run folders with shards, or folders above them", metavar="DIR", positional=True)
    partial: bool = option("merge although shards or episodes are missing; the tables state it", default=False)


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "merge",
        run,
        MergeOptions,
        help="join the shards of one run of `ad2 eval` or `ad2 drive run`",
        description="Join the folders of `ad2 eval --shard i/N` or `ad2 drive run --shard i/N` (equal arguments, any "
        "machines) into OUT, whose tables are those of one run on one machine. Models, judges and data are not needed. "
        "Frames and videos of drives are not copied.",
    )


def run(options: MergeOptions) -> int:
    """Return 0; raises Ad2Error if the folders are not all shards of one run."""
    kinds = {folder: _kind(folder) for folder in options.folders}
    first = kinds[options.folders[0]]
    for folder, kind in kinds.items():
        if kind is not first:
            _refuse(options.folders[0], first, folder, kind)
    if first is None or first.merge is None:
        show(_evaluations(options))
    else:
        folders = [part for folder in options.folders for part in first.parts(folder)]
        show(first.merge(options.out, folders, partial=options.partial))
    return 0


def _refuse(one: Path, kind: RunKind | None, other: Path, other_kind: RunKind | None) -> None:
    from lmms_eval_ad2.core.errors import Ad2Error

    names = [found.name if found else "eval" for found in (kind, other_kind)]
    raise Ad2Error(f"{one} holds runs of ad2 {names[0]} and {other} of ad2 {names[1]}: merge them apart")


def _kind(folder: Path) -> RunKind | None:
    """The run kind of the folder; None: runs of `ad2 eval`."""
    from lmms_eval_ad2.core import plugins
    from lmms_eval_ad2.core.errors import Ad2Error

    if not folder.is_dir():
        raise Ad2Error(f"{folder}: no such folder")
    return next((kind for kind in plugins.loaded(plugins.RUN_KINDS) if kind.merge and kind.parts(folder)), None)


def _evaluations(options: MergeOptions) -> str:
    """Merge runs of `ad2 eval`; returns their tables."""
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.report import tables
    from lmms_eval_ad2.scoring.merge import merge_shards
    from lmms_eval_ad2.storage.shards import shards_text

    merged = merge_shards(options.out, _shards(options.folders, options.partial), partial=options.partial)
    text = tables.render(report.with_floors(report.load([options.out])))
    return f"{text}\nmerged {shards_text(merged.included, merged.of)} into {options.out}"


def _shards(folders: Sequence[Path], partial: bool) -> list[Path]:
    """The finished run folders at or below these folders. Raises Ad2Error if there is none, and unless `partial` for
    unfinished ones."""
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.core.errors import Ad2Error

    found = [summary.parent for folder in folders for summary in sorted(folder.rglob("summary.json"))]
    for folder in report.unfinished(folders):
        if not partial:
            raise Ad2Error(f"{folder}: an unfinished shard: run its command again, it continues")
        show(f"ad2: {folder}: unfinished, left out", file=sys.stderr)
    if not found:
        raise Ad2Error(f"{', '.join(map(str, folders))}: no shard of `ad2 eval --shard i/N` or `ad2 drive run --shard`")
    return list({folder.resolve(): folder for folder in found}.values())
