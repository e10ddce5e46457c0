"""The fake CARLA has only names of the real wheel, and accepts only calls that the wheel accepts."""

from __future__ import annotations

import ast
from pathlib import Path

import carla
import fake_carla
import pytest
from fake_carla import strict
from support.running import REPO

EVERY = {**fake_carla.REPLACED, **fake_carla.COMMANDS}
REAL = {**fake_carla.REAL, **fake_carla.REAL_COMMANDS}


@pytest.mark.parametrize("name", EVERY)
def test_every_name_is_in_the_wheel_with_that_signature(name: str) -> None:
    assert strict.misfits(EVERY[name], REAL[name]) == []


@pytest.mark.parametrize("name", ["Actor", "Vehicle", "Walker", "TrafficLight", "LaneInvasionSensor", "Image"])
def test_base_classes_are_those_of_the_wheel(name: str) -> None:
    def bases(one: type) -> list[str]:
        return [base.__name__ for base in one.__mro__ if base.__name__ in EVERY]

    assert bases(EVERY[name]) == bases(REAL[name])


class _Wrong:
    """Each attribute differs from carla.World's in one way."""

    def teleport(self) -> None:
        """No such method in the real class."""

    def tick(self, timeout: float = 0.0) -> int:
        """An argument with another name."""
        return 0

    def set_pedestrians_seed(self, seed: int = 0) -> None:
        """Optional here, required there."""

    def apply_settings(self, seconds: float, settings: object) -> int:
        """Another order."""
        return 0

    def get_actor(self, actor_id: int, world: object) -> None:
        """One argument too many."""

    def get_map(self, *anything: object) -> None:
        """No argument is declared."""

    def id(self) -> int:
        """A property of the real one."""
        return 0

    def get_snapshot(self) -> None:
        """Correct."""


def test_the_check_finds_each_misfit() -> None:
    found = strict.misfits(_Wrong, fake_carla.REAL["World"])
    assert {line.split(":")[0] for line in found} == {
        "teleport", "tick", "set_pedestrians_seed", "apply_settings", "get_actor", "get_map", "id",
    }  # fmt: skip


def test_a_positional_only_argument_of_the_wheel_must_not_have_a_name_in_the_fake() -> None:
    class Named:
        def find(self, id: str) -> None: ...
        def has_attribute(self, id: str) -> None: ...

    assert strict.misfits(Named, fake_carla.REAL["ActorBlueprint"])[1].startswith("has_attribute")


def test_signatures_are_read_from_the_binary() -> None:
    (tick,) = strict.signatures(fake_carla.REAL["World"].tick)
    assert tick == [strict.Argument("float", "seconds", True)]
    spawn = strict.signatures(fake_carla.REAL["World"].try_spawn_actor)[0]
    assert [(a.name, a.optional) for a in spawn] == [
        ("blueprint", False), ("transform", False), ("attach_to", True), ("attachment_type", True), ("bone", True),
    ]  # fmt: skip


def test_installing_replaces_the_names_and_undoing_restores_them(tmp_path: Path) -> None:
    before = {name: getattr(carla, name) for name in fake_carla.REPLACED}
    with fake_carla.installed(tmp_path):
        assert carla.Client is fake_carla.REPLACED["Client"] is carla.libcarla.Client
        assert carla.command.SpawnActor is fake_carla.COMMANDS["SpawnActor"]
        assert carla.Transform.__module__ == "carla.libcarla"  # data classes are the wheel's
    assert {name: getattr(carla, name) for name in fake_carla.REPLACED} == before == fake_carla.REAL
    assert carla.command.SpawnActor is fake_carla.REAL_COMMANDS["SpawnActor"]


def unknown_names(source: str) -> set[str]:
    """`carla.X` and `carla.command.X` in Python source that the wheel does not have."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == "carla":
                found |= set() if hasattr(carla, node.attr) else {node.attr}
            elif ast.unparse(node.value) == "carla.command":
                found |= set() if hasattr(carla.command, node.attr) else {node.attr}
    return found


def test_our_code_uses_only_names_that_the_wheel_has() -> None:
    assert unknown_names("carla.Client(); carla.GlobalRoutePlanner(); carla.command.Fly()") == {
        "GlobalRoutePlanner", "Fly",
    }  # fmt: skip
    for file in sorted((REPO / "closedloop_plugin").rglob("*.py")):
        text = file.read_text("utf-8")
        if "carla" in text:
            assert unknown_names(text) == set(), file
