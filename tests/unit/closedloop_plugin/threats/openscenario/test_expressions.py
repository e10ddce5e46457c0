"""Merging of draws: expressions reproduce the numbers of every draw, and name what they cannot reproduce."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from closedloop_plugin.threats.openscenario.expressions import TOLERANCE, merge

NAMES = ("ahead", "pace")
VALUES = np.random.default_rng(1).uniform([20.0, 1.0], [40.0, 3.0], (40, 2))
GRAMMAR = re.compile(r"\$\{[ A-Za-z0-9_+\-*/%$().,]*\}|\$[A-Za-z_]\w*")  # of ASAM's schema


def tree(attributes: Mapping[str, object], tag: str = "P", parent: str = "Root") -> ET.Element:
    root = ET.Element(parent)
    ET.SubElement(root, tag, {name: str(value) for name, value in attributes.items()})
    return root


def merged(value: Callable[[float, float], object], name: str = "x", **more: str) -> tuple[str, Mapping[str, str]]:
    """The merged attribute of draws whose attribute is value(ahead, pace), and the fixed parameters."""
    roots = [tree({name: value(float(a), float(p))}, **more) for a, p in VALUES]
    found = merge(roots, NAMES, VALUES, ("fog",))
    return found.root[0].attrib[name], found.fixed


def evaluated(text: str, ahead: float, pace: float) -> float:
    """The expressions of these tests are ours, and consist of numbers, parameters and + - * /."""
    assert GRAMMAR.fullmatch(text), text
    return float(eval(text.strip("${}").replace("$", ""), {"__builtins__": {}}, {"ahead": ahead, "pace": pace}))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda a, p: 7.25, "7.25"),
        (lambda a, p: p, "$pace"),
        (lambda a, p: 2.5 * p, "${2.5 * $pace}"),
        (lambda a, p: 13.0 + a, "${13 + 1 * $ahead}"),
        (lambda a, p: 4.0 - 2.0 * p, "${4 - 2 * $pace}"),
        (lambda a, p: a * p, "${1 * $ahead * $pace}"),
    ],
)
def test_polynomials_are_written_exactly(value: Callable[[float, float], float], expected: str) -> None:
    assert merged(value) == (expected, {})


def test_a_bend_is_reproduced_within_the_tolerance_and_the_first_draw_exactly() -> None:
    def value(ahead: float, pace: float) -> float:
        return 60.0 * math.sin(ahead / 60.0) + pace

    text, fixed = merged(value)
    assert fixed == {}
    errors = [abs(evaluated(text, a, p) - value(a, p)) for a, p in VALUES]
    assert errors[0] < 1e-6 and max(errors) <= TOLERANCE


def test_a_reciprocal_is_an_expression() -> None:
    text, fixed = merged(lambda a, p: 3.912 / (0.001 + 0.00001 * a * a), name="visualRange")
    assert text.startswith("${1 / (") and fixed == {}
    assert evaluated(text, 30.0, 2.0) == pytest.approx(3.912 / 0.01, rel=1e-3)


def test_a_kink_fixes_its_parameters_only() -> None:
    kink = [max(a - 30.0, 0.0) * 3.0 for a, _ in VALUES]
    assert merged(lambda a, p: max(a - 30.0, 0.0) * 3.0) == (str(kink[0]), {"ahead": "P.x"})


def test_steps_fix_the_parameter_that_they_depend_on() -> None:
    roots = [tree({"wetness": "dry" if w < 5 else "moist"}, "RoadCondition", "Environment") for w in (1.0, 9.0, 3.0)]
    values = np.array([[20.0, 1.0], [30.0, 9.0], [40.0, 3.0]])
    found = merge(roots, ("ahead", "wetness"), values, ("wetness",))
    assert found.fixed == {"wetness": "RoadCondition.wetness"}
    assert found.root[0].get("wetness") == "dry"


def test_headings_are_unwrapped() -> None:
    text, fixed = merged(lambda a, p: math.remainder(math.pi + (a - 30.0) / 100, math.tau), name="h")
    assert fixed == {} and evaluated(text, 30.0, 2.0) % math.tau == pytest.approx(math.pi, abs=1e-6)


def test_draws_of_different_structure_keep_the_first_one() -> None:
    roots = [tree({"x": 1}), tree({"x": 2})]
    roots[1].append(ET.Element("Q"))
    found = merge(roots, NAMES, VALUES[:2], ())
    assert found.root is roots[0] and set(found.fixed) == set(NAMES)
    assert found.root[0].get("x") == "1"
