"""Our task files, read without importing lmms-eval: names, groups, data, and whether their data can be asked."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from lmms_eval_ad2.core.coordinates import ENV as FRAME_ENV
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home.parts import COLUMNS
from lmms_eval_ad2.data.releases import parquet
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage import user_yaml

if TYPE_CHECKING:
    from lmms_eval_ad2.core.plugins import TaskSource
    from lmms_eval_ad2.data.home import Dataset
    from lmms_eval_ad2.scoring.variant import TaskVariant

# Which records of a dataset fit a task: those of its part with the form, visual prompt and language of its variant.

# Text that the canonical JSON of every record with options (steps) contains. Searching for it is a hundred times
# faster than reading the records, of which a training split may have 100,000 that do not fit.
_OPTIONS, _STEPS = '"options":[{', '"steps":[{'
_NO_ENGLISH = '{"en":""'  # of every text that has no English


def part_table(source: Dataset, variant: TaskVariant) -> Any:
    """Return the records of the variant's part as a table."""
    import pyarrow as pa

    return pa.concat_tables(list(_part_tables(source, variant)))


def _part_tables(source: Dataset, variant: TaskVariant) -> Iterator[Any]:
    """Raises Ad2Error for a damaged file."""
    import pyarrow.compute as pc

    for path in source.parts:
        table = parquet.read_table(path, COLUMNS)
        yield table.filter(pc.equal(table["task"], variant.part))


def records_of(table: Any) -> Iterator[Record]:
    """Yield the records of a table, with one chunk of text in memory at a time. Raises Ad2Error for a damaged one."""
    try:
        for chunk in table["record"].chunks:
            yield from map(Record.from_json, chunk.to_pylist())
    except (ValueError, KeyError, TypeError) as exc:
        name = table["benchmark"][0].as_py()
        raise Ad2Error(f"a stored record of {name} is damaged ({exc}); find it: ad2 data verify {name}") from exc


def askable(table: Any, variant: TaskVariant) -> Any:
    """Keep only the records that fit the variant (a canonical task asks every record of its part in its language)."""
    if _asks_all(variant) and _all_in_language(table, variant):
        return table
    import pyarrow as pa

    table = _candidates(table, variant)
    keep = [can_ask(record, variant) for record in records_of(table)]
    return table.filter(pa.array(keep, pa.bool_()))


def has_askable(source: Dataset, variant: TaskVariant) -> bool:
    """Whether a record of the dataset fits the variant; reads records only until the first one that does."""
    if not source.manifest.counts.get("task", {}).get(variant.part):
        return False
    if _asks_all(variant) and variant.benchmark not in task_prompt.BILINGUAL:
        return True
    candidates = (_candidates(table, variant) for table in _part_tables(source, variant))
    return any(can_ask(record, variant) for table in candidates for record in records_of(table))


def nothing_to_ask(source: Dataset, variant: TaskVariant) -> str:
    """The message for a dataset without a record that fits the variant."""
    in_part = source.manifest.counts.get("task", {}).get(variant.part, 0)
    fit = f" that fit this variant ({variant.changes()})" if in_part else ""
    return (
        f"dataset '{source.name}' ({source.split}) has no records of part '{variant.part}'{fit}; "
        f"see: ad2 data verify {source.name}"
    )


def can_ask(record: Record, variant: TaskVariant) -> bool:
    """Whether the record has the form, the visual prompt and the language that the variant needs."""
    if variant.circular and variant.asked_form(record) != "mc":
        return False
    return task_prompt.can_ask(record, variant)


def _asks_all(variant: TaskVariant) -> bool:
    plain = variant.form is None and variant.style == "direct" and not (variant.rounds or variant.circular)
    return plain and variant.mark == "native" and not variant.coords


def _all_in_language(table: Any, variant: TaskVariant) -> bool:
    """Whether the records need not be read to know that all have the language of the variant."""
    if variant.benchmark not in task_prompt.BILINGUAL:
        return True
    import pyarrow.compute as pc

    return variant.lang == "en" and not pc.any(pc.match_substring(table["record"], _NO_ENGLISH)).as_py()


def _candidates(table: Any, variant: TaskVariant) -> Any:
    """Drop records that cannot fit: without options for a variant of form mc, without steps for a chain."""
    needed = {"mc": _OPTIONS, "chain": _STEPS}.get("mc" if variant.circular else variant.named_form or "")
    if needed is None:
        return table
    import pyarrow.compute as pc

    return table.filter(pc.match_substring(table["record"], needed))


RECORDS = "ad2:"  # before the name of a dataset in `dataset_path`
SAMPLE = "sample_"  # prefix of the bundled datasets, which are imported when they are first read


class _Loader(user_yaml.BoundedLoader):
    """Reads lmms-eval's `!function` tags as text; nothing is imported."""


_Loader.add_constructor("!function", lambda loader, node: node.value)


def variant_of(settings: Mapping[str, Any], task: str) -> TaskVariant:
    """The variant of a task's `metadata: ad2:` block, in the coordinate frame of this run (AD2_FRAME) if it has one."""
    from lmms_eval_ad2.scoring.variant import TaskVariant

    variant = TaskVariant.from_dict(settings, f"task {task}")
    frame = os.environ.get(FRAME_ENV)
    return variant.with_frame(frame, FRAME_ENV) if frame else variant


@dataclass(frozen=True, slots=True)
class TaskReadiness:
    """Whether a task can be asked; `reason` is one line for the user if it cannot."""

    state: Literal["ready", "no data", "damaged", "no images", "nothing to ask"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """The entries of a task's YAML file that are used without lmms-eval.

    `settings`: the block `metadata: ad2:`; empty for tasks on other data than records (the closed loop).
    """

    name: str
    dataset: str
    split: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    generation: Mapping[str, Any] = field(default_factory=dict)

    def variant(self) -> TaskVariant:
        """The task's variant, in the coordinate frame of this run."""
        return variant_of(self.settings, self.name)

    def ready(self) -> bool:
        return self.readiness().state == "ready"

    def readiness(self) -> TaskReadiness:
        """Read as little as possible: the manifest, and records only until the first one that fits the variant."""
        if ":" in self.dataset:
            source = self._source()
            there = source is not None and source.ready(self.dataset.removeprefix(source.prefix))
            return TaskReadiness("ready") if there else TaskReadiness("no data", f"not there: {self.hint()}")
        if self.dataset.startswith(SAMPLE):
            return TaskReadiness("ready")
        from lmms_eval_ad2.data.home import open_dataset
        from lmms_eval_ad2.data.home.dataset import DamagedDatasetError, load_dataset

        try:
            data = load_dataset(self.dataset, self.split)
        except DamagedDatasetError as exc:
            return TaskReadiness("damaged", str(exc))
        except Ad2Error as exc:
            return TaskReadiness("no data", str(exc))
        try:
            open_dataset(self.dataset, self.split)
        except Ad2Error as exc:
            return TaskReadiness("no images", str(exc))
        variant = self.variant()
        try:
            if has_askable(data, variant):
                return TaskReadiness("ready")
        except Ad2Error as exc:
            return TaskReadiness(
                "damaged", f"dataset {self.dataset} ({self.split}): {exc}; import it again: {self.hint()}"
            )
        return TaskReadiness("nothing to ask", nothing_to_ask(data, variant))

    def _source(self) -> TaskSource | None:
        """The plugin that provides the data if they are no release (the closed loop's suites of routes)."""
        from lmms_eval_ad2.core import plugins

        found = plugins.loaded(plugins.TASK_SOURCES)
        return next((source for source in found if self.dataset.startswith(source.prefix)), None)

    def hint(self) -> str:
        if ":" in self.dataset:
            source = self._source()
            if source is None:
                return f"install the package that reads {self.dataset}"
            return str(source.hint(self.dataset.removeprefix(source.prefix)))
        from lmms_eval_ad2.data.releases import releases

        split = "" if self.split == "test" else f" --split {self.split}"
        # A dataset in the layout of a release under another name: autodrive_qa_naive.
        release = self.dataset
        if release not in releases():  # else a file of records
            release = next((name for name in releases() if self.dataset.startswith(f"{name}_")), "records")
        named = f" --as {self.dataset}" if release != self.dataset else ""
        return f"ad2 data import {release} SOURCE{split}{named}"


def tasks_dir() -> Path:
    """The folder of YAML files: lmms_eval_ad2/tasks if installed, tasks/ in a checkout."""
    package = Path(__file__).resolve().parents[1]
    return package / "tasks" if (package / "tasks").is_dir() else package.parent / "tasks"


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a task file and merge its `include`, as lmms-eval does."""
    data = user_yaml.parse(path.read_text("utf-8"), _Loader) or {}
    if "include" in data:
        base = load_yaml(path.parent / data.pop("include"))
        data = {**base, **data}
    return dict(data)


def _task_file(data: Mapping[str, Any]) -> TaskFile:
    """The task of a YAML file."""
    metadata = data.get("metadata") or {}
    return TaskFile(
        data["task"], str(data["dataset_path"]).removeprefix(RECORDS), data.get("test_split", "test"),
        str(metadata.get("about", "")), metadata.get("ad2") or {}, data.get("generation_kwargs") or {},
    )  # fmt: skip


@functools.cache
def catalogue() -> tuple[TaskFile, ...]:
    """All our tasks (not the groups), sorted by name."""
    files = (load_yaml(path) for path in sorted(tasks_dir().rglob("*.yaml")) if not path.name.startswith("_"))
    found = [_task_file(data) for data in files if isinstance(data.get("task"), str)]
    return tuple(sorted(found, key=lambda task: task.name))


@dataclass(frozen=True, slots=True)
class IncludedFiles:
    """The YAML files of a folder that lmms-eval reads too (--include_path).

    `tasks`: the tasks on records, which have a block `metadata: ad2:`; `groups`: names of their members; `names`: all
    tasks, groups and tags.
    """

    tasks: Mapping[str, TaskFile] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()


def included(folder: str | Path | None) -> IncludedFiles:
    """Read a user's folder of tasks; files that are no YAML are left to lmms-eval."""
    if not folder:
        return IncludedFiles()
    tasks: dict[str, TaskFile] = {}
    groups: dict[str, tuple[str, ...]] = {}
    names: set[str] = set()
    for path in sorted(Path(folder).rglob("*.yaml")):
        try:
            data = load_yaml(path)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, yaml.YAMLError):
            continue
        for key in ("task", "group", "tag"):
            found = data.get(key)
            names.update(name for name in (found if isinstance(found, list) else [found]) if isinstance(name, str))
        if isinstance(data.get("group"), str) and isinstance(data.get("task"), list):
            groups[data["group"]] = tuple(name for name in data["task"] if isinstance(name, str))
        metadata = data.get("metadata")
        ours = isinstance(metadata, Mapping) and isinstance(metadata.get("ad2"), Mapping)
        if ours and isinstance(data.get("task"), str) and str(data.get("dataset_path")).startswith(RECORDS):
            tasks[data["task"]] = _task_file(data)
    return IncludedFiles(tasks, groups, frozenset(names))


def task_files() -> dict[str, TaskFile]:
    """All our tasks by name."""
    return {task.name: task for task in catalogue()}


@functools.cache
def groups() -> dict[str, tuple[str, ...]]:
    """Our groups, whose names are the stems of their files, and the tasks of each, sorted by name."""
    files = sorted(tasks_dir().rglob("bench_*.yaml"), key=lambda p: p.stem)
    return {path.stem: tuple(str(task) for task in load_yaml(path)["task"]) for path in files}
