"""The protocol between planner and vehicle: frames, and mutual authentication with a shared token. No sockets here.

Used by both ends; on the vehicle it runs with Python 3.6 and the standard library.

A frame: b"AD2R", a version byte, the lengths of header and blob (uint32, big-endian), the header (a JSON object with
"kind" in it), the blob (a JPEG, with `obs` only). Handshake, because other users of the machine can reach the tunnel:

    planner  hello{nonce, version}
    vehicle  auth{nonce, mac, vehicle}      mac = HMAC-SHA256(token, "client" + both nonces + vehicle)
    planner  welcome{session, mac}          mac = HMAC-SHA256(token, "server" + both nonces + session)

The link is connected after the welcome; the planner may refuse before it with done{session: "", reason}. Then:

    vehicle  obs{session, seq, stamp, odom, status, motion} + JPEG      stamp: s, the vehicle's monotonic clock
    planner  cmd{session, obs, steer, throttle, brake, duration_s, twist{vx, vy, wz} | word}
    both     heartbeat{session, n} - stop{session, reason, latch} (from the vehicle: it stands) - done{session, reason}
    planner  release{session}               releases a latch set by the planner, not one set on the vehicle
"""

import hashlib
import hmac
import json
import math
import secrets
import struct
from typing import Any, Callable, Dict, List, Optional, Tuple

Header = Dict[str, Any]
Frame = Tuple[str, Header, bytes]  # kind, header without its kind, blob

MAGIC = b"AD2R"
VERSION = 1
HEADER_MAX = 64 * 1024
BLOB_MAX = 4 * 1024 * 1024
HANDSHAKE_MAX = 1024  # bytes of a header before the welcome
_PREFIX = struct.Struct(">4sBII")
_NONCE = 32  # bytes
_DIGITS = 18  # of a whole number


class BadFrame(Exception):
    """The received data is not a frame, or lacks a field of its kind. `reason`: a short category for counting."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class BadToken(Exception):
    """The other side does not have the token, or replays an earlier handshake."""

    reason = "wrong token or replay"

    def __init__(self) -> None:
        super().__init__(self.reason)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 1000


def _digest(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 2 * _NONCE and set(value) <= set("0123456789abcdef")


def _numbers(*names: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(_number(value.get(name)) for name in names)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _motion(value: Any) -> bool:
    return isinstance(value, dict) and _whole(value.get("seq")) and _text(value.get("reason"))


# kind -> field -> validator. Further fields are ignored.
FIELDS: Dict[str, Dict[str, Callable[[Any], bool]]] = {
    "hello": {"nonce": _digest, "version": _whole},
    "auth": {"nonce": _digest, "mac": _digest, "vehicle": _text},
    "welcome": {"session": _text, "mac": _digest},
    "obs": {
        "session": _text,
        "seq": _whole,
        "stamp": _number,
        "odom": _or_none(_numbers("x", "y", "yaw", "v", "w")),  # m, rad, m/s, rad/s
        "status": _or_none(lambda value: isinstance(value, dict)),
        "motion": _or_none(_motion),  # end of the previous motion: reason and time ("ended", clock of stamp)
    },
    "cmd": {
        "session": _text,
        "obs": _whole,
        "steer": _number,
        "throttle": _number,
        "brake": _number,
        "duration_s": lambda value: _number(value) and value > 0,
    },
    "heartbeat": {"session": _text, "n": _whole},
    "stop": {"session": _text, "reason": _text, "latch": lambda value: isinstance(value, bool)},
    "release": {"session": _text},
    "done": {"session": _text, "reason": _text},
}


def check(kind: str, header: Header) -> None:
    """BadFrame("malformed") if a field of this kind is missing or invalid."""
    for name, valid in FIELDS[kind].items():
        if not valid(header.get(name)):
            raise BadFrame("malformed", f"{kind} has no usable {name}")
    if kind == "cmd":
        actuation_of(header)


def actuation_of(cmd: Header) -> Dict[str, Any]:
    """{"twist": {vx, vy, wz}} in m/s and rad/s, or {"word": text}, as in clamp.py; exactly one of the two."""
    twist, word = cmd.get("twist"), cmd.get("word")
    if word is None and isinstance(twist, dict) and _numbers("vx", "vy", "wz")(twist):
        return {"twist": {name: float(twist[name]) for name in ("vx", "vy", "wz")}}
    if twist is None and isinstance(word, str) and len(word) <= 32:
        return {"word": word}
    raise BadFrame("malformed", "cmd has neither a twist nor a word, or both")


def pack(kind: str, header: Header, blob: bytes = b"") -> bytes:
    """Encode one frame. BadFrame if the other side would refuse it."""
    check(kind, header)
    try:
        text = json.dumps(dict(header, kind=kind), allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError) as exc:
        raise BadFrame("malformed", str(exc)) from None
    if len(text) > HEADER_MAX or len(blob) > BLOB_MAX:
        raise BadFrame("oversized", f"{kind} with {len(text)} + {len(blob)} bytes")
    return _PREFIX.pack(MAGIC, VERSION, len(text), len(blob)) + text + blob


class FrameReader:
    """Splits a byte stream into frames. After a BadFrame the stream is lost: close the connection.

    Lengths are checked before data is buffered, so that a peer cannot make it hold more than one frame of the allowed
    sizes; both limits may be changed between frames (they are small before the welcome).
    """

    def __init__(self, header_max: int = HEADER_MAX, blob_max: int = BLOB_MAX) -> None:
        self.header_max, self.blob_max = header_max, blob_max
        self._buffer = bytearray()

    def feed(self, data: bytes) -> List[Frame]:
        self._buffer += data
        frames: List[Frame] = []
        while True:
            frame = self._next()
            if frame is None:
                return frames
            frames.append(frame)

    def _next(self) -> Optional[Frame]:
        if bytes(self._buffer[: len(MAGIC)]) != MAGIC[: len(self._buffer)]:
            raise BadFrame("not a frame", f"it begins with {bytes(self._buffer[: len(MAGIC)])!r}")
        if len(self._buffer) < _PREFIX.size:
            return None
        _, version, header_size, blob_size = _PREFIX.unpack_from(self._buffer)
        if version != VERSION:
            raise BadFrame("other version", f"{version}, here {VERSION}")
        if header_size > self.header_max or blob_size > self.blob_max:
            raise BadFrame("oversized", f"{header_size} + {blob_size} bytes")
        body, end = _PREFIX.size + header_size, _PREFIX.size + header_size + blob_size
        if len(self._buffer) < end:
            return None
        header, blob = _header(bytes(self._buffer[_PREFIX.size : body])), bytes(self._buffer[body:end])
        del self._buffer[:end]
        kind = header.pop("kind", None)
        if not isinstance(kind, str) or kind not in FIELDS:
            raise BadFrame("malformed", "no kind that is known")
        return kind, header, blob


def _header(text: bytes) -> Header:
    try:
        found = _DECODER.decode(text.decode("utf-8"))
    except (ValueError, RecursionError) as exc:  # UnicodeDecodeError is a ValueError
        raise BadFrame("malformed", f"header: {str(exc)[:100]}") from None
    if not isinstance(found, dict):
        raise BadFrame("malformed", "the header is no object")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _short(text: str) -> int:
    return int(text) if len(text) <= _DIGITS else _refuse(text[:_DIGITS] + "...")


# Made once: json.loads makes one for each text if it has such arguments.
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, parse_int=_short)


def server_hello() -> Header:
    return {"nonce": secrets.token_hex(_NONCE), "version": VERSION}


def client_auth(token: bytes, hello: Header, vehicle: str) -> Header:
    """The vehicle's answer to a hello. BadFrame if the hello is invalid or has another version."""
    check("hello", hello)
    if hello["version"] != VERSION:
        raise BadFrame("other version", "{}, here {}".format(hello["version"], VERSION))
    nonce = secrets.token_hex(_NONCE)
    return {"nonce": nonce, "mac": _mac(token, "client", hello["nonce"], nonce, vehicle), "vehicle": vehicle}


def server_welcome(token: bytes, hello: Header, auth: Header) -> Header:
    """The planner's answer to an auth, with a new session id. BadToken, BadFrame: the vehicle is refused."""
    check("auth", auth)
    if not hmac.compare_digest(auth["mac"], _mac(token, "client", hello["nonce"], auth["nonce"], auth["vehicle"])):
        raise BadToken()
    session = secrets.token_hex(16)
    return {"session": session, "mac": _mac(token, "server", auth["nonce"], hello["nonce"], session)}


def client_check(token: bytes, hello: Header, auth: Header, welcome: Header) -> str:
    """The session id of a welcome. BadToken, BadFrame: the other side is not our planner."""
    check("welcome", welcome)
    expected = _mac(token, "server", auth["nonce"], hello["nonce"], welcome["session"])
    if not hmac.compare_digest(welcome["mac"], expected):
        raise BadToken()
    return str(welcome["session"])


def _mac(token: bytes, side: str, first: str, second: str, last: str) -> str:
    message = side.encode() + bytes.fromhex(first) + bytes.fromhex(second) + last.encode("utf-8", "backslashreplace")
    return hmac.new(token, message, hashlib.sha256).hexdigest()
