"""The last step of the fusers without a model: from chosen words and numbers to a ThreatSpec that fits its site."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from closedloop_plugin.threats.fuser.ruleset.extras import RULE_ODDS, ExtraOdds, with_extras
from closedloop_plugin.threats.fuser.ruleset.numbers import ThreatAdjustment
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.spec_text import sentence


def complete(
    fields: Mapping[str, Any],
    site: ThreatSite,
    rng: Random,
    adjustment: ThreatAdjustment = ThreatAdjustment(),
    odds: ExtraOdds = RULE_ODDS,
) -> ThreatSpec:
    """The spec of all fields but the description. It fits the site by construction, which is asserted.

    `adjustment`, `odds`: of the further actors and perception conditions that it may get, see with_extras.
    """
    plain = with_extras(ThreatSpec(**fields, description="-"), site, rng, adjustment, odds)
    spec = plain.model_copy(update={"description": f"{sentence(plain)} It tests the {plain.weakness.value}."})
    problems = fit(spec, site)
    if problems:
        raise AssertionError(f"route {site.route}: {problems[0]}")
    return spec
