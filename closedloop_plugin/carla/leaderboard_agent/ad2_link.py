"""The wire between agent.py and `ad2 serve`: configuration, one HTTP request a decision, pictures as data URLs.

Runs beside the leaderboard, under CARLA 0.9.15's Python 3.7: the standard library only, and Pillow for JPEG where it is
installed. agent.py imports it by its bare name, from its own folder. No proxy is used and no redirect followed.
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
MAX_REPLY = 256 * 1024  # bytes; an answer is words and three numbers
WATCHDOG_S = 540.0  # the leaderboard ends an agent that takes 600 s for a step
PAUSE_S = 0.5  # before the first further try; doubled each time, at most LONGEST_PAUSE_S
LONGEST_PAUSE_S = 5.0
AGAIN = (408, 429, 500, 502, 503, 504)  # HTTP codes that may be different the next time
CONTROL = (("steer", -1.0), ("throttle", 0.0), ("brake", 0.0))  # name, lowest value; the highest is 1
POLICIES = ("official", "strict")


class SetupError(Exception):
    """The user's to mend, before the car moves."""


class DriverFailure(Exception):
    """No control came of this question: counted, the car coasts."""


class _RetryableFailure(DriverFailure):
    """The same question may be put once more. `after_s`: as the server asks."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s


@dataclass(frozen=True)
class LeaderboardAgentConfig:
    """agent.json; every field is explained in docs/bench2drive.md."""

    base_url: str = "http://127.0.0.1:8100/v1"
    api_key_env: str | None = None
    timeout_s: float = 120.0  # of one request
    retries: int = 1  # of one question, after a busy or silent server
    wait_s: float = 300.0  # for a server that still loads its model
    patience: int = 10  # failed decisions in a row that end the route
    image_format: str = "auto"  # jpeg where Pillow is installed, else png
    jpeg_quality: int = 90
    save_frames_every: int = 0  # decisions; 0: never
    cameras: dict[str, dict[str, float]] = field(default_factory=dict)  # name -> fields that differ from the driver's


def _number(low: float, high: float) -> Callable[[Any], bool]:
    return lambda v: finite(v) and low <= v <= high


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def finite(value: Any) -> bool:
    """Compared, not converted: a whole number of 400 digits is no float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300


def _named(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


# field -> (is it right?, what is expected)
_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "base_url": (_named, "an address such as http://127.0.0.1:8100/v1"),
    "api_key_env": (lambda v: v is None or _named(v), "null or the name of an environment variable"),
    "timeout_s": (_number(0.05, WATCHDOG_S), "seconds, 0.05 to 540"),
    "retries": (_whole(0, 20), "a whole number from 0 to 20"),
    "wait_s": (_number(0.0, WATCHDOG_S), "seconds, 0 to 540"),
    "patience": (_whole(1, 4000), "a whole number from 1 to 4000"),
    "image_format": (lambda v: v in ("auto", "jpeg", "png"), "auto, jpeg or png"),
    "jpeg_quality": (_whole(1, 100), "a whole number from 1 to 100"),
    "save_frames_every": (_whole(0, 10**6), "a whole number of decisions, 0 for never"),
    "cameras": (
        lambda v: isinstance(v, dict) and all(isinstance(c, dict) for c in v.values()),
        'an object such as {"front": {"width": 800, "height": 450}}',
    ),
}
# of a camera: CARLA's axes, metres forward, right and up of the ego's centre; yaw in degrees clockwise
CAMERA: dict[str, tuple[Callable[[Any], bool], str]] = {
    "width": (_whole(16, 4096), "pixels, 16 to 4096"),
    "height": (_whole(16, 4096), "pixels, 16 to 4096"),
    "fov": (_number(1.0, 179.0), "degrees, 1 to 179"),
    "forward": (_number(-10.0, 10.0), "metres, -10 to 10"),
    "right": (_number(-10.0, 10.0), "metres, -10 to 10"),
    "up": (_number(-10.0, 10.0), "metres, -10 to 10"),
    "yaw": (_number(-360.0, 360.0), "degrees, -360 to 360"),
}


def split_config(text: str) -> tuple[Path, str]:
    """(file, save name) of the leaderboard's FILE+SAVE_NAME. It appends one name more each route; the last counts."""
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
    """The checked configuration; AD2_BASE_URL goes before the file's base_url."""
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
    """Pictures for the wire: `encode` takes a CARLA image, (H, W, 4) uint8 BGRA."""

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
                    "do without"
                ) from None
        else:

            def jpeg(image: Any) -> bytes:
                buffer = io.BytesIO()
                pillow.fromarray(image[:, :, 2::-1].copy()).save(buffer, "JPEG", quality=quality)
                return buffer.getvalue()

            return CarlaImageEncoder(f"jpeg, quality {quality}, Pillow", "jpeg", jpeg)
    return CarlaImageEncoder("png, zlib", "png", png)


def png(image: Any) -> bytes:
    """An RGB PNG without filters: an environment without any picture library still drives."""
    height, width = image.shape[:2]
    rgb, row = image[:, :, 2::-1].tobytes(), 3 * width
    lines = b"".join(b"\0" + rgb[y * row : (y + 1) * row] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


class DriverHttpClient:
    """One driver behind one address. A request a connection: no state that a restarted server could spoil."""

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
            raise SetupError("base_url: no name, password or query belongs in it; a key comes through api_key_env")
        self._secure, self._root = parts.scheme == "https", parts.path
        self._key = environ.get(config.api_key_env, "").strip() if config.api_key_env else ""
        if config.api_key_env and not self._key:
            raise SetupError(f"the environment variable {config.api_key_env} (api_key_env) is not set")
        if not all(" " <= c <= "~" for c in self._key):  # http.client's own complaint would show the key
            raise SetupError(f"the key in {config.api_key_env} (api_key_env) is not one line of printable ASCII")

    def driver(self) -> dict[str, Any]:
        """What `ad2 serve` offers, once it is there: waits up to wait_s for a server that starts or loads."""
        end, told = time.monotonic() + self._config.wait_s, False
        while True:
            try:
                found = self._ask("GET", "/ad2/driver", None, min(self._config.timeout_s, 30.0))
                break
            except _RetryableFailure as exc:
                if time.monotonic() >= end:
                    raise SetupError(
                        f"no driver at {self.base_url} within {self._config.wait_s:g} s ({exc}); start "
                        "`ad2 serve --model ...` there, or set base_url or AD2_BASE_URL to where it runs"
                    ) from None
                if not told:
                    print(f"[ad2] waiting up to {self._config.wait_s:g} s for {self.base_url} ({exc})", flush=True)
                told = True
                time.sleep(PAUSE_S)
            except DriverFailure as exc:
                raise SetupError(f"{self.base_url} offers no driver: {exc}") from None
        if found.get("ad2_drive") != PROTOCOL:
            raise SetupError(
                f"{self.base_url} speaks protocol {found.get('ad2_drive')!r}, this agent {PROTOCOL}: take agent.py and "
                "`ad2 serve` of the same release"
            )
        return found

    def decide(self, question: Mapping[str, Any], pictures: Sequence[tuple[str, bytes]]) -> dict[str, Any]:
        """The driver's answer to one question, checked. `pictures`: (kind, encoded), as question["cameras"] says."""
        content: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{base64.b64encode(data).decode()}"}}
            for kind, data in pictures
        ]
        content.append({"type": "text", "text": json.dumps({"ad2_drive": PROTOCOL, **question})})
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": content}]}).encode()
        for attempt in range(self._config.retries + 1):
            try:
                return read_answer(self._ask("POST", "/chat/completions", body, self._config.timeout_s))
            except _RetryableFailure as exc:
                if attempt == self._config.retries:
                    raise DriverFailure(f"{exc} (tried {attempt + 1}x)") from None
                time.sleep(min(max(exc.after_s, PAUSE_S * 2**attempt), LONGEST_PAUSE_S))
        raise AssertionError("unreachable")

    def _ask(self, method: str, path: str, body: bytes | None, timeout_s: float) -> dict[str, Any]:
        """One exchange; a JSON object, or DriverFailure."""
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
            if response.status in AGAIN:
                raise _RetryableFailure(why, _seconds(response.getheader("Retry-After")))
            raise DriverFailure(why)
        found = _object(data)
        if found is None:
            raise DriverFailure(f"the reply is no JSON object: {line(data)}")
        return found


def _read(response: http.client.HTTPResponse, end: float) -> bytes:
    """The body, at most MAX_REPLY, by `end`: a peer that drips must not hold the car."""
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
    """The text of an OpenAI error object, or the beginning of whatever came."""
    error = (_object(data) or {}).get("error")
    text = error.get("message") if isinstance(error, dict) else None
    return line(text if isinstance(text, str) else data)


def line(what: object) -> str:
    """A peer's words in a message of ours: one short line of ASCII, for the evaluator prints it to any terminal."""
    text = what.decode(errors="replace") if isinstance(what, bytes) else str(what)
    return " ".join(text[:200].split()).encode("ascii", "backslashreplace").decode()


def _seconds(text: str | None) -> float:
    try:
        value = float(text or 0.0)
    except ValueError:
        return 0.0  # a date: our own pause will do
    return value if finite(value) else 0.0


def read_answer(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The driver's answer in a chat completion. `control` is a dict of three floats in range, or None and `unparsed`
    says why; everything else is a DriverFailure."""
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
    """The configuration for run.json; it holds no key, only the name of one."""
    return {f.name: getattr(config, f.name) for f in fields(config)}
