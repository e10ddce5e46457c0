"""Client of `ad2 serve` for agent.py: configuration, and one HTTP request per decision with pictures as data URLs.

Runs in the leaderboard's process under CARLA 0.9.15's Python 3.7: standard library only, and Pillow for JPEG if it is
installed. agent.py imports it by its bare name, from its own folder. Proxies are not used, redirects not followed.
"""

from __future__ import annotations

import base64
import difflib
import http.client
import importlib
import io
import json
import struct
import time
import zlib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence
from urllib.parse import urlsplit

PROTOCOL = 1  # "ad2_drive" of every message
MODEL = "ad2-driver"
MAX_REPLY = 256 * 1024  # bytes; an answer is text and three numbers
WATCHDOG_S = 540.0  # s; the leaderboard ends an agent after 600 s in a step
PAUSE_S = 0.5  # before the first retry; doubled each time, at most LONGEST_PAUSE_S
LONGEST_PAUSE_S = 5.0
RETRY_CODES = (408, 429, 500, 502, 503, 504)  # HTTP codes after which a request is repeated
CONTROL = (("steer", -1.0), ("throttle", 0.0), ("brake", 0.0))  # name, lowest value; the highest is 1
POLICIES = ("official", "strict")


class SetupError(Exception):
    """A mistake in the setup that the user must correct."""


class DriverFailure(Exception):
    """A request without a control. It is counted, and the car coasts."""


class _RetryableFailure(DriverFailure):
    """A failure after which the request may be repeated. `after_s`: the server's Retry-After."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s


@dataclass(frozen=True)
class LeaderboardAgentConfig:
    """agent.json; every field is explained in docs/bench2drive.md."""

    base_url: str = "http://127.0.0.1:8100/v1"
    api_key_env: str | None = None
    timeout_s: float = 120.0  # of one request
    retries: int = 1  # of one decision, if the server is busy or silent
    wait_s: float = 300.0  # for a server that is loading its model
    patience: int = 10  # consecutive failed decisions that end the route
    image_format: str = "auto"  # jpeg if Pillow is installed, else png
    jpeg_quality: int = 90
    save_frames_every: int = 0  # decisions; 0: never
    cameras: dict[str, dict[str, float]] = field(default_factory=dict)  # name -> fields that override the driver's


def _number(low: float, high: float) -> Callable[[Any], bool]:
    return lambda v: finite(v) and low <= v <= high


def _integer(low: int, high: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def finite(value: Any) -> bool:
    """Whether a value is a finite number. Compared, not converted: an int of 400 digits exceeds float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300


def _non_empty(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


# field -> (check, description of the expected value)
_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "base_url": (_non_empty, "an address such as http://127.0.0.1:8100/v1"),
    "api_key_env": (lambda v: v is None or _non_empty(v), "null or the name of an environment variable"),
    "timeout_s": (_number(0.05, WATCHDOG_S), "seconds, 0.05 to 540"),
    "retries": (_integer(0, 20), "a whole number from 0 to 20"),
    "wait_s": (_number(0.0, WATCHDOG_S), "seconds, 0 to 540"),
    "patience": (_integer(1, 4000), "a whole number from 1 to 4000"),
    "image_format": (lambda v: v in ("auto", "jpeg", "png"), "auto, jpeg or png"),
    "jpeg_quality": (_integer(1, 100), "a whole number from 1 to 100"),
    "save_frames_every": (_integer(0, 10**6), "a whole number of decisions, 0 for never"),
    "cameras": (
        lambda v: isinstance(v, dict) and all(isinstance(c, dict) for c in v.values()),
        'an object such as {"front": {"width": 800, "height": 450}}',
    ),
}
# fields of a camera, in CARLA's axes: metres forward, right and up from the ego's centre; yaw in degrees clockwise
CAMERA: dict[str, tuple[Callable[[Any], bool], str]] = {
    "width": (_integer(16, 4096), "pixels, 16 to 4096"),
    "height": (_integer(16, 4096), "pixels, 16 to 4096"),
    "fov": (_number(1.0, 179.0), "degrees, 1 to 179"),
    "forward": (_number(-10.0, 10.0), "metres, -10 to 10"),
    "right": (_number(-10.0, 10.0), "metres, -10 to 10"),
    "up": (_number(-10.0, 10.0), "metres, -10 to 10"),
    "yaw": (_number(-360.0, 360.0), "degrees, -360 to 360"),
}


def split_config(text: str) -> tuple[Path, str]:
    """(file, save name) from the leaderboard's FILE+SAVE_NAME. It appends a name per route; the last is used."""
    parts = text.split("+")
    for n in range(1, len(parts) + 1):
        file = Path("+".join(parts[:n]))
        if file.is_file():
            return file, parts[-1] if n < len(parts) else ""
    raise SetupError(
        f"{parts[0]!r}: no such file. TEAM_CONFIG must be the path of agent.json; relative paths start in the folder "
        "where run_evaluation.sh is called"
    )


def read_config(file: Path, environ: Mapping[str, str]) -> LeaderboardAgentConfig:
    """The checked configuration; AD2_BASE_URL overrides the file's base_url."""
    try:
        given = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise SetupError(f"{file}: cannot be read as JSON ({exc})") from None
    if not isinstance(given, dict):
        raise SetupError(f"{file}: expected an object with the fields of docs/bench2drive.md")
    _check(str(file), given, _EXPECTED)
    for name, camera in given.get("cameras", {}).items():
        _check(f"{file}: cameras: {name}", camera, CAMERA)
    if environ.get("AD2_BASE_URL"):
        given = dict(given, base_url=environ["AD2_BASE_URL"])
    config = LeaderboardAgentConfig(**given)
    longest = (config.retries + 1) * config.timeout_s + config.retries * LONGEST_PAUSE_S
    if longest > WATCHDOG_S:
        raise SetupError(
            f"{file}: timeout_s {config.timeout_s:g} with retries {config.retries} may take {longest:g} s for one "
            f"decision; the leaderboard ends an agent after 600 s: keep it below {WATCHDOG_S:g}"
        )
    return config


def _check(where: str, given: Mapping[str, Any], expected: Mapping[str, tuple[Callable[[Any], bool], str]]) -> None:
    for name, value in given.items():
        if name not in expected:
            near = difflib.get_close_matches(name, expected, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(expected)}"
            raise SetupError(f"{where}: unknown field {name!r}; {hint}")
        right, words = expected[name]
        if not right(value):
            raise SetupError(f"{where}: {name}: expected {words}, found {json.dumps(value)[:200]}")


@dataclass(frozen=True)
class CarlaImageEncoder:
    """Encodes pictures for requests: `encode` takes a CARLA image, (H, W, 4) uint8 BGRA."""

    label: str
    kind: str  # "jpeg" | "png"
    encode: Callable[[Any], bytes]


def choose_encoder(wanted: str, quality: int) -> CarlaImageEncoder:
    if wanted != "png":
        try:
            pillow = importlib.import_module("PIL.Image")
        except ImportError:
            if wanted == "jpeg":
                raise SetupError(
                    "image_format jpeg needs Pillow in the leaderboard's environment (pip install Pillow); auto or png "
                    "do not need it"
                ) from None
        else:

            def jpeg(image: Any) -> bytes:
                buffer = io.BytesIO()
                pillow.fromarray(image[:, :, 2::-1].copy()).save(buffer, "JPEG", quality=quality)
                return buffer.getvalue()

            return CarlaImageEncoder(f"jpeg, quality {quality}, Pillow", "jpeg", jpeg)
    return CarlaImageEncoder("png, zlib", "png", png)


def png(image: Any) -> bytes:
    """Encode as RGB PNG without filters, for environments without an imaging library."""
    height, width = image.shape[:2]
    rgb, row = image[:, :, 2::-1].tobytes(), 3 * width
    lines = b"".join(b"\0" + rgb[y * row : (y + 1) * row] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


class DriverHttpClient:
    """HTTP client of a driver. One connection per request, so that a restart of the server does no harm."""

    def __init__(self, config: LeaderboardAgentConfig, environ: Mapping[str, str]) -> None:
        self.base_url = config.base_url.rstrip("/")
        self._config = config
        try:
            parts = urlsplit(self.base_url)
            self._host, self._port = parts.hostname or "", parts.port
            self._host.encode("idna")
        except ValueError as exc:
            raise SetupError(f"base_url {config.base_url!r} is no address: {exc}") from None
        if parts.scheme not in ("http", "https") or not self._host:
            raise SetupError(f"base_url: expected http(s)://host[:port]/v1, found {config.base_url!r}")
        if parts.username or parts.password or parts.query:
            raise SetupError("base_url: must not contain a name, password or query; set a key by api_key_env")
        self._secure, self._root = parts.scheme == "https", parts.path
        self._key = environ.get(config.api_key_env, "").strip() if config.api_key_env else ""
        if config.api_key_env and not self._key:
            raise SetupError(f"the environment variable {config.api_key_env} (api_key_env) is not set")
        if not all(" " <= c <= "~" for c in self._key):  # http.client's error would show the key
            raise SetupError(f"the key in {config.api_key_env} (api_key_env) is not one line of printable ASCII")

    def driver(self) -> dict[str, Any]:
        """Description of the driver of `ad2 serve`. Waits up to wait_s for a server that starts or loads its model."""
        end, announced = time.monotonic() + self._config.wait_s, False
        while True:
            try:
                found = self._request("GET", "/ad2/driver", None, min(self._config.timeout_s, 30.0))
                break
            except _RetryableFailure as exc:
                if time.monotonic() >= end:
                    raise SetupError(
                        f"no driver at {self.base_url} within {self._config.wait_s:g} s ({exc}); start "
                        "`ad2 serve --model ...` there, or set base_url or AD2_BASE_URL to where it runs"
                    ) from None
                if not announced:
                    print(f"[ad2] waiting up to {self._config.wait_s:g} s for {self.base_url} ({exc})", flush=True)
                announced = True
                time.sleep(PAUSE_S)
            except DriverFailure as exc:
                raise SetupError(f"{self.base_url} offers no driver: {exc}") from None
        if found.get("ad2_drive") != PROTOCOL:
            raise SetupError(
                f"{self.base_url} has protocol {found.get('ad2_drive')!r}, this agent {PROTOCOL}: use agent.py "
                "and `ad2 serve` of the same release"
            )
        return found

    def decide(self, question: Mapping[str, Any], pictures: Sequence[tuple[str, bytes]]) -> dict[str, Any]:
        """The driver's checked answer. `pictures`: (kind, encoded) in the order of question["cameras"]."""
        content: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{base64.b64encode(data).decode()}"}}
            for kind, data in pictures
        ]
        content.append({"type": "text", "text": json.dumps({"ad2_drive": PROTOCOL, **question})})
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": content}]}).encode()
        for attempt in range(self._config.retries + 1):
            try:
                return read_answer(self._request("POST", "/chat/completions", body, self._config.timeout_s))
            except _RetryableFailure as exc:
                if attempt == self._config.retries:
                    raise DriverFailure(f"{exc} (tried {attempt + 1}x)") from None
                time.sleep(min(max(exc.after_s, PAUSE_S * 2**attempt), LONGEST_PAUSE_S))
        raise AssertionError("unreachable")

    def _request(self, method: str, path: str, body: bytes | None, timeout_s: float) -> dict[str, Any]:
        """Send one request and return its JSON object. Raises DriverFailure."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        connection = kind(self._host, self._port, timeout=timeout_s)
        end = time.monotonic() + timeout_s
        try:
            connection.request(method, self._root + path, body, headers)
            response = connection.getresponse()
            data = _read(response, end)
        except (OSError, http.client.HTTPException) as exc:
            raise _RetryableFailure(f"{type(exc).__name__}: {line(exc)}") from None
        finally:
            connection.close()
        if response.status != 200:
            why = f"HTTP {response.status}: {_message(data)}"
            if response.status in RETRY_CODES:
                raise _RetryableFailure(why, _seconds(response.getheader("Retry-After")))
            raise DriverFailure(why)
        found = _object(data)
        if found is None:
            raise DriverFailure(f"the reply is no JSON object: {line(data)}")
        return found


def _read(response: http.client.HTTPResponse, end: float) -> bytes:
    """The body, at most MAX_REPLY bytes, until `end`: a slow peer must not block the agent."""
    data = b""
    while True:
        chunk = response.read1(65536)
        if not chunk:
            return data
        data += chunk
        if len(data) > MAX_REPLY:
            raise http.client.HTTPException(f"a reply of more than {MAX_REPLY} bytes")
        if time.monotonic() > end:
            raise http.client.HTTPException("the reply took too long")


def _object(data: bytes | str) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _message(data: bytes) -> str:
    """The message of an OpenAI error object, or the beginning of the body."""
    error = (_object(data) or {}).get("error")
    text = error.get("message") if isinstance(error, dict) else None
    return line(text if isinstance(text, str) else data)


def line(what: object) -> str:
    """Text from a peer as one short line of ASCII, since the evaluator prints it to any terminal."""
    text = what.decode(errors="replace") if isinstance(what, bytes) else str(what)
    return " ".join(text[:200].split()).encode("ascii", "backslashreplace").decode()


def _seconds(text: str | None) -> float:
    try:
        value = float(text or 0.0)
    except ValueError:
        return 0.0  # a date: use our own pause
    return value if finite(value) else 0.0


def read_answer(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The driver's answer in a chat completion. Raises DriverFailure for any other reply.

    `control` is a dict of three floats in range, or None with the reason in `unparsed`.
    """
    try:
        content = reply["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise DriverFailure("the reply is no chat completion") from None
    answer = _object(content) if isinstance(content, str) else None
    if answer is None or answer.get("ad2_drive") != PROTOCOL:
        raise DriverFailure(f"the answer is none of {MODEL}'s: {line(content)}")
    if answer.get("policy") not in POLICIES:
        raise DriverFailure(f"the answer's policy is none of {', '.join(POLICIES)}")
    if answer.get("error") is not None:
        raise DriverFailure(f"the driver failed: {line(answer['error'])}")
    if answer.get("unparsed") is not None:
        return dict(answer, control=None, unparsed=line(answer["unparsed"]))
    return dict(answer, control=_control(answer.get("control")), unparsed=None)


def _control(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise DriverFailure("the answer has neither a control nor a reason")
    for name, low in CONTROL:
        number: Any = value.get(name)
        if not finite(number) or not low <= number <= 1.0:
            raise DriverFailure(f"refused: {name} {line(number)} is not in [{low:g}, 1]")
    return {name: float(value[name]) for name, _ in CONTROL}


def settings(config: LeaderboardAgentConfig) -> dict[str, Any]:
    """The configuration for run.json. It has no key, only the name of its variable."""
    return {f.name: getattr(config, f.name) for f in fields(config)}
