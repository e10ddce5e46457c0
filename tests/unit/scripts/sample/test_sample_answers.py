"""The answers of the sample match its images: checked against the renderer's instance mask."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import numpy as np
import pytest

from lmms_eval_ad2.records import Record
from scripts.sample.air import air_of
from scripts.sample.ask import MIN_CLEAR
from scripts.sample.camera import SIX_VIEWS, Camera, Placed, inside
from scripts.sample.draw import Picture, draw_scene
from scripts.sample.questions import Shot, shots
from scripts.sample.scenes import ad2_scenes, coda_scenes, six_view_scenes

pytestmark = pytest.mark.integration

TASKS = {
    "ad2_bench": {"perception_base", "perception_advanced", "relation", "reasoning", "cot"},
    "coda_lm": {"general", "region", "suggestion"},
    "autodrive_qa": {"perception", "prediction", "planning"},
}


@cache
def all_shots() -> list[Shot]:
    return list(shots())


def records(benchmark: str) -> list[tuple[Record, dict[str, Picture]]]:
    return [(r, s.pictures) for s in all_shots() for r in s.records.get(benchmark, ())]


def of(subtask: str) -> list[tuple[Record, Picture]]:
    found = [(r, p[r.images[0]]) for r, p in records("ad2_bench") if r.subtask == subtask]
    assert found, subtask
    return found


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", text)]


# --- contents ---


@pytest.mark.parametrize("benchmark", TASKS)
def test_every_task_has_enough_records(benchmark: str) -> None:
    rows = [r for r, _ in records(benchmark)]
    counts = Counter(r.task for r in rows)
    assert set(counts) == TASKS[benchmark]
    assert min(counts.values()) >= 12
    assert counts.get("perception_base", 24) >= 24
    assert len({r.id for r in rows}) == len(rows)
    assert all(r.cluster and r.image_size == (960, 540) for r in rows)


def test_all_named_subtasks_weathers_and_forms_occur() -> None:
    rows = [r for r, _ in records("ad2_bench")]
    named = (
        "existence existence_left_right category counting location detection reference_detection attribute "
        "dense_caption ocr lane_line motion position others spatial social causal occlusion weather night region "
        "occlusion_reasoning cross_role holistic"
    )
    assert {r.subtask for r in rows} == set(named.split())
    assert {r.scene["weather"] for r in rows} == {"overcast", "dawn", "rainy", "snowy", "fog", "night", "sand"}
    assert {r.scene["severity"] for r in rows} == {"light", "moderate", "severe"}
    assert {r.form for r in rows} == {"mc", "vqa", "yesno", "count", "point", "box", "ocr", "chain"}
    assert {r.mark.kind for r in rows} == {"none", "text", "point", "box"}
    marked = [r.mark for r in rows if r.task == "relation" and r.mark.coords]
    assert len(marked) >= 30 and all(mark.text.en and mark.text.zh for mark in marked)
    letters = Counter(r.letter for r in rows)
    assert letters["E"] >= 8 and letters["F"] >= 6
    for task in ("perception_base", "perception_advanced", "relation", "reasoning"):
        both = [r for r in rows if r.task == task and {"mc", "vqa"} <= set(r.forms)]
        assert len(both) >= 14 or task == "perception_base", task
    assert Counter(r.subtask for r in rows).items() >= {("social", 5), ("night", 5)}


def test_constant_answers_score_no_more_than_their_share() -> None:
    """Each number from 0 to 6 three times, as many yes as no, left as right; every letter at most a third."""
    rows = [r for r, _ in records("ad2_bench")]
    assert Counter(r.answer.en for r in rows if r.form == "count") == dict.fromkeys("0123456", 3)
    words = Counter(r.answer.en for r in rows if r.form == "yesno")
    assert words == {"yes": 3, "no": 3, "left": 3, "right": 3}
    letters = Counter(r.letter for r in rows if r.letter)
    assert max(letters.values()) <= letters.total() / 3.5
    spatial = Counter(r.right_option.text.en for r in rows if r.subtask == "spatial" and r.right_option)
    assert max(spatial.values()) <= 0.5 * spatial.total()


def test_left_and_right_are_where_the_object_is() -> None:
    sides = set()
    for record, picture in of("existence_left_right"):
        if record.form == "yesno":
            thing = picture.scene.get(record.meta["thing"])
            assert thing is not None and record.words == ("left", "right")
            assert record.answer.en == ("left" if thing.x < 0 else "right")
            assert (picture.seen[thing.key].centre[0] < 480) == (thing.x < 0), record.id
            sides.add(record.answer.en)
    assert sides == {"left", "right"}


def test_spatial_answers_hold_on_the_road_and_in_the_image() -> None:
    for record, picture in of("spatial"):
        owners = np.asarray(picture.owners)
        one, two = (picture.scene.things[owners[int(y), int(x)] - 1] for x, y in record.mark.coords)
        place = "Nearer" if two.z < one.z else "Farther away"
        way = "left" if two.x < one.x else "right"
        right = record.right_option
        assert right is not None
        if right.letter != "E":
            assert right.text.en == f"{place} than target 1, to its {way}", record.id
            assert (record.mark.coords[1][0] < record.mark.coords[0][0]) == (way == "left"), record.id


def test_people_that_belong_together_are_side_by_side() -> None:
    for record, picture in of("social"):
        boxes = {seen.box: picture.scene.get(key) for key, seen in picture.seen.items()}
        one, two = (boxes[tuple(int(v) for v in box)] for box in record.mark.coords)
        assert one and two and abs(one.x - two.x) < 1.5 and abs(one.z - two.z) < 1
        assert {one.kind, two.kind} in ({"pedestrian", "child"}, {"worker"}), record.id


def test_chains_mark_vehicles_and_people_at_their_steps() -> None:
    chains = [r for r, _ in records("ad2_bench") if r.form == "chain"]
    for record in chains:
        kinds = [s.mark and s.mark.kind for s in record.steps]
        assert (kinds[0], *kinds[3:]) == (None, None, None)
        assert kinds[1] in ("box", None) and kinds[2] in ("point", None)
        assert (kinds[2] is None) == record.steps[2].answer.en.startswith("No vulnerable"), record.id
    assert sum(s.mark is not None for r in chains for s in r.steps) >= 30


def test_ad2_records_are_bilingual_and_chains_have_five_steps() -> None:
    chinese = re.compile(r"[一-鿿]")
    for r, _ in records("ad2_bench"):
        assert r.question.en
        assert chinese.search(r.question.zh)
        sign = "" if r.form == "ocr" else re.sub(r"reading [^;.]+", "", r.question.en + r.answer.en)
        assert not chinese.search(sign)
        if r.form in ("vqa", "mc", "chain"):
            assert chinese.search(r.answer.zh), r.id
        if r.form == "chain":
            assert len(r.steps) == 5
            assert all(chinese.search(s.answer.zh) and s.answer.en for s in r.steps)


@pytest.mark.parametrize("benchmark", ["ad2_bench", "autodrive_qa"])
def test_options_are_distinct_and_the_letter_is_the_correct_one(benchmark: str) -> None:
    for r, _ in records(benchmark):
        right = r.right_option
        if right is None:
            continue
        texts = [o.text.en for o in r.options]
        assert len(set(texts)) == len(texts)
        with_reason = right.text.en.startswith(r.answer.en.rstrip(".") + ", ")  # "Yes, one bus." of "Yes."
        same = right.text.en == r.answer.en or (benchmark == "autodrive_qa" and with_reason)
        assert same == (r.form == "mc"), r.id
        kinds = Counter(o.kind for o in r.options)
        if benchmark == "ad2_bench":
            assert [o.letter for o in r.options] == list("ABCDEF")
            assert kinds["correct"] == (r.letter in "ABCD")
            assert (r.options[4].kind, r.options[5].kind) == ("none_matches", "absent")
        else:
            assert kinds["correct"] == 1
            assert right.kind == "correct"
            assert len(kinds) == 4


def test_correct_letters_are_balanced() -> None:
    for benchmark in ("ad2_bench", "autodrive_qa"):
        letters = Counter(r.letter for r, _ in records(benchmark) if r.letter)
        assert max(letters[k] for k in "ABCD") <= 0.5 * letters.total()
        assert min(letters[k] for k in "ABCD") >= 2


# --- answers compared with the rendered images ---


@pytest.mark.parametrize("subtask", ["detection", "reference_detection"])
def test_boxes_enclose_exactly_the_pixels_of_their_object(subtask: str) -> None:
    for record, picture in of(subtask):
        x1, y1, x2, y2 = (int(n) for n in numbers(record.answer.en))
        mask = np.asarray(picture.owners) == picture.number(record.meta["thing"])
        assert mask.any()
        assert mask.sum() == mask[y1:y2, x1:x2].sum()
        assert mask[y1, x1:x2].any() and mask[y2 - 1, x1:x2].any()
        assert mask[y1:y2, x1].any() and mask[y1:y2, x2 - 1].any()


def test_points_are_on_their_object() -> None:
    for record, picture in of("location"):
        x, y = (int(n) for n in numbers(record.answer.en))
        mask = np.asarray(picture.owners) == picture.number(record.meta["thing"])
        assert mask[y - 6 : y + 7, x - 6 : x + 7].any(), record.id


def test_counted_objects_are_all_visible() -> None:
    for record, picture in of("counting"):
        assert record.answer.en == str(len(record.meta["things"]))
        for key in record.meta["things"]:
            assert picture.seen[key].pixels >= 100, (record.id, key)


def test_existence_answers_match_the_scene() -> None:
    names = {"pedestrian": "pedestrian", "cyclist": "cyclist", "bus": "bus", "truck": "truck", "dog": "dog",
             "child": "child", "road worker": "worker", "traffic light": "traffic_light"}  # fmt: skip
    answers = set()
    for record, picture in of("existence"):
        name = re.search(r"Is there an? (.+) in the image", record.question.en)
        assert name
        present = [t for t in picture.scene.of(names[name[1]]) if t.key in picture.seen]
        assert record.answer.en == record.answer.zh == ("yes" if present else "no")
        answers.add(record.answer.en)
    assert answers == {"yes", "no"}


def test_ocr_answers_match_the_sign() -> None:
    for record, picture in of("ocr"):
        thing = picture.scene.get(record.meta["thing"])
        assert thing is not None
        assert record.answer.en == thing.text.replace("/", " ")
        x1, y1, x2, y2 = (int(v) for v in record.mark.coords[0])
        assert (x2 - x1) * (y2 - y1) > 900, "large enough to be read"


def test_marked_occluded_object_is_partly_visible() -> None:
    for record, picture in of("occlusion"):
        x, y = (int(v) for v in record.mark.coords[0])
        hidden = picture.scene.things[np.asarray(picture.owners)[y, x] - 1]
        assert 0.25 < picture.seen[hidden.key].visible < 0.9
        box = picture.seen[hidden.key].box
        assert box[0] <= x < box[2] and box[1] <= y < box[3]


def test_located_objects_are_visible_in_the_weather() -> None:
    for subtask in ("detection", "location"):
        for record, picture in of(subtask):
            thing = picture.scene.get(record.meta["thing"])
            assert thing is not None
            assert air_of(picture.scene).clearness(thing.z) >= MIN_CLEAR


def test_coda_regions_are_boxes_of_objects_with_known_classes() -> None:
    classes = {"vehicle", "vru", "traffic_sign", "traffic_light", "traffic_cone", "barrier", "miscellaneous"}
    seen = set()
    for record, pictures in records("coda_lm"):
        if record.task != "region":
            continue
        boxes = [s.box for s in pictures[record.images[0]].seen.values()]
        assert tuple(int(v) for v in record.mark.coords[0]) in boxes
        assert record.meta["category_name"] and record.meta["object_key"]
        seen.add(record.meta["category"])
    assert seen == classes


def test_six_view_questions_match_the_images() -> None:
    six = [(r, p) for r, p in records("autodrive_qa") if r.views]
    assert {r.views for r, _ in six} == {tuple(SIX_VIEWS)}
    tagged: Counter[str] = Counter()
    answers: set[str] = set()
    for record, pictures in six:
        tag = re.search(r"<(c\d),(CAM_\w+),([\d.]+),([\d.]+)>", record.question.en)
        if tag:
            tagged[tag[1]] += 1
            picture = pictures[record.images[record.views.index(tag[2])]]
            pixel = (int(float(tag[3])), int(float(tag[4])))
            key = {"c1": "lead", "c2": "behind", "c3": "beside_left"}[tag[1]]
            assert np.asarray(picture.owners)[pixel[1], pixel[0]] == picture.number(key)
            if "visual description" in record.question.en:
                thing = picture.scene.get(key)
                assert thing and record.answer.en == f"{thing.color} {thing.kind}.".capitalize()
        kind = re.search(r"Are there (\w+?)(?:e?s) to the back", record.question.en)
        if kind:
            scene = next(iter(pictures.values())).scene
            behind = [t for t in scene.of(kind[1].replace("buse", "bus")) if t.z < -5]
            assert record.answer.en == ("Yes." if behind else "No.")
            answers.add(record.answer.en)
    assert min(tagged.values()) >= 4 and set(tagged) == {"c1", "c2", "c3"}
    assert answers == {"Yes.", "No."}


def test_options_record_their_maker_and_reasons() -> None:
    for record, _ in records("autodrive_qa"):
        assert (record.meta["maker"], record.meta["distractors"]) == ("rules", "all")
        wrong = {o.letter for o in record.options if o.kind != "correct"}
        assert set(record.meta["reasons"]) == wrong and all(record.meta["reasons"].values())
        assert all(o.text.en.endswith(".") for o in record.options)


def test_planned_action_matches_the_traffic_light() -> None:
    seen = set()
    for record, pictures in records("autodrive_qa"):
        if record.task != "planning" or "What actions could" not in record.question.en:
            continue
        scene = next(iter(pictures.values())).scene
        stop = scene.light in ("red", "yellow")
        seen.add(stop)
        assert not stop or "brake gently to a stop" in record.answer.en
        assert stop == ("follow the traffic rules" in record.answer.en)
    assert seen == {True, False}


# --- the renderer ---


def test_equal_scenes_render_equal_pixels() -> None:
    scene = ad2_scenes()[0]
    one, two = draw_scene(scene), draw_scene(scene)
    assert one.image.tobytes() == two.image.tobytes()
    assert one.seen == two.seen
    assert draw_scene(ad2_scenes()[1]).image.tobytes() != one.image.tobytes()


def test_scene_ids_and_object_keys_are_unique() -> None:
    scenes = [*ad2_scenes(), *coda_scenes(), *six_view_scenes()]
    assert len({s.id for s in scenes}) == len(scenes)
    for scene in scenes:
        assert len({t.key for t in scene.things}) == len(scene.things)


def test_projection_by_hand() -> None:
    """A point 10 m ahead, 1 m right, on the ground: 480 + 72, 236 + 108."""
    assert Camera().pixel((1.0, 0.0, 10.0)) == pytest.approx((552.0, 344.0))
    assert Camera(90.0).pixel((10.0, 1.5, 0.0)) == pytest.approx((480.0, 236.0))
    assert Camera(180.0).pixel((1.0, 1.5, -10.0)) == pytest.approx((408.0, 236.0))
    assert Camera().pixel((0.0, 0.0, -1.0)) is None
    assert Camera().polygon([(0, 0, -5), (1, 0, -5), (1, 0, -6)]) == []
    assert len(Camera().polygon([(-1, 0, -5), (1, 0, -5), (0, 0, 10)])) == 3


def test_local_frames_follow_the_heading() -> None:
    assert Placed(0, 10, 90).at(2, 1, 0) == pytest.approx((2.0, 0.0, 9.0))
    assert Placed(1, 2, 180).at(3, 1, 0.5) == pytest.approx((0.0, 0.5, -1.0))
    quad = [(0.0, 0.0, 0.0), (2.0, 0.0, 0.0), (2.0, 4.0, 0.0), (0.0, 4.0, 0.0)]
    assert inside(quad, 0.5, 1, 0.25, 1)[0] == pytest.approx((1.0, 1.0, 0.0))
