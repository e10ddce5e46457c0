"""Official result files with changed fields: read and scored, or refused in one line."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

from support.closedloop.scored import raw, route
from support.json_places import places

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.scoring.official import read
from closedloop_plugin.scoring.summary import summarise
from lmms_eval_ad2.core.errors import Ad2Error

MUTATIONS = 400
WEIRD = [
    None, True, False, 0, -1, 1e308, 10**30, float("nan"), "", "x", "0.5", "Completed", "NaN", "a\nb", "\ud800",
    "\x1b[31m", [], [[]], [None], {}, {"a": None}, "RouteScenario_1_rep0", "RouteScenario_2_rep" + "9" * 30,
]  # fmt: skip


def mutated(data: Any, chance: random.Random) -> Any:
    data = copy.deepcopy(data)
    *above, last = chance.choice(list(places(data)))
    inner: Any = data
    for key in above:
        inner = inner[key]
    match chance.randrange(5):
        case 0:
            del inner[last]
        case 1 if isinstance(inner, dict):
            inner["more"] = chance.choice(WEIRD)
        case _:
            inner[last] = chance.choice(WEIRD)
    return data


def test_mutated_files_are_scored_or_refused_in_one_line(tmp_path: Path) -> None:
    chance = random.Random("official files")
    hit = {"collisions_vehicle": ["Agent collided against object with type=x and id=1 at (x=1, y=2, z=3)"]}
    whole = {"_checkpoint": {"records": [raw("1"), raw("2", infractions=hit, penalty=0.6), raw("3", score=40.0)]}}
    whole["_checkpoint"]["progress"] = [3, 3]
    file, refused = tmp_path / "results.json", 0
    for _ in range(MUTATIONS):
        file.write_text(json.dumps(mutated(whole, chance)), "utf-8")
        try:
            found = read([file])
            summary = summarise(found.records, [route("1"), route("2"), route("3")], profile("bench2drive"))
            json.dumps(summary, allow_nan=False)
        except Ad2Error as exc:
            refused += 1
            assert "\n" not in str(exc) and "results.json" in str(exc), exc
    assert 0 < refused < MUTATIONS
