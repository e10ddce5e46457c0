"""The catalogue: all 44 types, their abilities as in the reference, a program and a layout each."""

from __future__ import annotations

from pathlib import Path

import pytest

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.scenarios.catalogue import CATALOGUE

ABILITIES = {
    "Overtaking": """Accident AccidentTwoWays ConstructionObstacle ConstructionObstacleTwoWays HazardAtSideLaneTwoWays
        HazardAtSideLane ParkedObstacleTwoWays ParkedObstacle VehicleOpensDoorTwoWays""",
    "Merging": """CrossingBicycleFlow EnterActorFlow HighwayExit InterurbanActorFlow HighwayCutIn
        InterurbanAdvancedActorFlow MergerIntoSlowTrafficV2 MergerIntoSlowTraffic NonSignalizedJunctionLeftTurn
        NonSignalizedJunctionRightTurn NonSignalizedJunctionLeftTurnEnterFlow ParkingExit SequentialLaneChange
        SignalizedJunctionLeftTurn SignalizedJunctionRightTurn SignalizedJunctionLeftTurnEnterFlow""",
    "Emergency_Brake": """BlockedIntersection DynamicObjectCrossing HardBreakRoute OppositeVehicleTakingPriority
        OppositeVehicleRunningRedLight ParkingCutIn PedestrianCrossing ParkingCrossingPedestrian StaticCutIn
        VehicleTurningRoute VehicleTurningRoutePedestrian ControlLoss""",
    "Give_Way": "InvadingTurn YieldToEmergencyVehicle",
    "Traffic_Signs": """BlockedIntersection OppositeVehicleTakingPriority OppositeVehicleRunningRedLight
        PedestrianCrossing VehicleTurningRoute VehicleTurningRoutePedestrian EnterActorFlow CrossingBicycleFlow
        NonSignalizedJunctionLeftTurn NonSignalizedJunctionRightTurn NonSignalizedJunctionLeftTurnEnterFlow
        SignalizedJunctionLeftTurn SignalizedJunctionRightTurn SignalizedJunctionLeftTurnEnterFlow T_Junction
        VanillaNonSignalizedTurn VanillaSignalizedTurnEncounterGreenLight VanillaSignalizedTurnEncounterRedLight
        VanillaNonSignalizedTurnEncounterStopsign""",
}
COUNTS = {"Overtaking": 9, "Merging": 16, "Emergency_Brake": 12, "Give_Way": 2, "Traffic_Signs": 19}


def test_the_catalogue_has_44_types() -> None:
    assert len(CATALOGUE) == 44
    assert all(name == info.name for name, info in CATALOGUE.items())


@pytest.mark.parametrize("ability", sorted(ABILITIES))
def test_abilities_are_the_official_ones(ability: str) -> None:
    ours = {name for name, info in CATALOGUE.items() if ability in info.abilities}
    assert ours == set(ABILITIES[ability].split())
    assert len(ours) == COUNTS[ability]


def test_there_are_no_other_abilities() -> None:
    assert {a for info in CATALOGUE.values() for a in info.abilities} == set(ABILITIES)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_each_type_has_a_program_a_layout_and_a_summary(name: str) -> None:
    info = CATALOGUE[name]
    assert info.program.is_file() and info.program.suffix == ".scenic"
    assert info.program.stem == info.archetype
    assert isinstance(info.layout, RoadLayout)
    assert info.summary and "\n" not in info.summary


def test_two_ways_types_have_the_option_two_ways() -> None:
    marked = {name for name, info in CATALOGUE.items() if info.options.get("two_ways")}
    assert marked == {n for n in CATALOGUE if n.endswith("TwoWays")} - {"VehicleOpensDoorTwoWays"}


@pytest.mark.integration
def test_a_flow_without_ends_is_not_played_and_the_reason_named(tmp_path: Path) -> None:
    """The types that need them are those whose routes have them (reference: optional scenario parameters)."""
    need = {name for name, info in CATALOGUE.items() if info.needs}
    assert need == {
        "EnterActorFlow", "CrossingBicycleFlow", "HighwayExit", "InterurbanActorFlow", "InterurbanAdvancedActorFlow",
        "MergerIntoSlowTraffic", "MergerIntoSlowTrafficV2",
    }  # fmt: skip
    pytest.importorskip("scenic")
    from closedloop_plugin.worlds.base import EpisodeSetup
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

    route = Route("9", "Town12", ((0, 0), (40, 0), (80, 0)), "HighwayExit", "H_1", (5, 0, 0))
    world = EmbeddedWorld(tmp_path)
    world.reset(EpisodeSetup(route, seed=1, traffic=False))
    (reason,) = world.not_played.values()
    assert reason.startswith("a HighwayExit needs start_actor_flow and end_actor_flow")
    assert world.truth().actors == ()
    world.close()
