"""`ad2 doctor` with CARLA's client present, absent and broken."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from closedloop_plugin.cli import doctor


def test_doctor_names_the_server_release_that_the_client_requires() -> None:
    name, good, text = doctor.carla()
    assert (name, good) == ("carla", True)
    assert f"servers must be CARLA {version('carla')}" in text


def test_a_missing_client_is_accepted_and_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version_of", lambda name: None)
    _, good, text = doctor.carla()
    assert good
    assert "[carla]'" in text


def test_a_client_that_does_not_import_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "imports", lambda name: (name, False, "does not import (libstdc++ too old)"))
    assert doctor.carla() == ("carla", False, "does not import (libstdc++ too old)")
