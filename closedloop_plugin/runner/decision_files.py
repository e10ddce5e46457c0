"""Every decision of an episode as one line of JSON, RUN/decisions/<route>_rep<k>.jsonl.gz: docs/decisions-file.md.

DecisionLog makes the lines in the world's process and compresses them in blocks. Replies are untrusted: texts are cut,
keys are removed, numbers that are not finite become null. DecisionFiles appends the blocks of an episode that runs to a
temporary file, in the process that writes the records; the file gets its name before the episode's line is written. A
kill -9 thus loses only the decisions of running episodes, which are driven again. `read_decisions` reads a file.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.core.kept_texts import NAME, TEXT, TEXTS, KeptTexts
from closedloop_plugin.core.state import Control, InterpretedControl, ModelUsage, Observation, RouteCommand
from closedloop_plugin.runner.decisions import TimedDecision
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.numbers import is_bounded, is_whole
from lmms_eval_ad2.storage.files import open_regular, sync_folder
from lmms_eval_ad2.storage.redaction import environment_keys
from lmms_eval_ad2.storage.untrusted_json import parse

FORMAT = 1
BLOCK = 1 << 16  # bytes of lines that are compressed together
LEVEL = 1  # of gzip: higher ones take three times as long and save a fifth
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps makes one for every line


class DecisionLog:
    """The lines of one episode; `send` gets them in blocks, each a gzip member. `hz`: ticks per second."""

    def __init__(self, hz: float, send: Callable[[bytes], None]) -> None:
        self.hz, self._send = hz, send
        self._keys = environment_keys()
        self._lines = bytearray()

    def __call__(self, decision: TimedDecision) -> None:
        """Add a decision whose control is no longer applied, or never will be."""
        # A lone surrogate becomes its JSON escape.
        self._lines += _ENCODER.encode(self._line(decision)).encode("utf-8", "backslashreplace") + b"\n"
        if len(self._lines) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            self._send(gzip.compress(self._lines, LEVEL, mtime=0))
            self._lines.clear()

    def _line(self, timed: TimedDecision) -> dict[str, Any]:
        decision, interpreted = timed.response.decision, timed.response.interpreted
        kept = KeptTexts(self._keys)
        begin, end = timed.applied or (None, None)
        requested = decision.control or (interpreted.control if interpreted else None)
        line = {
            "format": FORMAT,
            "t": round(timed.requested / self.hz, 6),
            "tick": timed.requested,
            "seen": None if timed.observation is None else _seen(timed.observation),
            "words": kept.answers("words", decision.texts),
            "error": kept.optional("error", decision.error),
            **_logged_cost(decision.latency_s, decision.usage),
            "reading": None if interpreted is None else _reading(interpreted, kept),
            "control": {
                "requested": None if requested is None else _numbers(requested),
                "applied": None if timed.held is None else _numbers(timed.held),
                "from_tick": begin,
                "to_tick": end,
            },
            "waited_s": _seconds(timed.response.waited_s),
        }
        return line | ({"cut": kept.cut} if kept.cut else {})


def _reading(interpreted: InterpretedControl, kept: KeptTexts) -> dict[str, Any]:
    return {
        "mode": str(interpreted.mode)[:TEXT],
        "raw": kept.text("raw", interpreted.raw),
        "reason": kept.optional("reason", interpreted.reason),
        "meaning": interpreted.meaning[:NAME],
        "adapted": [str(name)[:NAME] for name in interpreted.adapted[:TEXTS]],
        **_logged_cost(interpreted.latency_s, interpreted.usage),
    }


def _seen(observation: Observation) -> dict[str, Any]:
    """What an interpreter takes from the observation besides images, with all digits: reading again gives the same."""
    return {
        "speed": _number(observation.speed),
        "command": str(observation.command),
        "target": [_number(value) for value in observation.target],
        "speed_limit": _number(observation.speed_limit),
        "route_offset": _number(observation.route_offset),
    }


def _logged_cost(latency_s: float, usage: ModelUsage) -> Mapping[str, Any]:
    return {
        "prompt_sha256": usage.prompt_sha256,
        "seconds": _seconds(latency_s),
        "tokens_in": _tokens(usage.tokens_in),
        "tokens_out": _tokens(usage.tokens_out),
    }


def _tokens(count: int | None) -> int | None:
    """A count; None for 0, which a backend without counts reports."""
    return count if count and is_whole(count, 1) else None


def _seconds(value: float | None) -> float | None:
    """Wall time; None for 0, which a system without a clock reports."""
    number = _number(value)
    return round(number, 6) if number else None


def _numbers(control: Control) -> list[float | None]:
    return [_number(value) for value in (control.steer, control.throttle, control.brake)]


def _number(value: object) -> float | None:
    if type(value) is float and math.isfinite(value):  # nearly always
        return value
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


FOLDER = "decisions"
SUFFIX = ".jsonl.gz"
LONGEST_LINE = 4 << 20  # bytes; the texts of a line have at most 2 MiB as JSON
LAST_TICK = 10_000_000  # of an episode; 11 days at 10 Hz
_COST_LIMIT = 1e12  # of a decision, tokens and seconds
_HINT = "Remove the file to go on without the decisions of this episode"


class DecisionFiles:
    """The decision files of a run folder. `key`: <route>_rep<k>."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER

    def begin(self, key: str) -> None:
        """An episode starts, perhaps again: drop what an earlier try has left."""
        self._partial(key).unlink(missing_ok=True)

    def add(self, key: str, block: bytes) -> None:
        """Append a block of lines, compressed by gzip."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._partial(key).open("ab") as file:
            file.write(block)

    def copy(self, key: str, source: Path) -> None:
        """Take the whole file of another run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, self._partial(key))

    def keep(self, key: str) -> None:
        """The episode's record is about to be written: its decisions replace those of an earlier drive."""
        partial, final = self._partial(key), self.folder / f"{key}{SUFFIX}"
        if not partial.is_file():
            final.unlink(missing_ok=True)  # of a drive whose record is replaced
            return
        with partial.open("r+b") as file:
            os.fsync(file.fileno())
        partial.replace(final)
        sync_folder(self.folder)

    def _partial(self, key: str) -> Path:
        return self.folder / f".{key}{SUFFIX}.tmp"  # a leftover is removed when the run folder is opened


@dataclass(frozen=True)
class StoredDecision:
    """One line, see docs/decisions-file.md. Controls: (steer, throttle, brake); None: a number that is not finite."""

    tick: int
    time_s: float
    words: Mapping[str, str]
    error: str | None
    seen: Mapping[str, Any] | None
    reading: Mapping[str, Any] | None
    requested: tuple[float | None, ...] | None
    applied: tuple[float | None, ...] | None
    costs: tuple[Mapping[str, Any], ...]  # of the fast and, if it was called, the slow system
    cut: bool  # a text was too long to be kept

    @property
    def requested_control(self) -> Control | None:
        """None without one, or for numbers that are not finite."""
        steer, throttle, brake = self.requested or (None, None, None)
        return None if steer is None or throttle is None or brake is None else Control(steer, throttle, brake)

    @property
    def seconds(self) -> float | None:
        """Wall time of the systems that report it, s."""
        known = [cost["seconds"] for cost in self.costs if cost["seconds"] is not None]
        return sum(known) if known else None

    @property
    def asked(self) -> bool:
        """Whether a model answered, or failed to."""
        return bool(self.words) or self.error is not None or any(cost["prompt_sha256"] for cost in self.costs)

    def tokens(self, name: str) -> int | None:
        """tokens_in or tokens_out of all models of the decision; None if one of them does not report them."""
        fast, *slow = self.costs
        counted = [fast, *(cost for cost in slow if cost["prompt_sha256"] is not None or cost[name] is not None)]
        counts = [cost[name] for cost in counted]
        return None if None in counts else sum(counts)


def decision_file(run: Path, key: str) -> Path:
    return run / FOLDER / f"{key}{SUFFIX}"


def read_decisions(file: Path) -> Iterator[StoredDecision]:
    """The decisions of an episode, in order, one in memory at a time. Raises DataError for a broken file."""
    number, tick = 0, -1
    try:
        with open_regular(file) as raw, gzip.open(raw) as lines:
            while line := lines.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE or not line.endswith(b"\n"):
                    expected = f"a whole line of at most {LONGEST_LINE} bytes"
                    raise DataError(file, number, "line", expected, "another", _HINT)
                decision = _decision(file, number, line)
                if decision.tick <= tick:  # also bounds the lines of a file that others made
                    expected = f"more than {tick}, that of the row before"
                    raise DataError(file, number, "tick", expected, decision.tick, _HINT)
                tick = decision.tick
                yield decision
    except (OSError, EOFError, zlib.error) as exc:
        raise DataError(file, number + 1, "line", "a gzip file of decisions", str(exc), _HINT) from exc


def _decision(file: Path, number: int, line: bytes) -> StoredDecision:
    try:
        row = parse(line)
        if row["format"] != FORMAT:
            raise DataError(file, number, "format", str(FORMAT), row["format"], "Another version wrote it")
        reading, control = row["reading"], row["control"]
        return StoredDecision(
            tick=_checked(row["tick"], is_whole(row["tick"], 0, LAST_TICK)),
            time_s=_checked(row["t"], is_bounded(row["t"])),
            words=_texts(row["words"]),
            error=_checked(row["error"], row["error"] is None or isinstance(row["error"], str)),
            seen=None if row["seen"] is None else _observed(row["seen"]),
            reading=None if reading is None else _read(reading),
            requested=_triple(control["requested"]),
            applied=_triple(control["applied"]),
            costs=tuple(_cost(part) for part in (row, reading) if part is not None),
            cut=bool(row.get("cut")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        found = line[:80].decode(errors="replace").rstrip("\n")
        raise DataError(file, number, "line", f"a decision, format {FORMAT}", found, f"({exc!r:.200}) {_HINT}") from exc


def _checked(value: Any, fits: bool) -> Any:
    if not fits:
        raise TypeError(f"unexpected value {value!r:.80}")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {name: _checked(text, isinstance(text, str)) for name, text in value.items()}


def _read(value: Any) -> dict[str, Any]:
    _texts({name: value[name] for name in ("mode", "raw", "meaning")})
    _checked(value["reason"], value["reason"] is None or isinstance(value["reason"], str))
    return dict(value)


def _observed(value: Any) -> dict[str, Any]:
    forward, left = value["target"]
    numbers = [value["speed"], forward, left, value["speed_limit"]]
    _checked(numbers, all(map(is_bounded, numbers)))
    _checked(value["route_offset"], value["route_offset"] is None or is_bounded(value["route_offset"]))
    return {**value, "command": RouteCommand(value["command"]), "target": (forward, left)}


def _triple(value: Any) -> tuple[float | None, ...] | None:
    if value is None:
        return None
    return _checked(tuple(value), len(value) == 3 and all(v is None or is_bounded(v) for v in value))


def _cost(value: Any) -> dict[str, Any]:
    """The cost of one system; null is not reported."""
    seconds, tokens, prompt = value["seconds"], (value["tokens_in"], value["tokens_out"]), value["prompt_sha256"]
    _checked(seconds, seconds is None or (is_bounded(seconds) and 0 <= seconds <= _COST_LIMIT))
    _checked(tokens, all(count is None or is_whole(count, 0, _COST_LIMIT) for count in tokens))
    _checked(prompt, prompt is None or isinstance(prompt, str))
    return {"seconds": seconds, "tokens_in": tokens[0], "tokens_out": tokens[1], "prompt_sha256": prompt}
