"""Pack a generated threat suite as package data: python scripts/pack_threats.py DIR NAME

`ad2 drive run --suite NAME` then loads it. DIR is a finished folder of `ad2 threats generate`; scenarios that the suite
leaves out are not packed, their reasons are.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from closedloop_plugin.scenarios.suites import programs
from closedloop_plugin.scenarios.suites.lookup import routes_of
from closedloop_plugin.scenarios.suites.shipped_threats import ENDING, SHIPPED, pack
from lmms_eval_ad2.core.errors import Ad2Error

MOST_BYTES = 3_000_000
KEPT = ("asked", "finished", "checked", "reflect", "left_out", "failed", "failed_in_round", "causes")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("name")
    args = p.parse_args()
    archive = SHIPPED / f"{args.name}{ENDING}"
    sha256, scenarios = pack_suite(args.folder, args.name, archive)
    print(f"{archive}  {scenarios} scenarios, {archive.stat().st_size} bytes, sha256 {sha256}")
    return 0


def pack_suite(folder: Path, name: str, archive: Path) -> tuple[str, int]:
    """(sha256 of the archive, number of scenarios). Raises Ad2Error for an unfinished folder, a scenario without a
    played draw, and an archive that is too large."""
    found = programs.read(folder, routes_of)
    if undrawn := sorted(found.programs.keys() - found.draws.keys()):
        raise Ad2Error(f"{folder}: not checked, or edited since: {', '.join(undrawn)}; run ad2 threats check {folder}")
    index, verdicts = (json.loads((folder / file).read_text("utf-8")) for file in ("suite.json", "check.json"))
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        (copy / "scenarios").mkdir()
        for program in found.programs.values():
            shutil.copy(program, copy / "scenarios")
        kept = {"name": name, **{key: index[key] for key in KEPT if key in index}}
        (copy / "suite.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
        played = {scenario: verdicts[scenario] for scenario in found.programs}
        (copy / "check.json").write_text(json.dumps(played, indent=1, sort_keys=True) + "\n", "utf-8")
        sha256 = pack(copy, archive)
    if (size := archive.stat().st_size) > MOST_BYTES:
        archive.unlink()
        raise Ad2Error(f"{archive}: {size} bytes, {MOST_BYTES} at most")
    return sha256, len(found.programs)


if __name__ == "__main__":
    raise SystemExit(main())
