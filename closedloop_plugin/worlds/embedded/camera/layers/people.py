"""People, riders and animals as capsules and spheres in space, so that limbs are visible from every side."""

from __future__ import annotations

import math
import zlib
from typing import NamedTuple

import numpy as np

from closedloop_plugin.core.state import Actor, ActorKind
from closedloop_plugin.worlds.embedded.camera.canvas import Canvas, Colour
from closedloop_plugin.worlds.embedded.camera.mesh import place

SKIN = ((222.0, 178.0, 148.0), (198.0, 148.0, 112.0), (146.0, 100.0, 70.0), (104.0, 70.0, 50.0))
TOPS = (
    (196.0, 50.0, 46.0),
    (40.0, 92.0, 168.0),
    (236.0, 196.0, 60.0),
    (58.0, 134.0, 84.0),
    (232.0, 232.0, 228.0),
    (130.0, 70.0, 140.0),
    (230.0, 120.0, 40.0),
)
LEGS = ((36.0, 42.0, 66.0), (50.0, 48.0, 46.0), (84.0, 92.0, 112.0), (110.0, 92.0, 70.0))
HAIR = ((40.0, 28.0, 22.0), (92.0, 62.0, 36.0), (24.0, 22.0, 24.0), (196.0, 162.0, 96.0))
DARK = (30.0, 30.0, 32.0)
UNPAINTED = (120, 120, 130)  # default colour of an Actor


class LimbCapsule(NamedTuple):
    """A limb from a to b, or a sphere if b is None; metres in the body's frame (ahead, left, up)."""

    a: tuple[float, float, float]
    b: tuple[float, float, float] | None
    radius: float
    colour: Colour


class WheelRing(NamedTuple):
    """A wheel in the body's vertical plane."""

    x: float
    radius: float
    tube: float
    colour: Colour


def draw_body(canvas: Canvas, actor: Actor, time_s: float) -> None:
    """Draw a pedestrian, child, bicycle, motorcycle or animal."""
    pick = zlib.crc32(actor.id.encode())  # the same clothes in every frame and every run
    phase = math.tau * ((1.7 * time_s + (pick % 97) / 97) % 1.0)
    hoops: list[WheelRing] = []
    if actor.kind in (ActorKind.BICYCLE, ActorKind.MOTORCYCLE):
        parts, hoops = _rider(actor, phase, pick)
    else:
        parts = (_animal if actor.kind is ActorKind.ANIMAL else _walker)(actor, phase, pick)
    distance = math.hypot(actor.x - canvas.lens.x, actor.y - canvas.lens.y)
    for hoop in hoops:
        angle = np.arange(20) * (math.tau / 20)
        ring = np.column_stack([hoop.x + hoop.radius * np.cos(angle), 0 * angle, hoop.radius * (1 + np.sin(angle))])
        colour = canvas.flat(hoop.colour, actor.x, actor.y, distance)
        canvas.ring(place(ring, actor.x, actor.y, actor.yaw), hoop.tube, colour)
    c, s = math.cos(actor.yaw), math.sin(actor.yaw)
    ahead = canvas.lens.ahead[0] * c + canvas.lens.ahead[1] * s, -canvas.lens.ahead[0] * s + canvas.lens.ahead[1] * c
    # From the back to the front; equal depths keep the order of the list.
    parts = sorted(parts, key=lambda p: -round(_depth(p, ahead), 3))
    shades = canvas.flats([p.colour for p in parts], actor.x, actor.y, distance)
    own = np.array([[p.a for p in parts], [p.b or p.a for p in parts]])
    ends = place(own.reshape(-1, 3), actor.x, actor.y, actor.yaw).reshape(own.shape)
    drawn = [(p.radius, p.b is None, shade) for p, shade in zip(parts, shades, strict=True)]
    canvas.capsules(ends, drawn)


def _depth(part: LimbCapsule, axis: tuple[float, float]) -> float:
    """Depth relative to the body's centre: the middle of the limb along the optical axis, m."""
    b = part.b or part.a
    return ((part.a[0] + b[0]) * axis[0] + (part.a[1] + b[1]) * axis[1]) / 2


def _clothes(actor: Actor, pick: int) -> tuple[Colour, Colour, Colour, Colour]:
    """Colours of skin, top, legs, hair."""
    own = actor.colour if tuple(actor.colour) != UNPAINTED else TOPS[pick // 7 % len(TOPS)]
    top = float(own[0]), float(own[1]), float(own[2])
    return SKIN[pick % len(SKIN)], top, LEGS[pick // 3 % len(LEGS)], HAIR[pick // 5 % len(HAIR)]


def _walker(actor: Actor, phase: float, pick: int) -> list[LimbCapsule]:
    skin, top, legs, hair = _clothes(actor, pick)
    h = actor.height
    big = 1.25 if actor.kind is ActorKind.CHILD else 1.0  # a child's head is large for its body
    swing = math.sin(phase) * min(abs(actor.speed) / 1.2, 1.3) * 0.16 * h
    hip, neck, width = 0.5 * h, (0.82 if big == 1.0 else 0.78) * h, 0.105 * h
    parts = []
    for side, step in ((1.0, swing), (-1.0, -swing)):
        y = side * 0.06 * h
        knee = (step * 0.55, y, 0.27 * h)
        lift = max(0.0, -step) * 0.25
        foot = (step, y, 0.03 * h + lift)
        parts += [
            LimbCapsule((0.0, y, hip), knee, 0.05 * h, legs),
            LimbCapsule(knee, foot, 0.04 * h, legs),
            LimbCapsule(foot, (step + 0.07 * h, y, 0.025 * h + lift), 0.03 * h, DARK),
        ]
        elbow = (-step * 0.5, side * 0.155 * h, 0.62 * h)
        hand = (-step * 0.9 + 0.03 * h, side * 0.15 * h, 0.47 * h)
        parts += [
            LimbCapsule((0.0, side * 0.13 * h, 0.78 * h), elbow, 0.034 * h, top),
            LimbCapsule(elbow, hand, 0.028 * h, top),
            LimbCapsule(hand, None, 0.028 * h, skin),
        ]
    for y in (-0.055 * h, 0.055 * h):
        parts.append(LimbCapsule((0.0, y, hip + 0.02 * h), (0.0, y, neck - 0.07 * h), width * 0.72, top))
    parts.append(LimbCapsule((0.0, 0.0, neck - 0.02 * h), (0.0, 0.0, neck + 0.04 * h), 0.03 * h, skin))
    return parts + _head(neck + 0.105 * h * big, 0.066 * h * big, skin, hair)


def _head(z: float, radius: float, skin: Colour, hair: Colour, x: float = 0.0) -> list[LimbCapsule]:
    """A head with a cap of hair towards the back, which shows the viewing direction."""
    return [
        LimbCapsule((x + 0.2 * radius, 0.0, z), None, radius, skin),
        LimbCapsule((x - 0.3 * radius, 0.0, z + 0.28 * radius), None, radius * 0.98, hair),
    ]


def _rider(actor: Actor, phase: float, pick: int) -> tuple[list[LimbCapsule], list[WheelRing]]:
    skin, top, legs, _ = _clothes(actor, pick)
    motor = actor.kind is ActorKind.MOTORCYCLE
    k = actor.length / (2.1 if motor else 1.75)
    z = max(actor.height, 1.2) / 1.7
    r = 0.31 * k if motor else 0.34 * k
    front, rear = (0.7 * k, -0.68 * k) if motor else (0.53 * k, -0.53 * k)
    own = actor.colour if tuple(actor.colour) != UNPAINTED else ((176, 30, 34), (40, 70, 150), (50, 120, 70))[pick % 3]
    frame: Colour = (float(own[0]), float(own[1]), float(own[2]))
    hoops = [WheelRing(x, r, 0.055 if motor else 0.022, DARK) for x in (front, rear)]
    seat, bars = (-0.2 * k, 0.0, 0.86 * z), (0.4 * k, 0.0, 1.0 * z)
    crank = (-0.03 * k, 0.0, 0.32 * z)
    parts = [
        LimbCapsule((front, 0.0, r), bars, 0.045 if motor else 0.02, frame if not motor else (150.0, 152.0, 156.0)),
        LimbCapsule((rear, 0.0, r), (seat[0], 0.0, 0.8 * z), 0.02, frame),
        LimbCapsule(crank, (seat[0], 0.0, 0.8 * z), 0.02, frame),
        LimbCapsule(crank, (0.34 * k, 0.0, 0.82 * z), 0.024, frame),
        LimbCapsule((rear, 0.0, r), crank, 0.018, frame),
        LimbCapsule((bars[0], -0.27, bars[2]), (bars[0], 0.27, bars[2]), 0.02, DARK),
        LimbCapsule((rear - 0.05, 0.0, 0.72 * z), None, 0.05, (220.0, 20.0, 16.0)),
    ]
    if motor:  # tank, engine and head lamp
        parts += [
            LimbCapsule((-0.5 * k, 0.0, 0.74 * z), (0.3 * k, 0.0, 0.74 * z), 0.15, frame),
            LimbCapsule((-0.2 * k, 0.0, 0.45 * z), (0.25 * k, 0.0, 0.45 * z), 0.16, (60.0, 60.0, 64.0)),
            LimbCapsule((0.5 * k, 0.0, 0.86 * z), None, 0.11, (240.0, 238.0, 220.0)),
        ]
    moving = 0.0 if motor else 0.15 * z * min(1.0, abs(actor.speed))
    for side, turn in ((1.0, phase), (-1.0, phase + math.pi)):
        y = side * 0.1
        foot = (crank[0] + moving * math.cos(turn), y, crank[2] - 0.02 + moving * math.sin(turn))
        knee = (0.22 * k + 0.3 * (foot[0] - crank[0]), y * 1.4, 0.68 * z + 0.5 * (foot[2] - crank[2]))
        parts += [
            LimbCapsule((seat[0], y, 0.92 * z), knee, 0.075, legs),
            LimbCapsule(knee, foot, 0.058, legs),
            LimbCapsule(foot, (foot[0] + 0.12, y, foot[2] - 0.02), 0.045, DARK),
            LimbCapsule((0.02 * k, side * 0.2, 1.38 * z), (bars[0] - 0.04, side * 0.25, bars[2] + 0.03), 0.05, top),
        ]
    for y in (-0.09, 0.09):
        parts.append(LimbCapsule((seat[0], y, 0.95 * z), (0.02 * k, y, 1.36 * z), 0.12, top))
    helmet: Colour = DARK if motor else ((236.0, 236.0, 236.0), (230.0, 70.0, 40.0), (60.0, 110.0, 200.0))[pick % 3]
    return parts + _head(1.56 * z, 0.125 if motor else 0.115, skin, helmet, 0.1 * k), hoops


def _animal(actor: Actor, phase: float, pick: int) -> list[LimbCapsule]:
    """A dog or a deer, by its size."""
    coat: Colour = ((150.0, 104.0, 62.0), (116.0, 84.0, 56.0), (176.0, 138.0, 92.0))[pick % 3]
    a, h = actor.length / 2, actor.height
    swing = math.sin(phase) * min(abs(actor.speed) / 2, 1.0) * 0.18 * h
    body = 0.2 * h
    parts = [
        LimbCapsule((-0.6 * a, 0.0, 0.62 * h), (0.5 * a, 0.0, 0.62 * h), body, coat),
        LimbCapsule((0.5 * a, 0.0, 0.66 * h), (0.8 * a, 0.0, 0.9 * h), 0.09 * h, coat),
        LimbCapsule((0.78 * a, 0.0, 0.92 * h), (1.05 * a, 0.0, 0.86 * h), 0.075 * h, coat),
        LimbCapsule((-0.65 * a, 0.0, 0.7 * h), (-0.95 * a, 0.0, 0.62 * h), 0.035 * h, (230.0, 222.0, 206.0)),
    ]
    for side in (1.0, -1.0):
        parts.append(
            LimbCapsule((0.78 * a, side * 0.06 * h, 0.96 * h), (0.72 * a, side * 0.1 * h, 1.06 * h), 0.025 * h, coat)
        )
        for x, step in ((0.45 * a, swing * side), (-0.52 * a, -swing * side)):
            parts.append(
                LimbCapsule((x, side * 0.1 * h, 0.55 * h), (x + step, side * 0.1 * h, 0.02 * h), 0.045 * h, coat)
            )
    return parts
