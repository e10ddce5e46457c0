"""Number readers that no short command uses. `ours`: functions of the product, by their names in the section."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import number_files

Reader = Callable[[str], Any]
Readers = dict[str, Reader]


class Refused(Exception):
    """The product rejected the input with an error message."""


def readers(ours: Any, folder: Path) -> dict[str, Readers]:
    """Kind of input -> place -> its reader."""
    return {
        "json": {**_vehicles(ours, folder), **_models(ours), **_drives(ours, folder)},
        "yaml": _settings(ours, folder),
        "words": _words(ours, folder),
    }


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def filled(value: Any, token: str) -> str:
    """`value` as JSON, `token` in place of "@"."""
    return json.dumps(value).replace('"@"', token)


def attributes(value: Any, *names: str) -> list[Any]:
    return [getattr(value, name) for name in names]


def _vehicles(ours: Any, folder: Path) -> Readers:
    """The vehicle's link, its command, its limits, and the settings of the client on board."""

    def frame(name: str, token: str) -> Any:
        """A frame of the link, `token` in place of one field; the packed length is unchanged."""
        place = 1234567 if name == "obs" else 0.12345
        data = ours.wire.pack("cmd", {**number_files.COMMAND, name: place, "pad": "x" * 500})
        short = data.replace(str(place).encode(), token.encode(), 1)
        data = short.replace(b"x" * 500, b"x" * (500 - len(short) + len(data)), 1)
        ((kind, header, _),) = ours.wire.FrameReader().feed(data)
        ours.wire.check(kind, header)
        return header[name]

    def command(token: str) -> Any:
        twist = json.loads(filled({"twist": {"vx": "@", "vy": 0.0, "wz": 0.1}}, token))
        return ours.clamp.clamp(twist, number_files.VEHICLE)

    def limit(token: str) -> Any:
        if ours.clamp.vehicle_problem(json.loads(filled(number_files.with_limit("@"), token))):
            raise Refused
        return "fits"

    def onboard(name: str, token: str) -> Any:
        write(folder / "token", "0" * 64).chmod(0o600)
        found = ours.read_onboard(write(folder / "onboard.json", filled(number_files.onboard(name), token)))
        return found[name] if name in found else found["vehicle"][name]

    found: Readers = {"vehicle command": command, "vehicle limit": limit}
    for name in ("steer", "obs", "duration_s"):
        found[f"link frame {name}"] = lambda token, name=name: frame(name, token)
    for name in ("rate_hz", "jpeg_quality", "mode", "watchdog_s"):
        found[f"onboard settings {name}"] = lambda token, name=name: onboard(name, token)
    return found


def _models(ours: Any) -> Readers:
    """Replies of models and endpoints, and requests to our endpoint."""
    from pydantic import TypeAdapter

    def served_request(name: str, token: str) -> Any:
        body = {"model": "m", "messages": [{"role": "user", "content": "?"}], name: "@"}
        return attributes(ours.read_chat(filled(body, token).encode()).settings, "max_tokens", "temperature")

    def threat(token: str) -> Any:
        data, problem = ours.read_spec_object(filled({"range": "@"}, token))
        if data is None:
            raise Refused(problem)
        return TypeAdapter(ours.Distance).validate_python(data["range"]).model_dump()

    def usage(token: str) -> Any:
        body = {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": "@", "completion_tokens": 3}}
        return attributes(ours.read_completion(filled(body, token).encode()), "prompt_tokens", "completion_tokens")

    def evaluation(reply: dict[str, Any], token: str) -> Any:
        return ours.read_evaluation(ours.ChatReply(filled(reply, token)), 60).model_dump()

    found: Readers = {"threat interval": threat, "token usage": usage, "control reply steer": _control(ours)}
    for name in ("temperature", "max_tokens", "n"):
        found[f"served request {name}"] = lambda token, name=name: served_request(name, token)
    for name, reply in number_files.EVALUATIONS.items():
        found[f"mcq evaluation {name}"] = lambda token, reply=reply: evaluation(reply, token)
    return found


def _control(ours: Any) -> Reader:
    def control(token: str) -> Any:
        reply = filled({"steer": "@", "throttle": 0.5, "brake": 0.0}, token)
        return attributes(ours.read_cng(reply), "steer", "throttle", "brake")

    return control


def _drives(ours: Any, folder: Path) -> Readers:
    """Servers, the Bench2Drive agent, runs of a course, parameters of a program."""
    from scenic.core.distributions import Range

    def server(name: str, token: str) -> Any:
        write(folder / "servers" / "2000.json", filled({**number_files.SERVER, name: "@"}, token))
        return getattr(ours.read_server(folder / "servers", 2000), name)

    def agent(name: str, token: str) -> Any:
        return getattr(ours.ad2_link.read_config(write(folder / "agent.json", filled({name: "@"}, token)), {}), name)

    def answer(token: str) -> Any:
        content = filled({**number_files.ANSWER, "control": {"steer": "@", "throttle": 0.5, "brake": 0.0}}, token)
        return ours.ad2_link.read_answer({"choices": [{"message": {"content": content}}]})["control"]

    def course(name: str, token: str) -> Any:
        write(folder / "course" / "episodes.jsonl", filled({**number_files.COURSE, name: "@"}, token) + "\n")
        return getattr(ours.read_course(folder / "course")[0], name)

    def parameter(token: str) -> Any:
        value = json.loads(token)
        ours.check_values({"pace": value}, {"pace": Range(0.0, 60.0)}, "p")
        return value

    found: Readers = {"agent answer steer": answer, "scenario parameter": parameter}
    for kind, read, names in (
        ("server state", server, ("since", "restarts", "gpu")),
        ("agent.json", agent, ("timeout_s", "retries")),
        ("course run", course, ("completion", "run", "seed")),
    ):
        for name in names:
            found[f"{kind} {name}"] = lambda token, read=read, name=name: read(name, token)
    return found


def _settings(ours: Any, folder: Path) -> Readers:
    """YAML files: a robot, a model, a judge."""
    import yaml

    def file(name: str, token: str, data: dict[str, Any]) -> Path:
        return write(folder / name, yaml.safe_dump(data).replace("'@'", token))

    def robot(section: str, name: str, token: str) -> Any:
        found = ours.read_robot(file("robot.yaml", token, {"vehicle": "limo-ackermann", section: {name: "@"}}))
        return getattr(getattr(found.vehicle if section == "limits" else found, section), name)

    def model(name: str, token: str) -> Any:
        found = ours.read_model(str(file("model.yaml", token, {**number_files.MODEL, name: "@"})))
        if name == "price_prompt":
            return found.price and found.price.prompt
        named = {"timeout": "timeout_s", "backoff": "backoff_s"}.get(name, name)
        return getattr(found.endpoint if hasattr(found.endpoint, named) else found.sampling, named)

    def judge(name: str, token: str) -> Any:
        path = file("judge.yaml", token, {"backend": "openai", **number_files.MODEL, name: "@"})
        return ours.make_judge(str(path)).describe()[name]

    found: Readers = {}
    for section, name in (("limits", "speed"), ("onboard", "rate_hz"), ("link", "port")):
        found[f"robot {section}.{name}"] = lambda token, section=section, name=name: robot(section, name, token)
    for name in number_files.MODEL_NUMBERS:
        found[f"model file {name}"] = lambda token, name=name: model(name, token)
    for name in ("temperature", "seed", "max_tokens"):
        found[f"judge file {name}"] = lambda token, name=name: judge(name, token)
    return found


def _words(ours: Any, folder: Path) -> Readers:
    """Options, lines of files, attributes, and a judge's reply."""

    def latency_file(word: str) -> Any:
        return list(ours.read_latency(str(write(folder / "latency.txt", f"0.25\n{word}\n"))).values)

    def verdict(form: str, word: str) -> Any:
        found = ours.read_verdict(f"Rating: [[{word}]]", "stop", form, "r")
        if not isinstance(found, float):
            raise Refused
        return found

    control = _control(ours)
    return {
        "--latency": lambda word: ours.read_latency(word).values,
        "latency file": latency_file,
        "--set": lambda word: ours.values_of([f"a={word}"]),
        "model argument": lambda word: ours.whole_number("m", "n", word, 0),
        "map attribute": lambda word: ours.read_attribute(ET.Element("geometry", {"s": word}), "s"),
        "judge verdict strict": lambda word: verdict("strict", word),
        "judge verdict official": lambda word: verdict("official", word),
        "control reply steer": lambda word: control(json.dumps(word)),
    }
