"""Questions with small generated pictures, for tests of makers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.mcq.base import OpenQuestion, Outcome
from lmms_eval_ad2.mcq.makers import make_maker

VIEWS = ("CAM_FRONT", "CAM_BACK")


def question(
    number: int, root: Path, *, text: str = "", answer: str = "A white van.", task: str = "perception",
    images: bool = True,
) -> OpenQuestion:  # fmt: skip
    """Question `number` with pictures of two cameras, written to `root` if missing, unless `images` is False."""
    names = []
    for view in VIEWS:
        name = f"{view.lower()}_{number % 3}.jpg"
        if images and not (root / name).exists():
            Image.new("RGB", (48, 27), (40 * (number % 3), 90, 160 if view == "CAM_FRONT" else 20)).save(root / name)
        names.append(name)
    record = Record(
        id=f"q{number}", benchmark="drivelm", task=task, subtask="surrounding objects", form="vqa", images=tuple(names),
        views=VIEWS, question=BilingualText(text or f"What is vehicle number {number} in front of the ego car?"),
        answer=BilingualText(answer),
    )  # fmt: skip
    return OpenQuestion(f"q{number}", record, "drivelm", task, "surrounding objects", answer, root, (record,))


def questions(n: int, root: Path, **parts: Any) -> list[OpenQuestion]:
    return [question(i, root, **parts) for i in range(n)]


def maker_for(url: str, cache: Path | None = None, settings: str = "", **parts: Any) -> Any:
    """A maker for a fake endpoint, with short delays between retries."""
    spec = f"openai:model=fake-1,base_url={url},concurrency=8,backoff=0.001,max_retries=2{settings}"
    return make_maker(spec, cache=cache, progress=False, **parts)


def outcomes(maker: Any, open_questions: list[OpenQuestion]) -> dict[str, Outcome]:
    """All outcomes by question id; asserts one outcome per question."""
    found: dict[str, Outcome] = {}

    def done(outcome: Outcome) -> None:
        assert outcome.question.id not in found
        found[outcome.question.id] = outcome

    maker.make(iter(open_questions), done)
    assert set(found) == {q.id for q in open_questions}
    return found
