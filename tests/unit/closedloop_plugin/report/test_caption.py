"""Captions below pictures."""

from __future__ import annotations

import numpy as np
import pytest
from support.closedloop.rides import picture

from closedloop_plugin.report.caption import PAPER, captioned, font, wrapped


@pytest.mark.parametrize("text", ["", "a b c " * 200, "x" * 2000, "one\n\ntwo", "\u4eca\u65e5" * 300])
def test_text_is_wrapped_to_its_box(text: str) -> None:
    face = font(13)
    lines = wrapped(text, 150, face, 4)
    assert len(lines) <= 4 and all(face.getlength(line) <= 150 for line in lines)
    assert captioned(picture(0), text, 4).shape == captioned(picture(0), "", 4).shape


def test_a_caption_is_below_the_picture() -> None:
    page = captioned(picture(0), "42 km/h", 2)
    assert np.array_equal(page[:180], picture(0))
    below = page[180:].reshape(-1, 3)
    assert tuple(below[0]) == PAPER and (below < 100).any()
