"""Towns from OpenDRIVE files, also broken ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.maps.towns.lanes import read_town
from lmms_eval_ad2.core.errors import Ad2Error

ROAD = (
    '<OpenDRIVE><road id="1" length="{length}" junction="-1"><planView>'
    '<geometry s="0" x="0" y="0" hdg="0" length="20"><line/></geometry></planView><lanes><laneSection s="0">'
    '<right><lane id="-1" type="driving"><width sOffset="0" a="{width}" b="0" c="0" d="0"/></lane></right>'
    "</laneSection></lanes></road></OpenDRIVE>"
)

ZEROS = " ".join(f'{name}{axis}="0"' for name in "abcd" for axis in "UV")
WIDE = ROAD.replace("</laneSection>", f"<left>{'<lane/>' * 200}</left></laneSection>")


def test_a_one_lane_town_is_read(tmp_path: Path) -> None:
    file = tmp_path / "t.xodr"
    file.write_text(ROAD.format(length=20, width=4))
    (lane,) = read_town(file).drivable()
    assert lane.centre[-1] == pytest.approx([20, -2])
    assert (lane.length, lane.width) == pytest.approx((20, 4))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not xml", "not an OpenDRIVE file"),
        ("<html/>", "begins with <html>"),
        ("<OpenDRIVE/>", "no driving lane"),
        (ROAD.format(length="wide", width=4), "cannot use this map: road 1: "),
        (
            ROAD.format(length="nan", width=4),
            "the lane reader of ad2 .*: road 1: <road> length is not finite",
        ),
        (ROAD.format(length="1e12", width=4), "road 1: <road> length is 1e12; at most 100000 m are read"),
        (ROAD.format(length=-1, width=4), "the lane reader of ad2 .*: road 1: its length is -1 m"),
        (ROAD.replace('x="0"', 'x="-2e6"').format(length=20, width=4), "road 1: <geometry> x is -2e6; at most 1e"),
        (ROAD.replace('length="20"', 'length="1e9"').format(length=20, width=4), "<geometry> length is 1e9; at most 1"),
        (
            ROAD.replace("<line/>", f"<paramPoly3 {ZEROS}/>").format(length=20, width=4),
            "the lane reader of ad2 .*: road 1: the borders of its lane -1 are not finite",
        ),
        (WIDE.format(length=20, width=4), "road 1: 201 lanes in a section; at most 200 are read"),
        (
            f"<OpenDRIVE>{WIDE.format(length=99999, width=4)[11:-12].replace('<lane/>', '', 1) * 2}</OpenDRIVE>",
            "39999.6 km of lanes; at most 20000 km are read",
        ),
        ('<?xml version="1.0" encoding="utf-7"?><OpenDRIVE/>', "not an OpenDRIVE file: multi-byte encodings"),
        (ROAD.replace("<planView>", "<x>").replace("</planView>", "</x>").format(length=20, width=4), "no planView"),
    ],
)
def test_a_broken_file_is_reported_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "broken.xodr"
    file.write_text(text)
    with pytest.raises(Ad2Error, match=says) as caught:
        read_town(file)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)


@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=12), st.text(max_size=12))
def test_any_text_in_a_number_field_is_read_or_refused(tmp_path_factory, length: str, width: str) -> None:
    import html

    file = tmp_path_factory.mktemp("x") / "t.xodr"
    text = ROAD.format(length=html.escape(length), width=html.escape(width))
    file.write_bytes(text.encode("utf-8", "replace"))
    try:
        lanes = read_town(file).drivable()
    except Ad2Error:
        return
    assert all(np.isfinite(lane.centre).all() for lane in lanes)
