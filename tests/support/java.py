"""`needs_java`: skips a test on a machine without a usable Java."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.metrics.caption import java


def _found() -> bool:
    try:
        java.find()
    except java.JavaError:
        return False
    return True


needs_java = pytest.mark.skipif(not _found(), reason="no Java")
