"""Write line and branch coverage of each package to tests/golden/coverage.json; `make coverage` runs this.

    python scripts/coverage_by_package.py REPORT    # REPORT: of `coverage json`

Kept once before a large change of the code, to compare with afterwards: moved code keeps its coverage.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

OUT = Path(__file__).resolve().parent.parent / "tests" / "golden" / "coverage.json"
COUNTS = {"covered_lines": "lines", "num_statements": "of lines", "covered_branches": "branches",
          "num_branches": "of branches"}  # fmt: skip


def by_package(files: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Covered and all lines and branches of each folder of the two packages, from the report's files."""
    packages: defaultdict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS.values(), 0))
    for name, content in files.items():
        package = "/".join(PurePath(name).parts[:2] if len(PurePath(name).parts) > 2 else PurePath(name).parts[:1])
        for key, count in COUNTS.items():
            packages[package][count] += content["summary"][key]
    return dict(sorted(packages.items()))


def main(report: str) -> None:
    data = json.loads(Path(report).read_text("utf-8"))
    OUT.write_text(json.dumps(by_package(data["files"]), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
