"""Servers that the options of `ad2 carla up` describe, and their mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.carla.standin import binary

from closedloop_plugin.carla.servers.record import CarlaServerRecord
from closedloop_plugin.cli.carla import CarlaUpOptions, server_records
from lmms_eval_ad2.core.errors import Ad2Error


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return binary(tmp_path)


def records(file: Path | None, **options: Any) -> list[CarlaServerRecord]:
    return server_records(CarlaUpOptions(binary=file, **options))


def test_gpus_are_given_once_for_all_servers_or_per_server(file: Path) -> None:
    two = {"ports": "2000,2010"}
    assert [r.gpu for r in records(file, **two)] == [None, None]
    assert [r.gpu for r in records(file, **two, gpus="3")] == [3, 3]
    assert [r.gpu for r in records(file, **two, gpus="0,1")] == [0, 1]
    with pytest.raises(Ad2Error, match="names 2 GPUs, --ports 3"):
        records(file, ports="2000,2010,2020", gpus="0,1")


def test_quality_and_further_words_are_part_of_the_command(file: Path) -> None:
    first, second = records(file, ports="2000,2010", quality="Low", extra="-fps=20 'a b'", hang=7.0)
    assert first.extra == ("-quality-level=Low", "-fps=20", "a b") and first.hang_s == 7.0
    assert first.token != second.token


@pytest.mark.parametrize("ports", ["2000,2000", "2000,2002", "2000,8000", "2001,8000", "8000,2000"])
def test_overlapping_ports_are_refused(ports: str, file: Path) -> None:
    with pytest.raises(Ad2Error, match="overlap"):
        records(file, ports=ports)


@pytest.mark.parametrize("port", ["0", "80", "59536", "99999"])
def test_ports_out_of_range_are_refused(port: str, file: Path) -> None:
    with pytest.raises(Ad2Error, match="expected 1024 to 59535"):
        records(file, ports=port)


def test_the_server_program_must_exist_and_be_executable(file: Path, tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="no such file; there is"):
        records(tmp_path)
    with pytest.raises(Ad2Error, match="no such file"):
        records(tmp_path / "other.sh")
    with pytest.raises(Ad2Error, match="give what to start"):
        records(None)
    file.chmod(0o644)
    with pytest.raises(Ad2Error, match=r"not executable; chmod \+x"):
        records(file)
