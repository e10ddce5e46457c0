"""Fixtures of the harness tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Read once, when huggingface_hub is imported: a fixture would come too late.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def tiny_qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder of a random tiny Qwen2.5-VL (tests/tiny_models.py), made once a session."""
    from tiny_models import make_tiny_qwen2_5_vl

    return make_tiny_qwen2_5_vl(tmp_path_factory.mktemp("tiny_qwen"))
