"""scripts/process_memory.py: memory of a process and its children; of a GPU, with a stand-in for nvidia-smi."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.peak_memory import need_proc
from support.scripts import script

# Holds 64 MiB in a child of its own until its input ends.
HOLDER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "held = b'x' * (64 << 20); print('ready', flush=True); input()"])
child.wait()
"""


@pytest.fixture(scope="module")
def process_memory() -> ModuleType:
    return script("process_memory")


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in: GPU i has 100 + i MiB in use."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nfor last; do :; done\necho $((100 + last))\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return program


@pytest.mark.integration
def test_memory_of_children_counts(process_memory: ModuleType) -> None:
    need_proc()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"ready\n"
        found = process_memory.session_mib(holder.pid)
        with process_memory.MemorySampler(holder.pid, None) as sampler:
            pass  # the first sample is taken in any case
        assert holder.stdin is not None
        holder.stdin.close()
    assert 64 <= found < 200 and 64 <= sampler.host_mib < 200
    assert sampler.gpu_mib is None
    assert process_memory.session_mib(holder.pid) is None, "it has ended"


@pytest.mark.integration
@pytest.mark.usefixtures("nvidia_smi")
def test_the_gpu_of_the_device_is_read(process_memory: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert process_memory.gpu_of("cuda") == ("0", "") and process_memory.gpu_of("cuda:2") == ("2", "")
    assert process_memory.gpu_of("cpu") == (None, "not used")
    assert process_memory.gpu_of("none") == ("0", ""), "a wrapper that is told no device takes the first one"
    assert process_memory.gpu_used_mib("2") == 102
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5e1f")
    assert process_memory.gpu_of("cuda:1") == ("GPU-5e1f", "")
    assert process_memory.gpu_of("cuda:2") == (None, "unknown")


@pytest.mark.integration
def test_a_value_that_is_no_number_is_unknown(process_memory: ModuleType, nvidia_smi: Path) -> None:
    nvidia_smi.write_text("#!/bin/sh\necho '[N/A]'\n")
    assert process_memory.gpu_used_mib("0") is None


def test_without_nvidia_smi_there_is_no_gpu(process_memory: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert process_memory.gpu_of("cuda") == (None, "no GPU")
