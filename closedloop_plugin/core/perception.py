"""PerceptionConditions: what makes an episode's pictures harder to read, without any effect on the ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number

SIGNS = ("stop", "no_entry", "speed_90")


@dataclass(frozen=True)
class PerceptionConditions:
    """Conditions that change only what the cameras show; all absent by default. Shares are percentages.

    worn_markings: share of the paint on the road that is worn off; the rest is faded. sun_glare: strength of the glare
    of a sun in or near the picture. lens_drops: share of the picture behind drops on the lens. hidden_signs: share of
    each sign and light that leaves hide. contradictory_sign: a further plate at the right edge, one of SIGNS.
    """

    worn_markings: float = 0.0
    sun_glare: float = 0.0
    lens_drops: float = 0.0
    hidden_signs: float = 0.0
    contradictory_sign: str = ""

    @property
    def present(self) -> tuple[str, ...]:
        """Names of the conditions that are not absent."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name))

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> PerceptionConditions:
        """From a program's params. Raises Ad2Error for a value that is not a share, or an unknown sign."""
        shares = {name: params[name] for name in PERCEPTION_CONDITIONS[:-1] if name in params}
        for name, value in shares.items():
            if not is_number(value) or not 0 <= value <= 100:
                raise Ad2Error(f"param {name}: expected a percentage, 0 to 100, found {value!r}")
        sign = params.get("contradictory_sign", "")
        if sign not in ("", *SIGNS):
            raise Ad2Error(f"param contradictory_sign: expected one of {', '.join(SIGNS)}, found {sign!r}")
        return cls(**{name: float(value) for name, value in shares.items()}, contradictory_sign=sign)


PERCEPTION_CONDITIONS = tuple(f.name for f in fields(PerceptionConditions))
