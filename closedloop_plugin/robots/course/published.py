"""Table 3 of the Bench2ADVLM paper: route completion of real vehicles in their sandbox.

Shown in a separate table beside our results, because routes and models differ. Figures and claims: `published.yaml`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources

import yaml


@dataclass(frozen=True)
class PublishedVehicle:
    """One model on one vehicle. `routes`: counts out of `PublishedVehicleTable.of`; `average`: percent, as printed."""

    vehicle: str
    agent: str
    routes: tuple[int, ...]
    average: float


@dataclass(frozen=True)
class VehicleTableClaim:
    """A sentence of the paper about the table, and what follows from the printed figures."""

    where: str
    says: str
    computed: str
    agrees: bool


@dataclass(frozen=True)
class PublishedVehicleTable:
    paper: str
    table: str
    world: str
    of: int
    vehicles: tuple[str, ...]
    routes: tuple[str, ...]
    rows: tuple[PublishedVehicle, ...]
    claims: tuple[VehicleTableClaim, ...]

    @property
    def contradictions(self) -> list[VehicleTableClaim]:
        return [claim for claim in self.claims if not claim.agrees]


@functools.cache
def published() -> PublishedVehicleTable:
    """Load the table as printed in the paper."""
    raw = yaml.safe_load(resources.files(__package__).joinpath("published.yaml").read_text("utf-8"))
    return PublishedVehicleTable(
        paper=raw["paper"],
        table=raw["table"],
        world=raw["world"],
        of=raw["of"],
        vehicles=tuple(raw["vehicles"]),
        routes=tuple(raw["routes"]),
        rows=tuple(PublishedVehicle(row[0], row[1], tuple(row[2:-1]), row[-1]) for row in raw["rows"]),
        claims=tuple(VehicleTableClaim(**claim) for claim in raw["claims"]),
    )
