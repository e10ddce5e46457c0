"""A third-party distribution with entry points, as installed by pip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from lmms_eval_ad2.core import plugins


@contextmanager
def installed(
    folder: Path, entries: Mapping[str, str], modules: Mapping[str, str], name: str = "someone-elses"
) -> Iterator[None]:
    """`entries`: group -> its lines of entry_points.txt. `modules`: file name -> text.

    Clears the cache of loaded plugins before and after.
    """
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("".join(f"[{group}]\n{lines}\n" for group, lines in entries.items()))
    for file, text in modules.items():
        (folder / file).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        _forget()
        yield
    _forget()


def _forget() -> None:
    plugins.loaded.cache_clear()
    plugins._reported.clear()
