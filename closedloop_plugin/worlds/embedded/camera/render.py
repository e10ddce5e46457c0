"""CameraRenderer: pictures of a static scenery and its actors. Equal arguments give equal pictures, bit for bit."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.perception import PerceptionConditions
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import STATIC, VEHICLES, Actor, ActorKind, SignalState
from closedloop_plugin.core.visibility import FAR_HEAD, VisibleExtent
from closedloop_plugin.worlds.embedded.camera.canvas import Canvas, DrawnBodies
from closedloop_plugin.worlds.embedded.camera.layers import street
from closedloop_plugin.worlds.embedded.camera.layers.buildings import BuildingLayer, draw_wall, visible
from closedloop_plugin.worlds.embedded.camera.layers.effects import SunGlare, draw_drops, worn
from closedloop_plugin.worlds.embedded.camera.layers.ground import GroundLayer, paint_of
from closedloop_plugin.worlds.embedded.camera.layers.people import draw_body
from closedloop_plugin.worlds.embedded.camera.layers.props import draw_prop
from closedloop_plugin.worlds.embedded.camera.layers.sky import draw_rain, draw_sky
from closedloop_plugin.worlds.embedded.camera.layers.vehicles import draw_vehicle
from closedloop_plugin.worlds.embedded.camera.lens import PinholeLens, lens_of
from closedloop_plugin.worlds.embedded.camera.lighting import light_of
from closedloop_plugin.worlds.embedded.camera.scenery import StaticScenery, corners

# Drawing order of bodies, from the back to the front.


def back_to_front(boxes: np.ndarray, solid: np.ndarray, eye: tuple[float, float]) -> list[int]:
    """Indices in an order in which every body comes before those that hide it; ties by distance, farthest first.

    boxes: (n, 5) footprints: x, y, yaw, length, width; map frame, m, rad. A `solid` box hides a body if it intersects a
    line from the eye to one of the body's corners or its centre. Of two bodies in the same direction without such a
    relation, the one of smaller angular size is in front. Sorting by distance alone would let a long truck cover a
    person beside its far end.
    """
    count = len(boxes)
    points = _points(boxes)
    distance = np.hypot(boxes[:, 0] - eye[0], boxes[:, 1] - eye[1])
    occludes = np.zeros((count, count), bool)
    occluders = np.flatnonzero(solid)
    if len(occluders):
        occludes[occluders] = _occludes(boxes, occluders, points, eye)
    np.fill_diagonal(occludes, False)
    # Of two that intersect, the nearer one hides.
    occludes &= ~(occludes & occludes.T & (distance[:, None] > distance[None, :]))
    occludes |= _in_front(points, distance, eye) & ~occludes & ~occludes.T
    after: list[list[int]] = [[] for _ in range(count)]  # body -> bodies to draw after it
    for occluder, occluded in zip(*(k.tolist() for k in np.nonzero(occludes)), strict=True):
        after[occluded].append(occluder)
    before = occludes.sum(axis=1).tolist()  # number of bodies to draw before each
    ready = [(-float(distance[i]), i) for i in range(count) if before[i] == 0]
    heapq.heapify(ready)
    left = set(range(count))
    order: list[int] = []
    while left:
        if not ready:  # cyclic occlusion: the farthest goes first
            first = max(left, key=lambda i: (distance[i], i))
            heapq.heappush(ready, (-float(distance[first]), first))
        _, i = heapq.heappop(ready)
        if i not in left:
            continue
        left.discard(i)
        order.append(i)
        for j in after[i]:
            before[j] -= 1
            if before[j] == 0 and j in left:
                heapq.heappush(ready, (-float(distance[j]), j))
    return order


def _in_front(points: np.ndarray, distance: np.ndarray, eye: tuple[float, float]) -> np.ndarray:
    """(n, n): i and j overlap in bearing, and i has the smaller angular size."""
    bearing = np.arctan2(points[..., 1] - eye[1], points[..., 0] - eye[0])
    middle = bearing[:, 0]
    half = np.abs(_wrap(bearing - middle[:, None])).max(axis=1)
    overlap = np.abs(_wrap(middle[:, None] - middle[None, :])) < half[:, None] + half[None, :]
    key = half + 1e-9 * distance  # equal sizes: the nearer one is in front
    return np.asarray(overlap & (key[:, None] < key[None, :]))


def _wrap(angle: np.ndarray) -> np.ndarray:
    return np.asarray(angle - math.tau * np.rint(angle / math.tau))


def _points(boxes: np.ndarray) -> np.ndarray:
    """(n, 5, 2): centre and corners."""
    x, y, yaw, length, width = (column[:, None] for column in boxes.T)
    c, s = np.cos(yaw), np.sin(yaw)
    unit = np.array([[0, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=float)
    a, b = unit[None, :, 0] * length / 2, unit[None, :, 1] * width / 2
    return np.stack([x + a * c - b * s, y + a * s + b * c], axis=-1)


def _occludes(boxes: np.ndarray, occluders: np.ndarray, points: np.ndarray, eye: tuple[float, float]) -> np.ndarray:
    """(occluders, n): whether the occluder's box intersects a line from the eye to one of the body's points.

    Slab method in the occluder's frame: e + t (p - e), t in [0, 1], is inside |x| <= l / 2 and |y| <= w / 2 between the
    largest entry and the smallest exit of the two slabs.
    """
    x, y, yaw, length, width = (column[:, None, None] for column in boxes[occluders].T)
    c, s = np.cos(yaw), np.sin(yaw)

    def own(px: np.ndarray, py: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (px - x) * c + (py - y) * s, -(px - x) * s + (py - y) * c

    e = own(np.asarray(eye[0]), np.asarray(eye[1]))
    p = own(points[None, :, :, 0], points[None, :, :, 1])
    enter, leave = np.zeros(p[0].shape), np.ones(p[0].shape)
    for axis, half in ((0, length / 2), (1, width / 2)):
        reach = half * 0.98
        run = p[axis] - e[axis]
        run = np.where(np.abs(run) < 1e-9, 1e-9, run)
        t0, t1 = (-reach - e[axis]) / run, (reach - e[axis]) / run
        enter, leave = np.maximum(enter, np.minimum(t0, t1)), np.minimum(leave, np.maximum(t0, t1))
    return np.asarray((enter < leave).any(axis=2))


BODIES = frozenset({ActorKind.PEDESTRIAN, ActorKind.CHILD, ActorKind.ANIMAL, ActorKind.BICYCLE, ActorKind.MOTORCYCLE})
TREES_TO = 130.0  # m
POSTS_TO = 90.0
POOLS_TO = 65.0  # street lamps within this distance light the ground
SIGNS_TO = 110.0
CLEAR = PerceptionConditions()


@dataclass(frozen=True)
class SceneView:
    """The dynamic part of a scene at one moment. Ego pose in the map frame; `actors` does not contain the ego."""

    x: float
    y: float
    yaw: float
    actors: tuple[Actor, ...] = ()
    signals: Mapping[str, SignalState] = field(default_factory=dict)  # by StopLine.id
    weather: Weather = field(default_factory=Weather)
    time_s: float = 0.0


class CameraRenderer:
    """Renders one scenery, without state from earlier frames.

    `perception`: conditions of all pictures, drawn by the `seed`. Restricts OpenCV to one thread, since many worlds run
    at the same time, each in a process.
    """

    def __init__(self, scenery: StaticScenery, perception: PerceptionConditions = CLEAR, seed: int = 0) -> None:
        cv2.setNumThreads(1)
        self.scenery, self.perception, self.seed = scenery, perception, seed
        wear = perception.worn_markings
        self.ground = GroundLayer(scenery, worn(paint_of(scenery), wear, seed) if wear else None)
        self.houses = BuildingLayer(scenery.buildings)
        self.signs = np.array([[s.x, s.y] for s in scenery.signs]).reshape(-1, 2)
        # Names in measured pictures: the id of the stop line, which for a second head ends in FAR_HEAD.
        self.sign_keys: list[str] = []
        for sign in scenery.signs:
            self.sign_keys.append(sign.line + FAR_HEAD * self.sign_keys.count(sign.line))

    def render(self, camera: Camera, view: SceneView) -> np.ndarray:
        """(height, width, 3) uint8 RGB."""
        return self._render(camera, view, measured=False)[0]

    def render_measured(self, camera: Camera, view: SceneView) -> tuple[np.ndarray, Mapping[str, VisibleExtent]]:
        """The same picture, and what it shows of each actor, sign and signal, by id. Glare, rain and drops on the lens
        are drawn last and are not measured."""
        image, bodies = self._render(camera, view, measured=True)
        return image, bodies.extents() if bodies else {}

    def _render(self, camera: Camera, view: SceneView, *, measured: bool) -> tuple[np.ndarray, DrawnBodies | None]:
        lens = lens_of(camera, view.x, view.y, view.yaw)
        canvas = self._canvas(lens, view)
        draw_sky(canvas.image, lens, view.weather)
        glare = SunGlare(canvas, self.perception.sun_glare) if self.perception.sun_glare else None
        actors = self._seen_actors(lens, view, canvas.light.far)
        self.ground.draw(canvas, [_shadow(a) for a in actors])
        bodies = DrawnBodies(canvas.image) if measured else None
        self._bodies(canvas, view, actors, bodies)
        draw_rain(canvas, view.time_s)
        if glare is not None:
            glare.draw(canvas)
        draw_drops(canvas.image, self.perception.lens_drops, self.seed, camera.name)
        return canvas.image, bodies

    def _canvas(self, lens: PinholeLens, view: SceneView) -> Canvas:
        light = light_of(view.weather)
        image = np.empty((lens.height, lens.width, 3), np.uint8)  # sky and ground cover all of it
        beams = min(1.0, max(0.0, (light.night - 0.35) / 0.4))
        posts = self.scenery.lamps
        lit: list[tuple[float, float]] = []
        if beams > 0 and len(posts):
            local = lens.local(posts[:, :2])
            near = posts[(np.hypot(local[:, 0], local[:, 1]) < POOLS_TO) & lens.in_view(local, 12.0, POOLS_TO)]
            lit = [(x + 1.8 * math.cos(yaw), y + 1.8 * math.sin(yaw)) for x, y, yaw in near.tolist()]
        return Canvas(image, lens, light, (view.x, view.y, view.yaw), beams, tuple(lit))

    @staticmethod
    def _seen_actors(lens: PinholeLens, view: SceneView, far: float) -> list[Actor]:
        if not view.actors:
            return []
        where = lens.local(np.array([[a.x, a.y] for a in view.actors]))
        radius = np.array([0.6 * math.hypot(a.length, a.width) + 1.2 for a in view.actors])
        return [view.actors[i] for i in np.flatnonzero(lens.in_view(where, radius, far))]

    def _bodies(self, canvas: Canvas, view: SceneView, actors: list[Actor], bodies: DrawnBodies | None) -> None:
        """Draw buildings, trees, lamp posts, signs and actors from the back to the front; `bodies` measures them."""
        s, lens, far = self.scenery, canvas.lens, canvas.light.far
        shown = visible(lens, self.houses, far)
        houses, walls = s.buildings[shown], self.houses.walls(canvas, shown)
        trees = s.trees[lens.in_view(lens.local(s.trees[:, :2]), s.trees[:, 3], min(far, TREES_TO))]
        posts = s.lamps[lens.in_view(lens.local(s.lamps[:, :2]), 2.0, min(far, POSTS_TO))]
        seen_signs = np.flatnonzero(lens.in_view(lens.local(self.signs), 17.0, min(far, SIGNS_TO)))
        signs = [s.signs[i] for i in seen_signs]
        rows = [houses[:, :5]]
        rows.append(np.array([[a.x, a.y, a.yaw, a.length, a.width] for a in actors]).reshape(-1, 5))
        spots = [trees[:, :2], posts[:, :2], np.array([[g.x, g.y] for g in signs]).reshape(-1, 2)]
        thin = np.concatenate(spots)
        rows.append(np.column_stack([thin, np.zeros((len(thin), 3))]))
        table = np.concatenate(rows)
        solid = np.arange(len(table)) < len(houses) + len(actors)
        n1, n2 = len(houses), len(houses) + len(actors)
        n3, n4 = n2 + len(trees), n2 + len(trees) + len(posts)
        crowns = street.trees_of(canvas, trees)
        for i in back_to_front(table, solid, (lens.x, lens.y)):
            key = unlit = None
            if i < n1:
                for wall in walls.get(int(shown[i]), []):
                    draw_wall(canvas, wall)
            elif i < n2:
                draw_actor(canvas, actors[i - n1], view.time_s)
                key = actors[i - n1].id
            elif i < n3:
                street.draw_tree(canvas, crowns[i - n2])
            elif i < n4:
                street.draw_post(canvas, posts[i - n3])
            else:
                sign = signs[i - n4]
                state = view.signals.get(sign.line) if sign.kind == "signal" else None
                key = self.sign_keys[seen_signs[i - n4]]
                if bodies is not None and state is not None:
                    # The picture so far with the signal, but without its light.
                    beside = replace(canvas, image=canvas.image.copy())
                    street.draw_sign(beside, sign, None, self.perception.hidden_signs)
                    unlit = beside.image
                street.draw_sign(canvas, sign, state, self.perception.hidden_signs)
            if bodies is not None:
                bodies.drawn(key, canvas.image, unlit)


def draw_actor(canvas: Canvas, actor: Actor, time_s: float) -> None:
    """Draw one actor by its kind."""
    if actor.kind in BODIES:
        draw_body(canvas, actor, time_s)
    elif actor.kind in STATIC:
        draw_prop(canvas, actor)
    else:
        draw_vehicle(canvas, actor, time_s)


def _shadow(actor: Actor) -> np.ndarray:
    """(n, 2) outline of the shadow under an actor: its box for a large one, else an ellipse."""
    if actor.kind is ActorKind.BLOCKER or actor.kind in VEHICLES - BODIES:
        return corners(actor.x, actor.y, actor.yaw, actor.length * 1.04, actor.width * 1.12)
    angle = np.arange(12) * (math.tau / 12)
    a, b = max(actor.length, 0.5) / 2 * np.cos(angle), max(actor.width, 0.4) / 2 * np.sin(angle)
    c, s = math.cos(actor.yaw), math.sin(actor.yaw)
    return np.column_stack([actor.x + a * c - b * s, actor.y + a * s + b * c])
