"""Untrusted input of maps: OpenDRIVE files, servers, command lines."""

from __future__ import annotations

import argparse
import math
import socket
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.carla.maps.from_server import address, fetch_town
from closedloop_plugin.cli.drive import map as map_command
from closedloop_plugin.maps.towns.lanes import read_town
from closedloop_plugin.maps.towns.reference_line import polynomial, sampled
from lmms_eval_ad2.errors import Ad2Error

ROAD = (
    '<OpenDRIVE><road id="1" length="{length}" junction="-1"><planView>'
    '<geometry s="0" x="0" y="0" hdg="0" length="20"><line/></geometry></planView><lanes><laneSection s="0">'
    '<right><lane id="-1" type="driving"><width sOffset="0" a="{width}" b="0" c="0" d="0"/></lane></right>'
    "</laneSection></lanes></road></OpenDRIVE>"
)


def plan_view(shape: str, length: float) -> ET.Element:
    return ET.fromstring(
        f'<planView><geometry s="0" x="1" y="2" hdg="0" length="{length}">{shape}</geometry></planView>'
    )


def test_reference_line_shapes_match_hand_computed_points() -> None:
    quarter = 10 * math.pi / 2
    arc = sampled(plan_view('<arc curvature="0.1"/>', quarter), np.array([0, quarter]))
    assert arc[1] == pytest.approx([11, 12, math.pi / 2])
    spiral = sampled(plan_view('<spiral curvStart="0.1" curvEnd="0.1"/>', quarter), np.array([quarter]))
    assert spiral[0] == pytest.approx([11, 12, math.pi / 2], abs=0.01)
    cubic = '<paramPoly3 aU="0" bU="10" cU="0" dU="0" aV="0" bV="0" cV="0" dV="0" pRange="normalized"/>'
    assert sampled(plan_view(cubic, 10), np.array([4.0]))[0] == pytest.approx([5, 2, 0])
    poly = '<poly3 a="0" b="0.75" c="0" d="0"/>'  # 3-4-5
    assert sampled(plan_view(poly, 10), np.array([5.0]))[0] == pytest.approx([5, 5, math.atan(0.75)])
    assert polynomial([(0, 1, 0, 0, 0), (5, 1, 2, 0, 0)], np.array([4.0, 6.0])).tolist() == [1, 3]


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
        (ROAD.format(length="wide", width=4), "road 1 cannot be read"),
        (ROAD.format(length="nan", width=4), "road 1 cannot be read: <road> length is not finite"),
        (ROAD.format(length="1e12", width=4), "road 1 cannot be read: its length is 1e"),
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


@contextmanager
def port(answer: bytes | None) -> Iterator[str]:
    """A socket that accepts and answers with these bytes; None: it accepts and stays silent."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.1)
    stop = threading.Event()
    connections: list[socket.socket] = []

    def serve() -> None:
        while not stop.is_set():
            try:
                connection, _ = server.accept()
                connections.append(connection)
                if answer is not None:
                    connection.sendall(answer)
            except OSError:
                continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        stop.set()
        thread.join()
        for connection in (*connections, server):
            connection.close()


@pytest.mark.integration
@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\x00\xc1garbage" * 50])
def test_a_port_without_a_carla_server_is_reported_in_one_line(tmp_path: Path, answer: bytes | None) -> None:
    pytest.importorskip("carla")
    with port(answer) as server, pytest.raises(Ad2Error, match=server) as caught:
        fetch_town(server, tmp_path, timeout_s=1.0)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
def test_a_closed_port_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("carla")
    with socket.create_server(("127.0.0.1", 0)) as s:
        free = s.getsockname()[1]
    with pytest.raises(Ad2Error, match="no CARLA server answers there"):
        fetch_town(f"127.0.0.1:{free}", tmp_path, timeout_s=1.0)


@pytest.mark.parametrize("wrong", ["localhost", ":2000", "host:", "host:99999", "host:port"])
def test_an_invalid_address_is_refused(wrong: str) -> None:
    with pytest.raises(Ad2Error, match="expected host:port"):
        address(wrong)
    assert address("localhost:2000") == ("localhost", 2000)


def test_the_map_command_writes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from closedloop_plugin.suites import lookup as suites

    parser = argparse.ArgumentParser()
    map_command.register(parser.add_subparsers())
    args = parser.parse_args(["map", "--routes", str(suites.DEMO), "--out", str(tmp_path), "--route", "101"])
    assert args.func(args) == 0
    assert (tmp_path / "101.png").stat().st_size > 5000
    assert "waypoints within 0.0" in capsys.readouterr().out
    with pytest.raises(Ad2Error, match="--routes FILE"):
        map_command.run(map_command.DriveMapOptions(out=tmp_path))
