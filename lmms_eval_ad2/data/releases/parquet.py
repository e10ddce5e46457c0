"""Read and write parquet files (the only module that imports pyarrow)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error, DataError, require
from lmms_eval_ad2.storage.files import atomic_path


def _open(path: Path) -> Any:
    parquet = require("pyarrow.parquet", "to read parquet files")
    arrow = require("pyarrow")
    try:
        return parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as exc:
        raise Ad2Error(f"{path} is not a readable parquet file: {exc}") from exc


def read_rows(path: Path, columns: Sequence[str], batch: int = 256) -> Iterator[dict[str, Any]]:
    """Rows as dicts, in file order, `batch` rows in memory at a time.

    Raises DataError for a missing column, Ad2Error for a damaged file.
    """
    arrow = require("pyarrow")
    file = _open(path)
    try:
        for column in columns:
            if column not in file.schema_arrow.names:
                raise DataError(path, None, column, "a column of this name", list(file.schema_arrow.names))
        try:
            for rows in file.iter_batches(batch_size=batch, columns=list(columns)):
                yield from rows.to_pylist()
        except (arrow.ArrowException, OSError) as exc:
            raise Ad2Error(f"{path} is damaged: {exc}") from exc
    finally:
        file.close()


def write_rows(path: Path, columns: Mapping[str, Sequence[str]]) -> None:
    """Write string columns to `path` atomically."""
    arrow = require("pyarrow", "to write the data home")
    parquet = require("pyarrow.parquet")
    table = arrow.table({name: arrow.array(list(values), arrow.string()) for name, values in columns.items()})
    with atomic_path(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def release_memory() -> None:
    """Return Arrow's freed buffers to the system; otherwise its pool grows during a long import."""
    require("pyarrow").default_memory_pool().release_unused()
