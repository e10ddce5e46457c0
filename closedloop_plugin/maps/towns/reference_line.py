"""Sampling of an OpenDRIVE reference line (planView), with all five geometries of version 1.4.

Each geometry starts at (x, y) with yaw hdg and has local coordinates u (along hdg) and v (to its left), m.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np

FINE = 0.1  # m: step of numeric integration (spirals, parametric cubics)


def sampled(plan: ET.Element, s: np.ndarray) -> np.ndarray:
    """Poses (x, y, yaw) at ascending s (m), float64 (N, 3), in the map frame."""
    pieces = [(number(g, "s"), g) for g in plan.iterfind("geometry")]
    if not pieces:
        raise ValueError("a planView without geometry")
    out = np.empty((len(s), 3))
    starts = np.array([a for a, _ in pieces])
    index = np.clip(np.searchsorted(starts, s, side="right") - 1, 0, len(pieces) - 1)
    for i, (start, geometry) in enumerate(pieces):
        mine = index == i
        if not mine.any():
            continue
        u, v, turn = _local(geometry, s[mine] - start)
        # (x, y) = (x0, y0) + R(hdg) (u, v)
        yaw = number(geometry, "hdg")
        c, sn = np.cos(yaw), np.sin(yaw)
        out[mine, 0] = number(geometry, "x") + c * u - sn * v
        out[mine, 1] = number(geometry, "y") + sn * u + c * v
        out[mine, 2] = yaw + turn
    return out


def on_one_line(plan: ET.Element, start: float, end: float) -> bool:
    """Whether the reference line from `start` to `end` (m) is part of one <line>."""
    pieces = [(number(g, "s"), g) for g in plan.iterfind("geometry")]
    here = max((piece for piece in pieces if piece[0] <= start), key=lambda piece: piece[0], default=None)
    if here is None or here[1].find("line") is None:
        return False
    return end <= here[0] + number(here[1], "length")


def polynomial(rows: Sequence[tuple[float, float, float, float, float]], s: np.ndarray) -> np.ndarray:
    """Piecewise cubic a + b ds + c ds^2 + d ds^3, ds = s - start; rows (start, a, b, c, d). 0 without rows."""
    if not rows:
        return np.zeros(len(s))
    table = np.array(sorted(rows))
    i = np.clip(np.searchsorted(table[:, 0], s, side="right") - 1, 0, len(table) - 1)
    d = s - table[i, 0]
    return table[i, 1] + d * (table[i, 2] + d * (table[i, 3] + d * table[i, 4]))


def number(node: ET.Element, name: str) -> float:
    text = node.get(name)
    if text is None:
        raise ValueError(f"<{node.tag}> without {name}")
    value = float(text)
    if not np.isfinite(value):
        raise ValueError(f"<{node.tag}> {name} is not finite")
    return value


def _local(geometry: ET.Element, d: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(u, v, change of yaw) d metres along one geometry, in its own frame."""
    shape = next(iter(geometry), None)
    kind = "line" if shape is None else shape.tag
    if shape is None or kind == "line":
        return d, np.zeros_like(d), np.zeros_like(d)
    if kind == "arc":
        # Yaw k d: u = int cos(k d) dd = sin(k d) / k, v = (1 - cos(k d)) / k.
        k = number(shape, "curvature")
        if abs(k) < 1e-9:
            return d, np.zeros_like(d), np.zeros_like(d)
        return np.sin(k * d) / k, (1 - np.cos(k * d)) / k, k * d
    size = max(number(geometry, "length"), 1e-6)
    if kind == "spiral":
        # Clothoid: curvature k0 + (k1 - k0) d / L, so yaw k0 d + (k1 - k0) d^2 / (2 L); u, v by the trapezoidal rule.
        k0, k1 = number(shape, "curvStart"), number(shape, "curvEnd")
        fine = np.linspace(0.0, size, max(3, int(size / FINE) + 2))
        turn = k0 * fine + (k1 - k0) * fine**2 / (2 * size)
        return _along(fine, _integral(np.cos(turn), fine), _integral(np.sin(turn), fine), d)
    if kind == "poly3":  # v(u) = a + b u + c u^2 + d u^3
        u = np.linspace(0.0, size, max(3, int(size / FINE) + 2))
        return _along(None, u, _cubic(shape, "", u), d)
    if kind == "paramPoly3":  # u(p), v(p) cubics in p, which runs to 1 or (arcLength) to L
        end = size if shape.get("pRange") == "arcLength" else 1.0
        p = np.linspace(0.0, end, max(3, int(size / FINE) + 2))
        return _along(None, _cubic(shape, "U", p), _cubic(shape, "V", p), d)
    raise ValueError(f"unknown geometry <{kind}>")


def _cubic(shape: ET.Element, axis: str, p: np.ndarray) -> np.ndarray:
    a, b, c, d = (number(shape, f"{letter}{axis}") for letter in "abcd")
    return a + p * (b + p * (c + p * d))


def _integral(f: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.r_[0.0, np.cumsum(0.5 * (f[1:] + f[:-1]) * np.diff(x))]


def _along(
    s: np.ndarray | None, u: np.ndarray, v: np.ndarray, d: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(u, v, change of yaw) of a finely sampled curve at d metres of arc length. `s`: of its samples, else computed."""
    if s is None:
        s = np.r_[0.0, np.cumsum(np.hypot(np.diff(u), np.diff(v)))]
    turn = np.unwrap(np.arctan2(np.gradient(v, s), np.gradient(u, s)))
    return np.interp(d, s, u), np.interp(d, s, v), np.interp(d, s, turn)
