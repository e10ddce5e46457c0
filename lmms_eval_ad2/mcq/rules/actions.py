"""Driving actions in text (actions.yaml): found in any wording, written in the imperative or with "-ing"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class DrivingAction:
    """A driving action. `excludes`: keys of the actions that contradict it."""

    do: str
    doing: str
    excludes: tuple[str, ...]


@cache
def actions() -> Mapping[str, DrivingAction]:
    return {key: DrivingAction(row["do"], row["doing"], tuple(row["not"])) for key, row in _rows().items()}


@cache
def pattern() -> re.Pattern[str]:
    """Matches any wording of any action; of overlapping wordings the longest."""
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(_keys(), key=len, reverse=True)))})\b", re.IGNORECASE)


def key_of(wording: str) -> str:
    """The key of an action found by `pattern`."""
    return _keys()[wording.lower()]


def named(text: str) -> list[str]:
    """The keys of the actions in `text`, each once, in order."""
    return list(dict.fromkeys(key_of(found[0]) for found in pattern().finditer(text)))


def say(key: str, like: str) -> str:
    """The action in the form of the wording `like`: "turn left" or "turning left"."""
    gerund = like.split()[0].lower().endswith("ing")
    return actions()[key].doing if gerund else actions()[key].do


@cache
def _rows() -> Mapping[str, Any]:
    return yaml.safe_load(resources.files(__package__).joinpath("actions.yaml").read_text("utf-8"))


@cache
def _keys() -> dict[str, str]:
    return {text.lower(): key for key, row in _rows().items() for text in (row["do"], row["doing"], *row["says"])}
