"""What the models of a drive were trained on, compared with its routes; in run.json and in every output of its scores.

A model names its training data in ad2_training.json of its folder (lmms_eval_ad2/storage/training_card.py). The key
"training" of the selection in run.json has the result for all routes of the suite, since a later start in the folder
may ask for others. It is not part of the identity: it changes no episode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from closedloop_plugin.driver.agents.make import BUILT_IN, SPEAKING
from closedloop_plugin.scenarios.suites.lookup import suite
from lmms_eval_ad2.storage.training_card import trained_text

if TYPE_CHECKING:
    from closedloop_plugin.learn.contamination import RouteContamination
    from closedloop_plugin.runner.assemble import RouteSelection
    from closedloop_plugin.runner.options import DriveRunOptions

KEY = "training"
NOT_NAMED: Mapping[str, Any] = {"named": False}  # a model without ad2_training.json


def training_of(options: DriveRunOptions, subject: RouteSelection) -> RouteContamination | None:
    """The comparison for all routes of the suite; None if no model of the drive names its training data.

    Raises DataError for a malformed ad2_training.json, and, with `strict_contamination`, Ad2Error if a model was
    trained on a route that is to be driven.
    """
    models = _models(options)
    if not models:
        return None
    from closedloop_plugin.learn.contamination import of_models

    corridor = options.world != "carla"
    return of_models(
        models,
        suite(options.suite, options.world).routes if options.suite else subject.routes,  # a program's: under its name
        asked=[route.id for route in subject.routes],
        maps=lambda route: "corridor" if corridor and route.town not in subject.towns else "town",
        strict=options.strict_contamination,
    )


def _models(options: DriveRunOptions) -> list[str]:
    """The specifications of agents, interpreters and describers that are models."""
    given = (options.agent, options.interpreter, options.interpreter2, options.describer)
    return [spec for spec in given if spec and spec.strip() not in (*BUILT_IN, SPEAKING, "rules", "offline")]


def selected(
    selection: Mapping[str, Any], options: DriveRunOptions, found: RouteContamination | None
) -> dict[str, Any]:
    """The selection of run.json with the result; unchanged if no model drives."""
    if found is not None:
        return {**selection, KEY: found.to_dict()}
    return {**selection, KEY: dict(NOT_NAMED)} if _models(options) else dict(selection)


def training_note(selection: Mapping[str, Any], asked: Sequence[str]) -> str:
    """ "trained on 3 of these 220 routes (same_geometry 3)" for a run's selection; "" if on none, or not known."""
    training = selection.get(KEY)
    routes = training.get("routes") if isinstance(training, dict) else None
    if not isinstance(routes, dict):
        return ""
    kinds = Counter(
        str(found.get("kind")) if isinstance(found := routes[route], dict) else "unknown"
        for route in asked
        if route in routes
    )
    return trained_text(kinds, len(asked), "routes") if kinds else ""
