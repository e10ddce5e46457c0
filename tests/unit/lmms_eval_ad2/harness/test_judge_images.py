"""Images of the items of a judge: drawn as for the model, loaded when they are needed."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image
from support.prompt_records import coda

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.harness.judge_images import with_images
from lmms_eval_ad2.judge.backends.lexical import LexicalJudge
from lmms_eval_ad2.prompts.visual import render
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant

REGION = TaskVariant("coda_lm", "region")


@dataclass
class Seeing(LexicalJudge):
    images: bool = True


def test_the_judge_sees_the_red_rectangle(tmp_path: Path) -> None:
    record = coda("region")
    Image.new("RGB", record.image_size or (1, 1), (40, 50, 60)).save(tmp_path / record.images[0])
    sample = score_sample(record, "a bus", REGION, "t")
    ((item,),) = [s.pending for s in with_images([sample], Seeing(), tmp_path, REGION)]
    assert item.images is not None
    (shown,) = item.images()
    content = base64.b64decode(shown.url.partition(",")[2])
    expected = io.BytesIO()
    render(record, tmp_path)[0].save(expected, "JPEG", quality=95)
    assert content == expected.getvalue()
    (tmp_path / record.images[0]).unlink()
    with pytest.raises(DataError, match=r"image"):
        item.images()


def test_other_judges_get_no_images(tmp_path: Path) -> None:
    sample = score_sample(coda("region"), "a bus", REGION, "t")
    ((item,),) = [s.pending for s in with_images([sample], LexicalJudge(), tmp_path, REGION)]
    assert item.images is None
