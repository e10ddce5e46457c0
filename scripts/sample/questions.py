"""Images and records of the three benchmarks from the scenes. Everything follows from the scenes; nothing is random."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lmms_eval_ad2.records import Record
from scripts.sample.ask import Asker
from scripts.sample.ask_coda import ask_coda
from scripts.sample.ask_cot import ask_cot
from scripts.sample.ask_mcq import ask_mcq, ask_six_views
from scripts.sample.ask_perception import ask_advanced, ask_base
from scripts.sample.ask_reasoning import ask_reasoning
from scripts.sample.ask_relation import ask_relation
from scripts.sample.camera import SIX_VIEWS
from scripts.sample.draw import Picture, draw_scene
from scripts.sample.scene import Scene
from scripts.sample.scenes import ad2_scenes, coda_scenes, six_view_scenes

MCQ_SCENES = 14  # every second one of the first scenes has AutoDrive-QA questions too
BENCHMARKS = ("ad2_bench", "coda_lm", "autodrive_qa")


@dataclass
class Shot:
    """The images of one scene by path, and the records about them by benchmark."""

    pictures: dict[str, Picture]
    records: dict[str, list[Record]] = field(default_factory=dict)


def shots() -> Iterator[Shot]:
    """Draw all scenes, one after the other."""
    for turn, scene in enumerate(ad2_scenes()):
        yield _ad2(scene, turn)
    for scene in coda_scenes():
        yield _coda(scene)
    for scene in six_view_scenes():
        yield _six(scene)


def _ad2(scene: Scene, turn: int) -> Shot:
    path = f"ad2/{scene.id}.jpg"
    picture = draw_scene(scene)
    ad2 = Asker(picture, "ad2_bench", (path,))
    for ask in (ask_base, ask_advanced, ask_relation, ask_reasoning):
        ask(ad2, turn)
    ask_cot(ad2)
    shot = Shot({path: picture}, {"ad2_bench": ad2.records})
    if turn % 2 == 0 and turn < MCQ_SCENES:
        shot.records["autodrive_qa"] = _single_view(picture, path)
    return shot


def _coda(scene: Scene) -> Shot:
    path = f"coda/{scene.id}.jpg"
    picture = draw_scene(scene)
    coda = Asker(picture, "coda_lm", (path,))
    ask_coda(coda)
    return Shot({path: picture}, {"coda_lm": coda.records})


def _single_view(picture: Picture, path: str) -> list[Record]:
    mcq = Asker(picture, "autodrive_qa", (path,))
    ask_mcq(mcq)
    return mcq.records


def _six(scene: Scene) -> Shot:
    pictures = {camera: draw_scene(scene, yaw) for camera, yaw in SIX_VIEWS.items()}
    paths = {camera: f"six/{scene.id}_{camera}.jpg" for camera in SIX_VIEWS}
    mcq = Asker(pictures["CAM_FRONT"], "autodrive_qa", tuple(paths.values()), tuple(SIX_VIEWS))
    ask_six_views(mcq, pictures)
    return Shot({paths[c]: p for c, p in pictures.items()}, {"autodrive_qa": mcq.records})
