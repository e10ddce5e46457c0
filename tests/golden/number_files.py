"""Small files of every kind that contains numbers, with "@" in place of the number."""

from __future__ import annotations

import json
from typing import Any

BENCH: dict[str, Any] = {
    "id": "q", "image": "a.png", "image_size": [320, 180], "dimension": "perception_base", "subtask": "existence",
    "form": "yesno", "question": "Is it?", "answer": "yes",
}  # fmt: skip
RECORD: dict[str, Any] = {
    "id": "a", "benchmark": "coda_lm", "task": "region", "subtask": "region", "form": "vqa", "images": ["a.png"],
    "question": {"en": "What?"}, "answer": {"en": "A dog."},
}  # fmt: skip
OPTIONS = [{"letter": "A", "text": "go", "kind": "correct"}, {"letter": "B", "text": "stop", "kind": "naive"}]
MCQ: dict[str, Any] = {
    "id": "q", "task": "planning", "source": "drivelm", "question": "Now?", "options": OPTIONS, "answer": "A",
    "images": ["a.png"],
}  # fmt: skip
NUSCENES: dict[str, Any] = {"split": "val", "sample_token": "t1", "question": "How many?", "answer": 3, "num_hop": 0,
                            "template_type": "count"}  # fmt: skip
CODA: dict[str, Any] = {
    "general_perception": {"description and explanation": "g"}, "driving_suggestion": "s",
    "region_perception": {"1": {"box": ["@", 20, 30, 40], "category_name": "bus", "description and explanation": "r"}},
}  # fmt: skip


def _questions(**changes: Any) -> str:
    return json.dumps({"questions": [{**NUSCENES, **changes}]})


# name -> (release, file, its text, keys of the record)
RELEASES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    **{
        f"ad2_bench {name}": ("ad2_bench", "rows.jsonl", json.dumps({**BENCH, **changes}), keys)
        for name, changes, keys in (
            ("subtask_id", {"subtask_id": "@"}, ("subtask_id",)),
            ("image_size", {"image_size": ["@", 180]}, ("image_size",)),
            ("yesno answer", {"answer": "@"}, ("answer",)),
            ("count answer", {"form": "count", "answer": "@"}, ("answer",)),
            ("point answer", {"form": "point", "answer": ["@", 20]}, ("answer",)),
            ("normalised point", {"form": "point", "answer": ["@", 0.5], "coords_frame": "normalised"}, ("answer",)),
            ("box answer", {"form": "box", "answer": ["@", 20, 300, 100]}, ("answer",)),
            ("prompt", {"prompt": {"type": "point", "coords": [["@", 20]]}}, ("mark",)),
        )
    },
    **{
        f"records {name}": ("records", "records.jsonl", json.dumps({**RECORD, **changes}), keys)
        for name, changes, keys in (
            ("subtask_id", {"subtask_id": "@"}, ("subtask_id",)),
            ("image_size", {"image_size": ["@", 180]}, ("image_size",)),
            ("mark", {"mark": {"kind": "point", "coords": [["@", 20]]}}, ("mark",)),
        )
    },
    "autodrive_qa image_size": ("autodrive_qa", "mcq.jsonl", json.dumps({**MCQ, "image_size": ["@", 180]}),
                                ("image_size",)),
    "nuscenes_qa answer": ("nuscenes_qa", "nuscenes/NuScenes_val_questions.json", _questions(answer="@"), ("answer",)),
    "nuscenes_qa num_hop": ("nuscenes_qa", "nuscenes/NuScenes_val_questions.json", _questions(num_hop="@"), ("meta",)),
    "coda_lm box": ("coda_lm", "coda/CODA-LM/Test/test_0001.json", json.dumps(CODA), ("mark",)),
}  # fmt: skip
BOXES = {
    "ours": '{"a.png": [{"box": ["@", 2, 300, 40]}]}',
    "coco": '{"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "car"}], '
    '"annotations": [{"image_id": 1, "category_id": 1, "bbox": [2, 3, "@", 40]}]}',
    "coco id": '{"images": [{"id": "@", "file_name": "a.png"}], "categories": [{"id": 1, "name": "car"}], '
    '"annotations": [{"image_id": 1, "category_id": 1, "bbox": [2, 3, 30, 40]}]}',
}
ACTIONS = {
    "mark": ("mark", '{"kind": "box", "coords": [["@", 20, 300, 100]]}'),
    "score": ("score/answer", '"@"'),
    "complete": ("complete", '"@"'),
}
FINISHED = (
    ("answer", {"verdict": "keep", "name": "", "question": "", "text": "A dog ahead."}),
    ("complete", True),
)
POSITIONS = '<waypoints><position x="0" y="0" z="0"/><position x="{x}" y="0" z="0"/></waypoints>'
SCENARIO = ('<scenarios><scenario name="ParkingCutIn_1" type="ParkingCutIn"><trigger_point x="0" y="0" yaw="{yaw}" '
            'z="0"/>{params}</scenario></scenarios>')  # fmt: skip


def _route(x: str = "50", yaw: str = "0", params: str = "", weather: str = "") -> str:
    inside = POSITIONS.format(x=x) + SCENARIO.format(yaw=yaw, params=params) + weather
    return f'<routes><route id="1" town="Town12">{inside}</route></routes>'


ROUTE = _route()
ROUTES = {
    "position": _route(x="@"),
    "yaw": _route(yaw="@"),
    "parameter": _route(params='<distance value="@"/>'),
    "range": _route(params='<flow_speed from="@" to="10"/>'),
    "weather": _route(weather='<weathers><weather route_percentage="0" cloudiness="@"/></weathers>'),
}


def official() -> dict[str, str]:
    """One official record, with "@" in one field."""
    origin = {"backend": "embedded"}
    changes: dict[str, dict[str, Any]] = {
        "score_route": {"scores": {"score_route": "@", "score_penalty": 1.0, "score_composed": 100.0}},
        "score_penalty": {"scores": {"score_route": 100.0, "score_penalty": "@", "score_composed": None}},
        "score_composed": {"scores": {"score_route": 100.0, "score_penalty": 1.0, "score_composed": "@"}},
        "route_length": {"meta": {"route_length": "@", "duration_game": 20.0}},
        "comfort": {"ad2": {"origin": origin, "comfort": {"official": "@"}}},
        "junctions_passed": {"ad2": {"origin": origin, "junctions_passed": "@"}},
    }
    return {name: json.dumps({"_checkpoint": {"records": [{**_official_record(), **change}]}})
            for name, change in changes.items()}  # fmt: skip


def _official_record() -> dict[str, Any]:
    return {
        "route_id": "RouteScenario_1_rep0", "scenario_name": "ParkingCutIn_1", "save_name": "s", "status": "Completed",
        "infractions": {}, "scores": {"score_route": 100.0, "score_penalty": 1.0, "score_composed": 100.0},
        "meta": {"route_length": 100.0, "duration_game": 20.0, "duration_system": 40.0}, "town_name": "Town12",
    }  # fmt: skip


EPISODE: dict[str, Any] = {
    "suite": "one", "route_id": "1", "repetition": 0, "seed": 7, "scenario": "ParkingCutIn",
    "scenario_name": "ParkingCutIn_1", "town": "Town12", "end": "completed", "status": "Completed",
    "infractions": {}, "score_route": 100.0, "score_penalty": 1.0, "score_composed": 100.0, "route_length_m": 100.0,
    "game_s": 20.0, "system_s": 3.0, "ticks": 400, "agent": {"name": "expert (privileged)"}, "interpreter": None,
    "profile": "bench2drive", "world": {"backend": "embedded", "version": "1", "waiting": "waits"},
    "map": {"source": "corridor", "sha256": "ab", "experimental": False},
    "comfort": {"official": 0.5, "corrected": 0.75, "segments": 20}, "version": "1",
}  # fmt: skip
RUN = {
    "identity": {"suite": "one", "suite_sha256": "0", "profile": "bench2drive"},
    "selection": {"routes": ["1"], "asked": ["1"], "repetitions": 1, "shard": None},
}


NOT_SCORED = ("seed", "ticks", "events", "places")  # fields of an episode that `ad2 drive score` ignores


def episodes() -> dict[str, str]:
    """One line of episodes.jsonl, with "@" in one field."""
    changes: dict[str, dict[str, Any]] = {
        name: {name: "@"} for name in ("score_composed", "repetition", "seed", "ticks", "game_s", "junctions_passed")
    }
    changes["comfort"] = {"comfort": {"official": "@", "segments": 20}}
    changes["events"] = {"events": [["@", "trigger"]]}
    changes["places"] = {"places": [{"kind": "collision", "time_s": 1.0, "x": "@", "y": 0.0}]}
    return {name: json.dumps({**EPISODE, **change}) for name, change in changes.items()}


def _metric_rows(**changes: Any) -> str:
    row = {"acceleration": [0.1, 0, 0], "angular_velocity": [0, 0, 0], "forward_vector": [1, 0, 0],
           "right_vector": [0, 1, 0]}  # fmt: skip
    rows = {str(tick): dict(row) for tick in range(30)}
    rows["4"].update(changes)
    return json.dumps(rows)


METRICS = {name: _metric_rows(**{name: ["@", 0, 0]}) for name in ("acceleration", "angular_velocity")}


def _summary(score: dict[str, Any], data: dict[str, Any]) -> str:
    cell = {"official": 50.0, "strict": 50.0, "ci": [40.0, 60.0], "clusters": 3, "n": 10, "n_ok": 10, "n_unparsed": 0,
            "n_unscored": 0, "judge": None}  # fmt: skip
    task = {
        "benchmark": "autodrive_qa", "part": "planning", "lang": "en", "variant": {}, "captions": [], "n": 10,
        "n_ok": 10, "n_unparsed": 0, "n_unscored": 0, "reasons": {}, "score": {**cell, **score}, "columns": {},
        "subtasks": {}, "breakdowns": {}, "judge": None,
        "data": {"name": "d", "split": "test", "sha256": "0", "n": 10, "image_root": "/", **data},
    }  # fmt: skip
    run = {"model": "m", "model_args": "", "label": "m", "date": "2026-01-01T00:00:00+00:00", "seed": 0, "limit": None,
           "judge": None, "versions": {}}  # fmt: skip
    return json.dumps({"schema": "ad2-run/1", "run": run, "tasks": {"ad2_mcq_planning": task}})


def summaries() -> dict[str, str]:
    """A run's summary.json, with "@" in one field."""
    found = {name: _summary({name: "@"}, {}) for name in ("official", "n", "clusters")}
    found["ci"] = _summary({"ci": ["@", 60.0]}, {})
    found["correctness"] = _summary({}, {"correctness": {"mean": "@", "n": 3, "unrated": 0}})
    return found


LAYERS = {"perception": [{"Q": "Wet?", "A": "No.", "tag": ["@"]}], "prediction": [], "planning": [], "behavior": []}
DRIVELM = {"s": {"key_frames": {"f": {"QA": LAYERS}}}}


def action(field: str, after: Any) -> str:
    """A line of actions.jsonl about the record a/region."""
    return json.dumps({"time": "2026-01-02T03:04:05.678+00:00", "reviewer": "anna", "id": "a/region", "field": field,
                       "action": "set", "before": None, "after": after})  # fmt: skip


COMMAND: dict[str, Any] = {"session": "s", "obs": 1, "steer": 0.25, "throttle": 0.5, "brake": 0.75, "duration_s": 0.5,
                           "twist": {"vx": 0.25, "vy": 0.0, "wz": 0.5}}  # fmt: skip
LIMITS: dict[str, Any] = {"speed": 0.4, "yaw_rate": 1.0, "lateral": 0.0, "accel": 1.0, "turning_radius": 0.4622,
                          "reverse": False}  # fmt: skip
TOPICS = {"cmd": "/cmd_vel", "camera": "/camera", "camera_type": "compressed", "odom": "/odom", "status": "/status",
          "status_type": "limo_base/LimoStatus"}  # fmt: skip
VEHICLE: dict[str, Any] = {"name": "limo-ackermann", "kind": "twist", "limits": LIMITS, "topics": TOPICS, "mode": 1,
                           "watchdog_s": None}  # fmt: skip


def with_limit(value: Any) -> dict[str, Any]:
    return {**VEHICLE, "limits": {**LIMITS, "speed": value}}


def onboard(name: str) -> dict[str, Any]:
    """The settings file of the client on board, with "@" in one key of it or of its vehicle."""
    vehicle = {**VEHICLE, name: "@"} if name in VEHICLE else VEHICLE
    settings = {"planner": {"host": "127.0.0.1", "port": 47010, "token_file": "token"}, "vehicle": vehicle}
    return settings if name in VEHICLE else {**settings, name: "@"}


SERVER: dict[str, Any] = {
    "port": 2000, "token": "0" * 32, "stage": "answers", "binary": "binary", "gpu": None, "since": 1.0, "restarts": 0,
    "server_version": "0.9.15", "reason": "",
}  # fmt: skip
ANSWER: dict[str, Any] = {"ad2_drive": 1, "policy": "official", "error": None, "unparsed": None}
COURSE: dict[str, Any] = {
    "segment": "lap", "run": 1, "geometry": "g", "end": "completed", "what": "", "completion": 100.0, "length_m": 5.0,
    "driven_m": 5.0, "time_s": 20.0, "robot": {}, "agent": {}, "interpreter": None, "profile": "bench2advlm",
    "transport": "local", "seed": 0, "ended": [0.0, 0.0, 0.0],
}  # fmt: skip
EVALUATIONS: dict[str, dict[str, Any]] = {
    "score": {"score": "@", "problems": []},
    "number": {"score": 4, "problems": [{"number": "@", "comment": "c"}]},
}
MODEL = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
MODEL_NUMBERS = (
    "temperature", "timeout", "rpm", "backoff", "seed", "max_tokens", "concurrency", "price_prompt",
)  # fmt: skip
