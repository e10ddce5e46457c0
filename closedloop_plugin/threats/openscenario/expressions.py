"""Ranges as parameters: the files of several draws of one program are merged into one with expressions.

Each draw gives a file with plain numbers. A number that differs between draws is fitted as a polynomial of degree 1, else
2, of the free parameters, and replaced by the OpenSCENARIO expression `${...}`. Where none fits within the tolerance,
the number of the played draw stays, and the parameters on which it depends are not free in the export.
"""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TOLERANCE = 0.05  # m, m/s, s: largest error of an expression over the draws; the played draw is exact
TOLERANCES = {"h": 0.02, "azimuth": 0.02, "elevation": 0.02, "illuminance": 100.0, "visualRange": 2.0}  # rad, lx, m
# Enumerations that change with a parameter.
STEPPED = {
    "fractionalCloudCover": ("cloudiness",),
    "wetness": ("wetness", "precipitation_deposits"),
    "precipitationType": ("precipitation",),
}
Terms = tuple[tuple[int, ...], ...]  # products of parameters by index; () is the constant


@dataclass(frozen=True)
class MergedDraws:
    """The played draw's tree with expressions. `fixed`: parameter -> what prevents that it is free."""

    root: ET.Element
    fixed: Mapping[str, str]


def merge(roots: Sequence[ET.Element], names: Sequence[str], values: np.ndarray, weather: Sequence[str]) -> MergedDraws:
    """Merge trees of the same structure; the first one is the played draw's.

    `names`: the free parameters; `values`: (draws, parameters); `weather`: those on which only the Environment depends.
    """
    shapes = {tuple(_shape(root)) for root in roots}
    if len(shapes) > 1:
        return MergedDraws(roots[0], dict.fromkeys(names, "the actions differ between draws"))
    fixed: dict[str, str] = {}
    columns = {inside: [i for i, name in enumerate(names) if (name in weather) is inside] for inside in (False, True)}
    for nodes, inside in _walk(roots, inside=False):
        for attribute in nodes[0].attrib:
            texts = [node.attrib[attribute] for node in nodes]
            if len(set(texts)) == 1:
                continue
            used = [names[i] for i in columns[inside]]
            fitted = _fitted(attribute, texts, used, values[:, columns[inside]])
            if isinstance(fitted, str):
                nodes[0].set(attribute, fitted)
            else:
                for name in fitted:
                    fixed.setdefault(name, f"{nodes[0].tag}.{attribute}")
    return MergedDraws(roots[0], fixed)


def _shape(root: ET.Element) -> list[tuple[str, int]]:
    return [(node.tag, len(node)) for node in root.iter()]


def _walk(nodes: Sequence[ET.Element], inside: bool) -> Any:
    """(the same element of all trees, whether it is within an Environment), in document order."""
    inside = inside or nodes[0].tag == "Environment"
    yield nodes, inside
    for children in zip(*nodes, strict=True):
        yield from _walk(children, inside)


def _fitted(attribute: str, texts: Sequence[str], names: Sequence[str], values: np.ndarray) -> str | tuple[str, ...]:
    """The expression of an attribute, or the parameters on which it depends without one."""
    try:
        wanted = np.array([float(text) for text in texts])
    except ValueError:
        return tuple(name for name in STEPPED.get(attribute, names) if name in names) or tuple(names)
    if attribute == "h":
        wanted = np.unwrap(wanted)
    if np.ptp(wanted) < 1e-6:  # rounding of the sampler
        return texts[0]
    limit = TOLERANCES.get(attribute, TOLERANCE)
    last: tuple[Terms, np.ndarray] | None = None
    for degree in (1, 2):
        terms = _terms(len(names), degree)
        found = _polynomial(wanted, values, terms, limit)
        text = _text(terms, found, names)
        if np.abs(_evaluated(terms, _rounded(found), values) - wanted).max() <= limit:
            return text
        last = terms, found
    assert last is not None
    terms, found = last
    effect = np.abs(found) * np.ptp(_matrix(terms, values), axis=0)
    dependent = {names[i] for term, size in zip(terms, effect, strict=True) if size > limit for i in term}
    return tuple(name for name in names if name in dependent) or tuple(names)


def _terms(count: int, degree: int) -> Terms:
    return tuple(t for n in range(degree + 1) for t in itertools.combinations_with_replacement(range(count), n))


def _matrix(terms: Terms, values: np.ndarray) -> np.ndarray:
    """(draws, terms): the product of each term's parameters."""
    return np.stack([values[:, list(term)].prod(axis=1) for term in terms], axis=1)


def _polynomial(wanted: np.ndarray, values: np.ndarray, terms: Terms, limit: float) -> np.ndarray:
    """Coefficients by least squares; terms without an effect are 0. Exact at the first draw, the played one."""
    matrix = _matrix(terms, values)
    scale = np.abs(matrix).max(axis=0)
    found = np.linalg.lstsq(matrix / scale, wanted, rcond=None)[0] / scale
    effect = np.abs(found) * np.ptp(matrix, axis=0)
    weak = effect < limit / (2 * len(terms))
    weak[0] = False
    strong = np.flatnonzero(~weak)
    found = np.zeros(len(terms))
    found[strong] = np.linalg.lstsq(matrix[:, strong] / scale[strong], wanted, rcond=None)[0] / scale[strong]
    found[0] += wanted[0] - matrix[0] @ found
    return found


def _rounded(found: np.ndarray) -> np.ndarray:
    return np.round(found, 8)


def _evaluated(terms: Terms, found: np.ndarray, values: np.ndarray) -> np.ndarray:
    return _matrix(terms, values) @ found


def _text(terms: Terms, found: np.ndarray, names: Sequence[str]) -> str:
    """The expression; `$name` if it is exactly one parameter. Only digits, names, +, -, * and spaces."""
    parts = [(value, term) for value, term in zip(_rounded(found), terms, strict=True) if value]
    if len(parts) == 1 and len(parts[0][1]) == 1 and parts[0][0] == 1.0:
        return f"${names[parts[0][1][0]]}"
    text = ""
    for value, term in parts:
        factors = " * ".join([_number(abs(value)), *(f"${names[i]}" for i in term)])
        text += (" - " if value < 0 else " + ") + factors if text else ("-" if value < 0 else "") + factors
    return "${" + (text or "0") + "}"


def _number(value: float) -> str:
    return f"{value:.8f}".rstrip("0").rstrip(".")
