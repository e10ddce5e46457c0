"""Draw a scene with its ground truth: the ground, then the objects from far to near, then the weather."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from scripts.sample.air import Air, air_of
from scripts.sample.camera import HEIGHT, HORIZON, WIDTH, Camera
from scripts.sample.canvas import Canvas, Seen
from scripts.sample.ground import backdrop
from scripts.sample.people import draw_cyclist, draw_dog, draw_person
from scripts.sample.scene import VEHICLES, WALKERS, Scene, Thing
from scripts.sample.street import FURNITURE, draw_guardrail, draw_house, draw_lamp, draw_tree
from scripts.sample.vehicles import draw_vehicle

DRAWERS: dict[str, Callable[[Canvas, Thing, int], None]] = {
    **FURNITURE,
    **dict.fromkeys(VEHICLES, draw_vehicle),
    **dict.fromkeys(WALKERS, draw_person),
    "cyclist": draw_cyclist,
    "dog": draw_dog,
}


@dataclass(frozen=True)
class Picture:
    """A drawn scene. `seen`: visible objects by key; `owners`: instance mask, the object number at each pixel."""

    scene: Scene
    image: Image.Image
    seen: dict[str, Seen]
    owners: Image.Image

    def number(self, key: str) -> int:
        """The value of an object's pixels in `owners`."""
        return 1 + [t.key for t in self.scene.things].index(key)


def draw_scene(scene: Scene, yaw: float = 0.0) -> Picture:
    """Draw a scene through the camera turned by `yaw` degrees. The same scene gives the same pixels."""
    rng = random.Random(f"{scene.id}:{scene.seed}")
    noise = np.random.default_rng([scene.seed, round(yaw) % 360, *scene.id.encode()])
    air, camera = air_of(scene), Camera(yaw)
    canvas = Canvas(backdrop(scene, air, camera, noise), camera, air)
    for _, paint in sorted(_surroundings(scene, canvas, rng), key=lambda job: -job[0]):
        paint()
    numbers = {t.key: n for n, t in enumerate(scene.things, 1)}
    for thing in sorted(scene.things, key=lambda t: -camera.depth(t.x, t.z)):
        if camera.depth(thing.x, thing.z) > -6:
            DRAWERS[thing.kind](canvas, thing, numbers[thing.key])
    found = canvas.seen()
    image = _weather(canvas.finish(), air, noise)
    return Picture(scene, image, {k: found[n] for k, n in numbers.items() if n in found}, canvas.owners)


def _surroundings(scene: Scene, canvas: Canvas, rng: random.Random) -> list[tuple[float, Callable[[], None]]]:
    """Houses, trees, lamps and rails with their distance; the same in all views of a scene."""
    left, right = scene.road
    jobs: list[tuple[float, Callable[[], None]]] = []

    def add(x: float, z: float, paint: Callable[[], None], behind: float = 0.0) -> None:
        jobs.append(((x * x + z * z) ** 0.5 + behind, paint))

    gap = (scene.crossing + 3.5, scene.crossing + 13.5) if scene.crossing is not None else (1e9, 1e9)
    for side, edge in ((-1, left), (1, right)):
        if scene.setting == "city":
            z = -60.0
            while z < 150:
                end = z + rng.uniform(11, 19)
                height, seed = rng.uniform(8, 17), rng.random()
                if end > gap[0] and z < gap[1]:
                    if z < gap[0] - 5:
                        end = gap[0]
                    else:
                        z = max(z, gap[1])
                        end = z + 14
                front = edge + side * 4.2
                house = _house(canvas, front, z, end, height, seed, side)
                add(front + side * 3, end if end < 0 else max(z, 0.0), house, behind=1000.0)
                z = end + (0.0 if rng.random() < 0.7 else 3.0)
        for z in range(-48, 130, 12 if scene.setting == "city" else 9):
            jitter, seed = rng.uniform(-2, 2), rng.random()
            if gap[0] - 1 < z + jitter < gap[1] + 1:
                continue
            away = rng.uniform(2.3, 3.0) if scene.setting == "city" else rng.uniform(5, 16)
            x = edge + side * away
            if scene.setting != "city" or rng.random() < 0.45:
                add(x, z + jitter, _tree(canvas, x, z + jitter, seed))
        for z in range(-34, 120, 24):
            if scene.setting != "suburb" or side == 1:
                x = edge + side * 1.1
                add(x, z + (0 if side == 1 else 12), _lamp(canvas, x, z + (0.0 if side == 1 else 12.0)))
        if scene.setting == "highway":
            add(edge + side * 0.7, 150, _rail(canvas, edge + side * 0.7))
    return jobs


def _house(c: Canvas, x: float, z0: float, z1: float, height: float, seed: float, side: int) -> Callable[[], None]:
    return lambda: draw_house(c, x, z0, z1, height, random.Random(seed), side)


def _tree(c: Canvas, x: float, z: float, seed: float) -> Callable[[], None]:
    return lambda: draw_tree(c, x, z, random.Random(seed))


def _lamp(c: Canvas, x: float, z: float) -> Callable[[], None]:
    return lambda: draw_lamp(c, x, z)


def _rail(c: Canvas, x: float) -> Callable[[], None]:
    def both() -> None:
        draw_guardrail(c, x, 1.0, 140.0)

    return both


def _weather(image: Image.Image, air: Air, rng: np.random.Generator) -> Image.Image:
    """Rain, snow and dust in front of the scene."""
    if air.rain:
        _streaks(image, rng, int(170 + 620 * air.rain), air.rain)
    if air.snow:
        _flakes(image, rng, int(160 + 720 * air.snow), air.snow)
    if air.sand:
        image = _dust(image, rng, air.sand)
    return image


def _streaks(image: Image.Image, rng: np.random.Generator, count: int, strength: float) -> None:
    draw = ImageDraw.Draw(image, "RGBA")
    x, y, size = rng.random(count) * (WIDTH + 80) - 40, rng.random(count) * HEIGHT, rng.random(count)
    for a, b, k in zip(x.tolist(), y.tolist(), size.tolist(), strict=True):
        length = 9 + 24 * k * (0.6 + strength)
        fill = (214, 222, 232, int(36 + 70 * k))
        draw.line([a, b, a - length * 0.22, b + length], fill=fill, width=2 if k > 0.85 else 1)


def _flakes(image: Image.Image, rng: np.random.Generator, count: int, strength: float) -> None:
    draw = ImageDraw.Draw(image, "RGBA")
    x, y, size = rng.random(count) * WIDTH, rng.random(count) * HEIGHT, rng.random(count) ** 3
    for a, b, k in zip(x.tolist(), y.tolist(), size.tolist(), strict=True):
        r = 0.7 + (1.6 + 1.6 * strength) * k
        draw.ellipse([a - r, b - r, a + r, b + r], fill=(250, 251, 253, int(235 - 110 * k)))


def _dust(image: Image.Image, rng: np.random.Generator, strength: float) -> Image.Image:
    """Clouds of sand across the view, and grains."""
    coarse = Image.fromarray((rng.random((9, 7)) * 255).astype(np.uint8)).resize(
        (WIDTH, HEIGHT), Image.Resampling.BICUBIC
    )
    grain = rng.random((HEIGHT, WIDTH // 6))
    streak = Image.fromarray((grain * 255).astype(np.uint8)).resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR)
    streak = streak.filter(ImageFilter.BoxBlur(2))
    rows = np.abs(np.arange(HEIGHT) - HORIZON)[:, None] / HEIGHT
    cover = strength * (0.12 + 0.34 * np.asarray(coarse, np.float32) / 255) * (1.1 - 0.8 * rows)
    cover += strength * 0.10 * (np.asarray(streak, np.float32) / 255 - 0.5)
    picture = np.asarray(image, np.float32)
    picture = picture + np.clip(cover, 0, 1)[..., None] * (np.asarray((212, 172, 110), np.float32) - picture)
    return Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
