"""Small releases in the layouts that `ad2 data import` reads, the same in every run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SIZE = (320, 180)
CAMERAS = ("CAM_FRONT", "CAM_FRONT_LEFT", "CAM_FRONT_RIGHT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT")
ERRORS = (
    "driving_domain_misconceptions", "logical_inconsistencies", "misinterpreted_sensor_inputs",
    "computational_oversights", "question_ambiguity",
)  # fmt: skip
ROAD_LISTS = (
    "vehicles", "vulnerable_road_users", "traffic signs", "traffic lights", "traffic cones", "barriers",
    "other objects",
)  # fmt: skip
TEXT = "description and explanation"


def picture(path: Path, shade: int, tint: int = 0, size: tuple[int, int] = SIZE) -> Path:
    """A picture that depends on shade and tint only."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    grey = Image.linear_gradient("L").resize(size).point([(value + shade) % 256 for value in range(256)])
    Image.merge("RGB", (grey, grey, Image.new("L", size, tint))).save(path)
    return path


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def ad2_bench(root: Path) -> Path:
    """Every form of AD2-Bench once, a chain of thought, and one bad row in the middle."""
    picture(root / "fog" / "1.png", 10)
    base: dict[str, Any] = {
        "image": "fog/1.png", "image_size": list(SIZE), "dimension": "perception_base", "subtask": "existence",
        "question": {"en": "Is a truck in sight?", "zh": "能看到卡车吗？"},
        "scene": {"weather": "fog", "severity": "severe", "tags": ["night"]},
    }  # fmt: skip
    options = {"A": "one", "B": {"en": "two", "zh": "两"}, "C": "three", "D": "four", "E": "none fits", "F": "absent"}
    cot = [
        {"step": 1, "question": "What is seen?", "answer": "Fog.", "subtask_id": 3},
        {"question": "And now?", "answer": "Slow down."},
    ]
    box = {"type": "box", "coords": [[0.1, 0.2, 0.3, 0.4]]}
    rows: list[dict[str, Any]] = [
        {"form": "yesno", "answer": True, "subtask_id": 1},
        {"form": "mc", "options": options, "answer": "two", "subtask": "category"},
        {"form": "count", "answer": "07", "subtask": "counting"},
        {"form": "point", "answer": [0.5, 0.25], "coords_frame": "normalised", "subtask": "location", "prompt": box},
        {"form": "essay", "answer": "no such form"},
        {"form": "box", "answer": [1, 2, 30.25, 40], "subtask": "detection"},
        {"form": "ocr", "answer": "ABC 123", "dimension": "perception_advanced", "subtask": "ocr"},
        {"form": "vqa", "answer": "A red car.", "dimension": "relation", "subtask": "spatial"},
        {"form": "vqa", "answer": "Slow down.", "dimension": "reasoning", "subtask": "weather", "cot": cot},
    ]
    return write_lines(root / "rows.jsonl", ({"id": f"q{i}", **base, **row} for i, row in enumerate(rows)))


def coda_lm(root: Path, *, split: str = "Test", images: int = 3, regions: int = 2, chinese: bool = True) -> Path:
    """CODA-LM's own layout; `split` Train uses the images of val."""
    folder = "val" if split == "Train" else "test"
    for number in range(1, images + 1):
        picture(root / folder / "images" / f"{number:04d}.jpg", 40 * number, 130 if split == "Train" else 0)
        for release, lang in (("CODA-LM", "en"), ("CODA-LM-chinese", "zh")):
            if lang == "en" or chinese:
                path = root / release / split / f"{folder}_{number:04d}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(_coda_annotation(number, regions, lang)), "utf-8")
    return root


def _coda_annotation(number: int, regions: int, lang: str) -> dict[str, Any]:
    region = {"box": [10.5, 20.0, 100.0, 50.25], "category_name": "bus"}
    return {
        "general_perception": {**{name: [{}] for name in ROAD_LISTS}, TEXT: f"general {number} {lang}"},
        "region_perception": {str(k): {**region, TEXT: f"region {k} {number} {lang}"} for k in range(1, regions + 1)},
        "driving_suggestion": f"suggestion {number} {lang}",
    }


def coda_llava(path: Path, photo: Path) -> Path:
    """CODA-LM as one parquet file of conversations; the last question is not one of the release's three."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    turns = (
        ("<image>\nPlease describe the object inside the red rectangle in the image and explain why it affect ego car "
         "driving.", "a bus"),
        ("<image>\nThere is an image of traffic captured from the perspective of the ego car. Please provide driving "
         "suggestions for the ego car based on the current scene.", "slow down"),
        ("Tell a joke.", "no"),
    )  # fmt: skip
    rows = [
        {"id": str(i), "image": {"bytes": photo.read_bytes(), "path": None},
         "conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": a}]}
        for i, (q, a) in enumerate(turns)
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def nuscenes_qa(root: Path) -> Path:
    """NuScenes-QA over two samples of six cameras; the last question's answer is not one of the release's 30."""
    channels = [*CAMERAS, "LIDAR_TOP"]
    data: dict[str, list[dict[str, Any]]] = {
        "sample": [{"token": t, "scene_token": f"scene-{t}"} for t in ("t1", "t2")],
        "sensor": [{"token": f"s{c}", "channel": c} for c in channels],
        "calibrated_sensor": [{"token": f"k{c}", "sensor_token": f"s{c}"} for c in channels],
        "sample_data": [
            {"sample_token": t, "calibrated_sensor_token": f"k{c}", "is_key_frame": key,
             "filename": f"{'samples' if key else 'sweeps'}/{c}/{t}.jpg"}
            for t in ("t1", "t2") for c in channels for key in (True, False)
        ],
    }  # fmt: skip
    (root / "v1.0-trainval").mkdir(parents=True)
    for name, rows in data.items():
        (root / "v1.0-trainval" / f"{name}.json").write_text(json.dumps(rows), "utf-8")
    for index, (token, camera) in enumerate((t, c) for t in ("t1", "t2") for c in CAMERAS):
        picture(root / "samples" / camera / f"{token}.jpg", 15 * index, size=(1600, 900))
    question = {"split": "val", "sample_token": "t1", "question": "Any cars?", "answer": "yes", "num_hop": 0,
           "template_type": "exist"}  # fmt: skip
    questions = [
        question,
        {**question, "sample_token": "t2", "answer": 3, "template_type": "count", "num_hop": 1},
        {**question, "answer": "construction vehicle", "template_type": "object"},
        {**question, "answer": "lorry"},
    ]
    path = root / "NuScenes_val_questions.json"
    path.write_text(json.dumps({"info": {}, "questions": questions}), "utf-8")
    return path


def lingoqa(root: Path) -> Path:
    """LingoQA's folder: action and scenery, two answers of one question, and one question of evaluation."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def row(number: int, segment: str, part: str, **changes: Any) -> dict[str, Any]:
        frames = [f"images/{part}/{segment}/{i}.jpg" for i in range(5)]
        return {"question_id": f"q{number}", "segment_id": segment, "images": frames,
                "question": f"What does car {number} do?", "answer": f"It waits {number} s.", **changes}  # fmt: skip

    files = {
        "action": [row(1, "s1", "train"), row(1, "s1", "train", answer="It stops."), row(2, "s2", "train")],
        "scenery": [row(3, "s1", "train"), row(4, "s3", "train")],
        "evaluation": [row(5, "s5", "val"), row(5, "s5", "val", answer="It stands.")],
    }
    for folder, rows in files.items():
        (root / folder).mkdir(parents=True)
        name = "val.parquet" if folder == "evaluation" else "train.parquet"
        pq.write_table(pa.Table.from_pylist(rows), root / folder / name)
        for image in sorted({image for row in rows for image in row["images"]}):
            picture(root / folder / image, 30 * int(Path(image).stem))
    return root


def autodrive_qa(root: Path, *, first: int = 1, n: int = 6) -> Path:
    """AutoDrive-QA rows over six cameras, every kind of distractor; the last row has an unknown kind."""
    rows = []
    for number in range(first, first + n):
        images = [f"{camera}/{number}.png" for camera in CAMERAS]
        for index, image in enumerate(images):
            picture(root / image, 20 * index + number)
        kinds = ["correct", *(ERRORS[(number + k) % 5] for k in range(3))]
        kinds = kinds[number % 4 :] + kinds[: number % 4]
        options = [{"letter": letter, "text": f"{kind.replace('_', ' ')} {number}", "kind": kind}
                   for letter, kind in zip("ABCD", kinds, strict=True)]  # fmt: skip
        rows.append({
            "id": f"q{number}", "task": ("perception", "prediction", "planning")[number % 3], "source": "drivelm",
            "question": f"What should car {number} do?", "options": options, "answer": "ABCD"[kinds.index("correct")],
            "images": images, "views": list(CAMERAS), "image_size": list(SIZE), "cluster": f"scene {number}",
            "meta": {"distractors": "all", "maker": "rules", "correctness": 3 + number % 3},
        })  # fmt: skip
    rows.append({**rows[-1], "id": "bad", "options": [{**o, "kind": "silly"} for o in rows[-1]["options"]]})
    return write_lines(root / "questions.jsonl", rows)


def records(root: Path) -> Path:
    """Our own records, one per line: free text with a mark, a chain, a choice; the last line is invalid."""
    picture(root / "a.png", 90)
    picture(root / "b.png", 200)
    base: dict[str, Any] = {"images": ["a.png"], "image_size": list(SIZE), "cluster": "a.png", "form": "vqa",
                            "question": {"en": "What is marked?", "zh": "标出的是什么？"},
                            "answer": {"en": "A dog ahead.", "zh": "前方有狗。"}}  # fmt: skip
    steps = [{"name": name, "question": {"en": f"{name}?", "zh": f"{name}？"},
              "answer": {"en": f"{name} is fine.", "zh": f"{name}正常。"}}
             for name in ("weather", "vehicles", "decision")]  # fmt: skip
    options = [{"letter": letter, "text": {"en": word}, "kind": kind} for letter, word, kind in
               (("A", "cat", "distractor"), ("B", "dog", "correct"), ("C", "cow", ERRORS[1]))]  # fmt: skip
    rows = [
        {"id": "a/region", "benchmark": "coda_lm", "task": "region", "subtask": "region",
         "mark": {"kind": "box", "coords": [[10.0, 20.0, 60.0, 90.0]]}},
        {"id": "a/cot", "benchmark": "ad2_bench", "task": "cot", "subtask": "holistic", "form": "chain",
         "steps": steps, "answer": steps[-1]["answer"]},
        {"id": "a/mc", "benchmark": "autodrive_qa", "task": "planning", "subtask": "safe action", "form": "mc",
         "options": options, "letter": "B", "answer": {"en": "dog"}},
        {"id": "b/general", "benchmark": "coda_lm", "task": "general", "subtask": "general", "images": ["b.png"]},
        {"id": "b/bad", "benchmark": "coda_lm", "task": "general", "subtask": "general", "form": "essay"},
    ]  # fmt: skip
    return write_lines(root / "records.jsonl", ({**base, **row} for row in rows))
