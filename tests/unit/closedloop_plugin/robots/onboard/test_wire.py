"""The frames and the handshake of the link, without a socket."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.robots.onboard import wire

TOKEN, OTHER = b"k" * 32, b"x" * 32
OBS = {"session": "s", "seq": 3, "stamp": 12.5, "odom": None, "status": {"mode": 1}, "motion": None}
TWIST = {"vx": 0.3, "vy": 0.0, "wz": -0.2}
CMD = {"session": "s", "obs": 3, "steer": 0.1, "throttle": 0.5, "brake": 0.0, "duration_s": 0.5, "twist": TWIST}


def raw_frame(header: bytes, blob: bytes = b"", magic: bytes = b"AD2R", version: int = 1) -> bytes:
    return struct.pack(">4sBII", magic, version, len(header), len(blob)) + header + blob


@given(
    st.lists(st.tuples(st.sampled_from([("obs", OBS), ("cmd", CMD)]), st.binary(max_size=400)), max_size=4),
    st.lists(st.integers(1, 60), min_size=1),
)
def test_frames_are_read_as_sent_for_any_chunking(
    sent: list[tuple[tuple[str, wire.Header], bytes]], cuts: list[int]
) -> None:
    stream = b"".join(wire.pack(kind, header, blob) for (kind, header), blob in sent)
    reader, found, step = wire.FrameReader(), [], 0
    while stream:
        size = cuts[step % len(cuts)]
        found += reader.feed(stream[:size])
        stream, step = stream[size:], step + 1
    assert found == [(kind, header, blob) for (kind, header), blob in sent]


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_bad_frame_or_incomplete_or_valid(data: bytes, framed: bool) -> None:
    try:
        frames = wire.FrameReader().feed(raw_frame(data) if framed else data)
    except wire.BadFrame as exc:
        assert exc.reason in ("not a frame", "other version", "oversized", "malformed")
    else:
        assert all(kind in wire.FIELDS for kind, _, _ in frames)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.sampled_from(sorted(wire.FIELDS)), st.data())
def test_any_json_header_is_valid_or_malformed(kind: str, data: st.DataObject) -> None:
    header = {name: data.draw(JSON) for name in [*wire.FIELDS[kind], "twist", "word"]}
    try:
        wire.check(kind, header)
    except wire.BadFrame as exc:
        assert exc.reason == "malformed"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "not a frame"),
        (b"X", "not a frame"),
        (raw_frame(b"{}", version=2), "other version"),
        (struct.pack(">4sBII", b"AD2R", 1, wire.HEADER_MAX + 1, 0), "oversized"),
        (struct.pack(">4sBII", b"AD2R", 1, 2, wire.BLOB_MAX + 1), "oversized"),
        (raw_frame(b"[1]"), "malformed"),
        (raw_frame(b"{}"), "malformed"),
        (raw_frame(b'{"kind":"shell"}'), "malformed"),
        (raw_frame(b'{"kind":["cmd"]}'), "malformed"),
        (raw_frame(b"\xff\xfe"), "malformed"),
        (raw_frame(b'{"kind":"cmd","steer":NaN}'), "malformed"),
        (raw_frame(b'{"kind":"cmd","steer":-Infinity}'), "malformed"),
        (raw_frame(b'{"kind":"cmd","steer":1e999}'), "malformed"),
        (raw_frame(b'{"kind":"heartbeat","n":' + b"9" * 5000 + b"}"), "malformed"),
        (raw_frame(b'{"kind":' + b"[" * 60000), "malformed"),
    ],
)
def test_an_invalid_frame_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(wire.BadFrame) as caught:
        wire.FrameReader().feed(data)
    assert caught.value.reason == reason


def test_a_reader_enforces_its_size_limits() -> None:
    reader = wire.FrameReader(blob_max=0)
    assert reader.feed(wire.pack("cmd", CMD)) == [("cmd", CMD, b"")]
    with pytest.raises(wire.BadFrame, match="oversized"):
        reader.feed(wire.pack("obs", OBS, b"j"))
    with pytest.raises(wire.BadFrame, match="oversized"):
        wire.FrameReader(header_max=wire.HANDSHAKE_MAX).feed(wire.pack("obs", {**OBS, "more": "x" * 2000})[:20])


@pytest.mark.parametrize(
    "change",
    [
        {"obs": -1}, {"obs": True}, {"obs": 1.0}, {"session": None}, {"steer": "0"}, {"duration_s": 0}, {"brake": None},
        {"twist": None}, {"word": "forward"}, {"twist": {"vx": 0.1, "vy": 0.0}}, {"twist": {**TWIST, "wz": "fast"}},
        {"twist": None, "word": "w" * 33}, {"twist": None, "word": 3}, {"twist": {**TWIST, "vx": float("nan")}},
    ],
)  # fmt: skip
def test_a_cmd_with_invalid_fields_or_not_exactly_one_actuation_is_malformed(change: wire.Header) -> None:
    with pytest.raises(wire.BadFrame) as caught:
        wire.check("cmd", {**CMD, **change})
    assert caught.value.reason == "malformed"


def test_actuation_of_returns_the_form_that_the_clamp_reads() -> None:
    assert wire.actuation_of({**CMD, "twist": {**TWIST, "vx": 1, "x": 7}}) == {
        "twist": {"vx": 1.0, "vy": 0, "wz": -0.2}
    }
    assert wire.actuation_of({"word": "left"}) == {"word": "left"}


def test_pack_refuses_frames_that_the_receiver_would_refuse() -> None:
    with pytest.raises(wire.BadFrame, match="oversized"):
        wire.pack("obs", OBS, bytes(wire.BLOB_MAX + 1))
    with pytest.raises(wire.BadFrame, match="malformed"):
        wire.pack("obs", {**OBS, "status": {"battery": float("inf")}})
    with pytest.raises(wire.BadFrame, match="malformed"):
        wire.pack("obs", {**OBS, "status": {"battery": object()}})
    assert len(wire.pack("obs", OBS, bytes(wire.BLOB_MAX))) > wire.BLOB_MAX


def handshake(client: bytes = TOKEN, server: bytes = TOKEN) -> str:
    hello = wire.server_hello()
    auth = wire.client_auth(client, hello, "limo")
    return wire.client_check(client, hello, auth, wire.server_welcome(server, hello, auth))


def test_each_handshake_opens_a_new_session() -> None:
    assert len({handshake() for _ in range(20)}) == 20


def test_a_wrong_token_opens_no_session() -> None:
    with pytest.raises(wire.BadToken):
        handshake(client=OTHER)


def test_a_planner_without_the_token_is_refused() -> None:
    hello = wire.server_hello()
    auth = wire.client_auth(TOKEN, hello, "limo")
    other = wire.client_auth(OTHER, hello, "limo")
    with pytest.raises(wire.BadToken):
        wire.client_check(TOKEN, hello, auth, wire.server_welcome(OTHER, hello, other))


def test_a_replayed_handshake_opens_no_session() -> None:
    hello = wire.server_hello()
    auth = wire.client_auth(TOKEN, hello, "limo")
    welcome = wire.server_welcome(TOKEN, hello, auth)
    with pytest.raises(wire.BadToken):  # a vehicle that repeats another's auth
        wire.server_welcome(TOKEN, wire.server_hello(), auth)
    with pytest.raises(wire.BadToken):  # a planner that repeats hello and welcome
        wire.client_check(TOKEN, hello, wire.client_auth(TOKEN, hello, "limo"), welcome)
    with pytest.raises(wire.BadToken):  # the vehicle's own proof, sent back
        wire.client_check(TOKEN, hello, auth, {"session": "s", "mac": auth["mac"]})
    with pytest.raises(wire.BadToken):  # another vehicle than in the proof
        wire.server_welcome(TOKEN, hello, {**auth, "vehicle": "jetbot"})
    with pytest.raises(wire.BadToken):
        wire.client_check(TOKEN, hello, auth, {**welcome, "session": "mine"})


@pytest.mark.parametrize("nonce", ["", "00", "g" * 64, "A" * 64, "é" * 64, None, 7, ["0"] * 64])
def test_an_invalid_nonce_is_malformed(nonce: object) -> None:
    with pytest.raises(wire.BadFrame):
        wire.client_auth(TOKEN, {"nonce": nonce, "version": 1}, "limo")
    with pytest.raises(wire.BadFrame):
        wire.server_welcome(TOKEN, wire.server_hello(), {"nonce": nonce, "mac": "0" * 64, "vehicle": "limo"})


def test_another_version_is_refused_before_authentication() -> None:
    with pytest.raises(wire.BadFrame, match="other version"):
        wire.client_auth(TOKEN, {**wire.server_hello(), "version": 2}, "limo")


def test_headers_are_plain_json() -> None:
    frame = wire.pack("cmd", CMD)
    assert json.loads(frame[13:]) == {**CMD, "kind": "cmd"}
