"""One reader per release: annotation files on disk -> Record. The interface is `releases()[name].open(...)`.

Other distributions add readers as entry points of the group `ad2.releases` (docs/own-benchmark.md).
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping

from lmms_eval_ad2.core import plugins
from lmms_eval_ad2.core.errors import Ad2Error
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

RELEASES: dict[str, BenchmarkRelease] = {
    module.RELEASE.name: module.RELEASE
    for module in (ad2_bench, coda_lm, drivelm, nuscenes_qa, lingoqa, autodrive_qa, world, record_rows)
}


@functools.cache
def releases() -> Mapping[str, BenchmarkRelease]:
    """The readers of this package, then those of other distributions; one warning for each that cannot be used."""
    found = dict(RELEASES)
    for release in plugins.loaded(plugins.RELEASES):
        if not isinstance(release, BenchmarkRelease):
            fault = f"expected a BenchmarkRelease, found {type(release).__name__}"
        elif release.name in found:
            fault = f"there is a release '{release.name}' already"
        else:
            found[release.name] = release
            continue
        plugins.warn(f"an entry of {plugins.RELEASES} is left out: {fault}")
    return found


def find_release(name: str) -> BenchmarkRelease:
    """The release called `name`; raises Ad2Error with the nearest name if there is none."""
    known = releases()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise Ad2Error(f"no release '{name}': {hint}known: {', '.join(known)}")


__all__ = ["RELEASES", "BadRow", "BenchmarkRelease", "Item", "OmittedRow", "OpenedRelease", "find_release", "releases"]
