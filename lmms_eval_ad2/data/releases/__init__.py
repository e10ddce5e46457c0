"""One reader per release: annotation files on disk -> Record. The interface is `RELEASES[name].open(...)`."""

from __future__ import annotations

import difflib

from lmms_eval_ad2.data.releases import (
    ad2_bench,
    autodrive_qa,
    coda_lm,
    drivelm,
    lingoqa,
    nuscenes_qa,
    record_rows,
    world,
)
from lmms_eval_ad2.data.releases.base import BadRow, BenchmarkRelease, Item, OmittedRow, OpenedRelease
from lmms_eval_ad2.errors import Ad2Error

RELEASES: dict[str, BenchmarkRelease] = {
    module.RELEASE.name: module.RELEASE
    for module in (ad2_bench, coda_lm, drivelm, nuscenes_qa, lingoqa, autodrive_qa, world, record_rows)
}


def find_release(name: str) -> BenchmarkRelease:
    """The release called `name`; raises Ad2Error with the nearest name if there is none."""
    if name in RELEASES:
        return RELEASES[name]
    near = difflib.get_close_matches(name, RELEASES, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise Ad2Error(f"no release '{name}': {hint}known: {', '.join(RELEASES)}")


__all__ = ["RELEASES", "BadRow", "BenchmarkRelease", "Item", "OmittedRow", "OpenedRelease", "find_release"]
