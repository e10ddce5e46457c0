"""Ranges as parameters: the files of several draws of one program are merged into one with expressions.

Each draw gives a file with plain numbers. A number that differs between draws is fitted as a polynomial of the free
parameters, of degree 1, else 2, and replaced by the OpenSCENARIO expression `${...}`. Where none fits within the
tolerance, the number of the played draw stays, and the parameters on which it depends are not free in the export.
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
DIGITS = 10  # significant ones of a coefficient
WORSE = 1.1  # ratio of residuals
NOTHING = 1e-7  # rounding of a coefficient that is 0 or 1
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
    for degree in (1, 2):
        terms = _terms(len(names), degree)
        found = _polynomial(wanted, values, terms, limit)
        if _error(wanted, values, terms, found) <= limit:
            return _single(terms, found, names) or "${" + _text(terms, found, names) + "}"
    if wanted.min() > 0:  # a visual range is the reciprocal of a sum
        inverse = _polynomial(1 / wanted, values, terms, 0.0)
        if np.abs(1 / (_matrix(terms, values) @ inverse) - wanted).max() <= limit:
            return "${1 / (" + _text(terms, inverse, names) + ")}"
    return _dependent(wanted, values, names)


def _dependent(wanted: np.ndarray, values: np.ndarray, names: Sequence[str]) -> tuple[str, ...]:
    """The parameters without which a polynomial fits much worse (residual per degree of freedom); all if none."""
    terms = _terms(len(names), 2)
    matrix = _matrix(terms, values)

    def residual(used: np.ndarray) -> float:
        error = matrix @ _least_squares(wanted, matrix, used) - wanted
        return float(np.sqrt((error**2).sum() / max(len(wanted) - used.sum(), 1)))

    whole = residual(np.ones(len(terms), bool))
    without = [residual(np.array([i not in term for term in terms])) for i in range(len(names))]
    return tuple(name for name, r in zip(names, without, strict=True) if r > WORSE * whole) or tuple(names)


def _terms(count: int, degree: int) -> Terms:
    return tuple(t for n in range(degree + 1) for t in itertools.combinations_with_replacement(range(count), n))


def _matrix(terms: Terms, values: np.ndarray) -> np.ndarray:
    """(draws, terms): the product of each term's parameters."""
    return np.stack([values[:, list(term)].prod(axis=1) for term in terms], axis=1)


def _error(wanted: np.ndarray, values: np.ndarray, terms: Terms, found: np.ndarray) -> float:
    return float(np.abs(_matrix(terms, values) @ found - wanted).max())


def _polynomial(wanted: np.ndarray, values: np.ndarray, terms: Terms, limit: float) -> np.ndarray:
    """Coefficients by least squares, with DIGITS digits; exact at the first draw, the played one.

    Terms are removed, the weakest first, while the error stays below a tenth of `limit` (or near that of all terms).
    """
    matrix = _matrix(terms, values)
    spread = np.ptp(matrix, axis=0)
    used = np.ones(len(terms), bool)
    found = _least_squares(wanted, matrix, used)
    bound = max(limit / 10, 1.2 * _error(wanted, values, terms, found))
    while used[1:].any() and bound <= limit:
        effects = np.where(used, np.abs(found) * spread, np.inf)
        effects[0] = np.inf  # the constant
        fewer = used.copy()
        fewer[int(effects.argmin())] = False
        smaller = _least_squares(wanted, matrix, fewer)
        if _error(wanted, values, terms, smaller) > bound:
            break
        used, found = fewer, smaller
    found = np.array([float(_number(value)) for value in found])
    found[0] += wanted[0] - matrix[0] @ found
    found[0] = 0.0 if abs(found[0]) < NOTHING else float(_number(found[0]))
    return found


def _least_squares(wanted: np.ndarray, matrix: np.ndarray, used: np.ndarray) -> np.ndarray:
    scale = np.abs(matrix[:, used]).max(axis=0)
    scale[scale == 0.0] = 1.0
    found = np.zeros(matrix.shape[1])
    found[used] = np.linalg.lstsq(matrix[:, used] / scale, wanted, rcond=None)[0] / scale
    return found


def _single(terms: Terms, found: np.ndarray, names: Sequence[str]) -> str:
    """`$name` if the polynomial is exactly one parameter, else ""."""
    parts = [(value, term) for value, term in zip(found, terms, strict=True) if abs(value) > NOTHING]
    ((value, term), *others) = parts or [(0.0, ())]
    return f"${names[term[0]]}" if not others and len(term) == 1 and abs(value - 1.0) < NOTHING else ""


def _text(terms: Terms, found: np.ndarray, names: Sequence[str]) -> str:
    """The polynomial with digits, names, +, -, * and spaces only."""
    text = ""
    for value, term in zip(found, terms, strict=True):
        if value == 0.0:
            continue
        factors = " * ".join([_number(abs(value)), *(f"${names[i]}" for i in term)])
        text += (" - " if value < 0 else " + ") + factors if text else ("-" if value < 0 else "") + factors
    return text or "0"


def _number(value: float) -> str:
    """Without an exponent, which expressions do not have."""
    return np.format_float_positional(value, precision=DIGITS, fractional=False, trim="-")
