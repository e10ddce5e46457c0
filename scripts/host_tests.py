"""Run lmms-eval's own tests with this package's plugin and without it, and compare the result of each test.

    python scripts/host_tests.py CHECKOUT            # of lmms-eval, best of the installed version

The tests run against the installed lmms-eval, in a copy of the checkout that leaves out its own. Without the plugin:
its entry points are hidden in every process.
Exit code 0 if both runs give the same results (which tests fail does not matter), 1 if a test differs, 2 if none ran.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

# In the environment of one run: read by every interpreter at its start, before anything asks for entry points.
HIDE = """from importlib import metadata

_all = metadata.Distribution.entry_points


def entry_points(self):
    found = _all.fget(self)
    return type(found)(()) if self.metadata["Name"] == "lmms-eval-ad2" else found


metadata.Distribution.entry_points = property(entry_points)
"""


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkout", type=Path)
    checkout = p.parse_args().checkout
    if not (checkout / "test").is_dir():
        print(f"{checkout}: no folder 'test'; name a checkout of lmms-eval", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "checkout")
        shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns("lmms_eval", ".git"))
        hiding = Path(folder, "hiding")
        hiding.mkdir()
        Path(hiding, "sitecustomize.py").write_text(HIDE, "utf-8")
        outcomes = {
            name: results(copy, Path(folder, f"{name}.xml"), hidden)
            for name, hidden in (("with", None), ("without", str(hiding)))
        }
    for name, found in outcomes.items():
        counts = {kind: list(found.values()).count(kind) for kind in sorted(set(found.values()))}
        print(f"{name} the plugin: {len(found)} tests, {counts}")
    tests = sorted(outcomes["with"].keys() | outcomes["without"].keys())
    differing = [test for test in tests if outcomes["with"].get(test) != outcomes["without"].get(test)]
    for test in differing:
        print(f"differs: {test}: {outcomes['with'].get(test)} with, {outcomes['without'].get(test)} without")
    if not tests:
        return 2
    return 1 if differing else 0


def results(checkout: Path, report: Path, hidden: str | None) -> dict[str, str]:
    """passed, failed, error or skipped of each test. hidden: a folder that hides the entry points, on the path."""
    path = os.pathsep.join(filter(None, (hidden, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command += [f"--junitxml={report}", "test"]
    subprocess.run(
        command, cwd=checkout, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL, check=False
    )
    if not report.exists():
        return {}
    kinds = {"failure": "failed", "error": "error", "skipped": "skipped"}
    return {
        f"{case.get('classname')}::{case.get('name')}": next((kinds[c.tag] for c in case if c.tag in kinds), "passed")
        for case in ET.parse(report).iter("testcase")
    }


if __name__ == "__main__":
    raise SystemExit(main())
