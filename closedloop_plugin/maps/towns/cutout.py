"""cut_out: the part of an OpenDRIVE file around a route.

CARLA's large towns have thousands of roads, for whose polygons Scenic needs many minutes; a route uses a few.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
from scipy.spatial import cKDTree

from closedloop_plugin.maps.opendrive_file import opendrive_root
from closedloop_plugin.maps.towns.reference_line import number, sampled
from lmms_eval_ad2.core.errors import Ad2Error

# m. Actors are up to 69 m from the route (measured on the 220 routes), flows extend 60 m beyond a junction, and cameras
# show little beyond this distance.
WITHIN = 150.0
STEP = 5.0  # m between the sampled points of a road


def cut_out(xodr: bytes, points: np.ndarray, within_m: float = WITHIN, name: object = "the town's map") -> bytes:
    """The document with only the roads within `within_m` of the points, (N, 2) in the map frame, and whole junctions.

    A junction that one of these roads crosses keeps all its arms. Links to removed roads are removed.
    `name`: of the map, for messages.
    """
    root = opendrive_root(xodr, name)
    roads = {road.get("id", ""): road for road in root.iterfind("road")}
    tree = cKDTree(np.asarray(points, dtype=float)[:, :2])
    try:
        near = {id_ for id_, road in roads.items() if _near(road, tree, within_m)}
    except ValueError as exc:
        raise Ad2Error(f"{name} has a road that cannot be read: {exc}") from exc
    if not near:
        raise Ad2Error(f"{name} has no road within {within_m:g} m of the route: it is another town's")
    touched = {_junction(roads[id_]) for id_ in near} - {"-1"}
    core = near | {id_ for id_, road in roads.items() if _junction(road) in touched}
    # Roads with the signals to which these roads refer.
    wanted = {ref.get("id") for id_ in core for ref in roads[id_].iterfind("signals/signalReference")}
    posts = {id_ for id_, road in roads.items() if any(s.get("id") in wanted for s in road.iterfind("signals/signal"))}
    junctions = touched | {_junction(roads[id_]) for id_ in posts} - {"-1"}
    kept = core | posts | _arms(root, roads, junctions)
    signals = {sign.get("id") for id_ in kept for sign in roads[id_].iterfind("signals/signal")}
    _drop(root, kept, junctions, signals)
    for id_ in kept:
        _unlink(roads[id_], kept, junctions)
        block = roads[id_].find("signals")
        for ref in roads[id_].findall("signals/signalReference"):
            if block is not None and ref.get("id") not in signals:
                block.remove(ref)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True)


def _near(road: ET.Element, tree: cKDTree, within: float) -> bool:
    plan = road.find("planView")
    pieces = [] if plan is None else plan.findall("geometry")
    starts = np.array([[number(g, "x"), number(g, "y"), number(g, "length")] for g in pieces])
    if plan is None or not len(starts) or not np.isfinite(starts).all():
        return False
    away = tree.query(starts[:, :2])[0]
    if (away > within + starts[:, 2]).all():
        return False
    size = number(road, "length")
    s = np.linspace(0.0, size, max(2, int(size / STEP) + 1))
    return bool(tree.query(sampled(plan, s)[:, :2])[0].min() <= within + STEP / 2)


def _junction(road: ET.Element) -> str:
    return road.get("junction", "-1")


def _arms(root: ET.Element, roads: dict[str, ET.Element], junctions: set[str]) -> set[str]:
    """All roads in the junctions and their neighbours. Adjacent junctions are added to `junctions`."""
    while True:
        arms = set()
        for id_, road in roads.items():
            if _junction(road) in junctions:
                ends = [end for end in road.findall("link/*") if end.get("elementType") == "road"]
                arms |= {id_, *(end.get("elementId", "") for end in ends)}
        for junction in root.iterfind("junction"):
            if junction.get("id") in junctions:
                arms |= {c.get("incomingRoad", "") for c in junction.iterfind("connection")}
        arms &= set(roads)
        more = {_junction(roads[id_]) for id_ in arms} - {"-1"} - junctions
        if not more:
            return arms
        junctions |= more


def _drop(root: ET.Element, kept: set[str], junctions: set[str], signals: set[str | None]) -> None:
    for road in root.findall("road"):
        if road.get("id", "") not in kept:
            root.remove(road)
    for controller in root.findall("controller"):
        for control in controller.findall("control"):
            if control.get("signalId") not in signals:
                controller.remove(control)
        if not len(controller):
            root.remove(controller)
    controllers = {controller.get("id") for controller in root.iterfind("controller")}
    for junction in root.findall("junction"):
        if junction.get("id") not in junctions:
            root.remove(junction)
            continue
        for controller in junction.findall("controller"):
            if controller.get("id") not in controllers:
                junction.remove(controller)


def _unlink(road: ET.Element, kept: set[str], junctions: set[str]) -> None:
    """Remove the road's links to removed neighbours, and the links of its lanes at that end."""
    link = road.find("link")
    if link is None:
        return
    sections = road.findall("lanes/laneSection")
    for tag, section in (("predecessor", sections[:1]), ("successor", sections[-1:])):
        end = link.find(tag)
        if end is None or end.get("elementId", "") in (junctions if end.get("elementType") == "junction" else kept):
            continue
        link.remove(end)
        for lane in section[0].iterfind("*/lane/link") if section else ():
            for neighbour in lane.findall(tag):
                lane.remove(neighbour)
