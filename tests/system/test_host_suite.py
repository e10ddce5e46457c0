"""lmms-eval's own tests give the same results with and without the plugin (scripts/host_tests.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from support.running import REPO

CHECKOUT = "AD2_LMMS_EVAL_CHECKOUT"


@pytest.mark.soak
@pytest.mark.skipif(CHECKOUT not in os.environ, reason=f"{CHECKOUT} names no checkout of lmms-eval (docs/soak.md)")
def test_the_tests_of_lmms_eval_give_the_same_results(record_property: Callable[[str, object], None]) -> None:
    command = [sys.executable, str(REPO / "scripts" / "host_tests.py"), os.environ[CHECKOUT]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    record_property("tests", int(re.findall(r"with the plugin: (\d+) tests", done.stdout)[0]))
