"""The facts without which a closed-loop figure has no meaning, as the records and run.json have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from closedloop_plugin.scoring.official_record import OfficialRecord

UNKNOWN = "not recorded"
NONE = "none"


@dataclass(frozen=True)
class DriveProvenance:
    """All texts; UNKNOWN for what the input does not state, as an official file states none of it."""

    suite: str
    driver: str
    backend: str
    waiting: str
    profile: str
    interpreter: str
    policy: str
    comfort: str
    version: str
    seed: str

    @property
    def official(self) -> bool:
        """An official file: neither world nor driver is in its records."""
        return self.backend == UNKNOWN

    def facts(self) -> dict[str, str]:
        return asdict(self)

    def line(self) -> str:
        """One sentence without the facts that are unknown; these are counted as not recorded."""
        if self.official:
            return (
                f"official result file (driver, world, interpreter, policy, version and seed are {UNKNOWN} in it), "
                f"profile {self.profile}, comfort mode {self.comfort}"
            )
        slow = "" if self.interpreter == NONE else f" + {self.interpreter}"
        return (
            f"suite {self.suite}, {self.driver}{slow}, {self.backend} world, profile {self.profile}, interpreter "
            f"{self.interpreter}, policy {self.policy}, comfort mode {self.comfort}, version {self.version}, seed "
            f"{self.seed}"
        )


def provenance(
    records: Sequence[OfficialRecord], identity: Mapping[str, Any] | None, profile: str, comfort: str
) -> DriveProvenance:
    """Facts of one run's records. `identity`: of its run.json, which alone has the policy and the run's seed."""
    origin = records[0].origin if records else {}
    identity = identity or {}
    changed = f", but {origin['changed']}" if origin.get("changed") else ""
    slow = " ".join(dict.fromkeys(str(origin[key]) for key in ("interpreter", "mode") if origin.get(key)))
    asked = f"{origin['tasks']} through " if origin.get("tasks") else ""
    return DriveProvenance(
        suite=str(origin.get("suite") or UNKNOWN),
        driver=str(origin.get("agent") or UNKNOWN),
        backend=str(origin.get("backend") or UNKNOWN),
        waiting=str(origin.get("waiting") or UNKNOWN),
        profile=profile + changed,
        interpreter=(asked + slow) or (NONE if origin else UNKNOWN),
        policy=str(identity.get("policy") or UNKNOWN),
        comfort=comfort,
        version="; ".join(sorted({r.version for r in records if r.version})) or UNKNOWN,
        seed=str(identity.get("seed", UNKNOWN)),
    )
