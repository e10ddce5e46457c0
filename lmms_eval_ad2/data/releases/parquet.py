"""Read and write parquet files (the only module that imports pyarrow)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError, require
from lmms_eval_ad2.storage.files import atomic_path, open_regular

_STATUS = Path("/proc/self/status")
MAGIC = b"PAR1"  # first and last bytes of a parquet file

BATCH_MEMORY = 512 << 20  # bytes that a batch of rows of an untrusted file may need; 2 kB can unpack to many GB


def _open(path: Path) -> Any:
    parquet = require("pyarrow.parquet", "to read parquet files")
    arrow = require("pyarrow")
    usual = arrow.default_memory_pool()
    # Used for all reads of this file. Arrow's own allocator reserves 1 GiB at once, which no limit counts.
    arrow.set_memory_pool(arrow.system_memory_pool())
    try:
        return parquet.ParquetFile(path, buffer_size=1 << 20)
    except (arrow.ArrowException, OSError) as exc:
        raise Ad2Error(f"{path} is not a readable parquet file: {' '.join(str(exc).split())}") from exc
    finally:
        arrow.set_memory_pool(usual)


def read_rows(
    path: Path, columns: Sequence[str], batch: int = 256, *, trusted: bool = False
) -> Iterator[dict[str, Any]]:
    """Rows as dicts, in file order, `batch` rows in memory at a time, with at most BATCH_MEMORY (Linux).

    trusted: a file that this package wrote, whose rows are bounded already. Raises DataError for a missing column,
    Ad2Error for a damaged file, and for rows that need too much memory.
    """
    arrow = require("pyarrow")
    limit = contextlib.nullcontext if trusted else _limited_memory
    try:
        with limit(), open_regular(path):  # refuses a FIFO
            file = _open(path)
        with file:
            for column in columns:
                if column not in file.schema_arrow.names:
                    raise DataError(path, None, column, "a column of this name", list(file.schema_arrow.names))
            batches = file.iter_batches(batch_size=batch, columns=list(columns), use_threads=trusted)
            while True:
                with limit():
                    found = next(batches, None)
                    rows = None if found is None else found.to_pylist()
                if rows is None:
                    return
                yield from rows
    except MemoryError:
        raise Ad2Error(f"{path}: {batch} rows need more than {BATCH_MEMORY >> 20} MiB: not read") from None
    except (arrow.ArrowException, OSError) as exc:
        raise Ad2Error(f"{path} {_line(exc)}") from exc


def read_table(path: Path, columns: Sequence[str]) -> Any:
    """A file that this package wrote, as a table mapped into memory. Raises Ad2Error if it is damaged."""
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    try:
        return parquet.read_table(path, columns=list(columns), memory_map=True)
    except (arrow.ArrowException, OSError) as exc:
        raise Ad2Error(f"{path} {_line(exc)}") from exc


def _line(exc: Exception) -> str:
    """What is wrong with a file, in one line: messages of Arrow may have several. An error number is of the disk."""
    what = "cannot be read" if getattr(exc, "errno", None) is not None else "is damaged"
    return f"{what}: {' '.join(str(exc).split())}"


def is_cut(path: Path) -> bool:
    """Whether a file lacks the marks at both ends of every parquet file: cut off, overwritten, or empty.

    Reads 8 bytes, without pyarrow. Damage between the ends is found when the file is read.
    """
    with open_regular(path) as file:
        size = file.seek(0, 2)
        ends = b""
        for place in (0, max(0, size - len(MAGIC))):
            file.seek(place)
            ends += file.read(len(MAGIC))
    return ends != 2 * MAGIC or size < 3 * len(MAGIC)


@contextlib.contextmanager
def _limited_memory() -> Iterator[None]:
    """Within the block, allocating BATCH_MEMORY more than now raises MemoryError. No effect outside Linux."""
    if not _STATUS.exists():
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    now = next(int(line.split()[1]) << 10 for line in _STATUS.read_text().splitlines() if line.startswith("VmData"))
    bounds = [bound for bound in (now + BATCH_MEMORY, soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


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
