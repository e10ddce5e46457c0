"""Questions of one key frame in the wording of DriveLM, for tests of the rules."""

from __future__ import annotations

from pathlib import Path

from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.mcq.base import AcceptedQuestion, OpenQuestion
from lmms_eval_ad2.mcq.rules.maker import RulesMaker

CAR, VAN, LIGHT = "<c1,CAM_FRONT,700.0,500.0>", "<c2,CAM_BACK,800.0,480.0>", "<c3,CAM_FRONT,900.0,100.0>"
_INFOS = {
    CAR: {"Category": "Vehicle", "Status": "Moving", "Visual_description": "White sedan.", "2d_bbox": [1, 2, 30, 40]},
    VAN: {"Category": "Vehicle", "Status": "Moving", "Visual_description": "Black van.", "2d_bbox": [1, 2, 90, 90]},
    LIGHT: {"Category": "Traffic element", "Status": None, "Visual_description": "Red light.", "2d_bbox": [5, 5, 9, 9]},
}


def record(question: str, answer: str, number: int = 0, benchmark: str = "drivelm") -> Record:
    objects = []
    for tag, info in _INFOS.items():
        if tag in question + answer:
            name, camera, x, y = tag.strip("<>").split(",")
            objects.append({"id": name, "camera": camera, "x": float(x), "y": float(y), "info": info})
    return Record(
        id=f"r{number}", benchmark=benchmark, task="perception", subtask="x", form="vqa", images=("front.jpg",),
        question=BilingualText(question), answer=BilingualText(answer), meta={"objects": objects},
    )  # fmt: skip


def frame(*pairs: tuple[str, str], source: str = "drivelm") -> list[OpenQuestion]:
    """Questions that share one scene."""
    scene = tuple(record(q, a, i, source) for i, (q, a) in enumerate(pairs))
    return [
        OpenQuestion(r.id, r, source, "perception", "surrounding objects", r.answer.en, Path(), scene) for r in scene
    ]


def drawn(*pairs: tuple[str, str], source: str = "drivelm", seeds: int = 24) -> dict[str, str]:
    """Wrong options of the first question over several seeds: text -> operation. The right option is under ""."""
    found: dict[str, str] = {}
    for seed in range(seeds):
        outcome = RulesMaker(seed=seed).one(frame(*pairs, source=source)[0])
        assert isinstance(outcome, AcceptedQuestion), outcome
        found |= {d.text: d.operation for d in outcome.distractors} | {"": outcome.question.answer}
    return found
