"""`ad2 doctor` with CARLA's client present, absent and broken."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from closedloop_plugin.cli import doctor


def test_the_client_s_release_is_what_servers_must_be() -> None:
    name, good, text = doctor.carla()
    assert (name, good) == ("carla", True)
    assert f"servers must be CARLA {version('carla')}" in text


def test_its_absence_is_no_fault_and_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version_of", lambda name: None)
    _, good, text = doctor.carla()
    assert good
    assert "pip install '.[carla]'" in text


def test_one_that_does_not_import_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "imports", lambda name: (name, False, "does not import (libstdc++ too old)"))
    assert doctor.carla() == ("carla", False, "does not import (libstdc++ too old)")
