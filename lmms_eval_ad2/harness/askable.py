"""Which records of a dataset fit a task: those of its part with the form, visual prompt and language of its variant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home.parts import COLUMNS
from lmms_eval_ad2.data.releases import parquet
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.scoring.variant import TaskVariant

if TYPE_CHECKING:
    from lmms_eval_ad2.data.home import Dataset

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
