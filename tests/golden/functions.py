"""Rows that are no command line: what is recorded is the value of a function here."""

from __future__ import annotations

import ast
import configparser
import dataclasses
import email
import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from content import brief, canonical, digest, shortened
from workspace import Workspace

Json = dict[str, Any]
Options = Mapping[str, Any]
OURS = ("ad2_", "ad2x_", "ad2demo_", "ad2drive_", "bench_")
PACKAGES = r"(?:lmms_eval_ad2|closedloop_plugin)"
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/", "configs/", "tasks/", "examples/")
NOT_THE_PRODUCT = ("tests/", "scripts/golden.py")


def product_files(work: Workspace) -> list[str]:
    """The files of a clone, without the tests and these recordings."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=work.repo, capture_output=True, text=True, check=True)
    names = (name for name in set(done.stdout.splitlines()) if not name.startswith(NOT_THE_PRODUCT))
    return sorted(name for name in names if (work.repo / name).is_file())


# A folder that is given again


def resume_rules(work: Workspace, command: str, settings: str, base: Options, changes: dict[str, Options]) -> Json:
    """One folder, started by `base`, then once for each change: "refused" (exit code 2) or "continues".

    Every changed start is valid by itself. `settings`: the file whose keys are compared.
    """
    out = work.folder / f"resumed{len(list(work.folder.iterdir()))}"
    first = _start(work, command, base, out)
    keys = _keys(json.loads((out / settings).read_text("utf-8")))
    outcomes = {name: _start(work, command, {**base, **change}, out) for name, change in changes.items()}
    if work.endpoint:
        work.endpoint.take()
    return {"first start": first, "compared": keys, "options": outcomes}


def _start(work: Workspace, command: str, options: Options, out: Path) -> str:
    done = work.run("ad2", *command.split(), *_words(work, options), "--out", out, code=None)
    if done.returncode not in (0, 1, 2) or "Traceback" in done.stderr:
        raise RuntimeError(f"{command} {options}: exit code {done.returncode}\n{done.stderr[-1500:]}")
    return "refused" if done.returncode == 2 else "continues"


def _words(work: Workspace, options: Options) -> list[str]:
    """The command line; "-- --x" is last, as an option of lmms-eval."""
    words: list[str] = []
    for name, value in sorted(options.items(), key=lambda item: item[0].startswith("-- ")):
        if value is not None:
            words += work.filled(name).split(" ")
            words += [] if value is True else [work.filled(str(value))]
    return words


def _keys(value: Any, above: str = "") -> list[str]:
    """Every key of the settings, nested ones with dots."""
    if not isinstance(value, dict):
        return []
    found = [f"{above}{key}" for key in value]
    return sorted(found + [inner for key, part in value.items() for inner in _keys(part, f"{above}{key}.")])


def resumed_evaluation(work: Workspace, base: Options, changes: dict[str, Options]) -> Json:
    """The same folder is resumed; a new one is started if the model could answer differently."""
    found: Json = {}
    out, before = work.folder / "eval", (0, 0)
    for name, change in {"first start": {}, **changes}.items():
        words = _words(work, {**base, **change})
        rest = words.index("--") if "--" in words else len(words)
        work.run("ad2", "eval", *words[:rest], "--out", out, *words[rest:])
        rows = sum(len(path.read_text("utf-8").splitlines()) for path in out.rglob("rank*.jsonl"))
        now = (len(list(out.rglob("journal"))), rows)
        found[name] = {"new folder": now[0] > before[0], "answers asked for": now[1] - before[1]}
        before = now
    return found


# Tasks, texts, names


def tasks(work: Workspace) -> Json:
    """Our tasks and groups in lmms-eval, as it reads them, with their settings."""
    importlib.import_module("lmms_eval.evaluator")
    from lmms_eval.tasks import TaskManager
    from lmms_eval.utils import load_yaml_config

    for point in metadata.entry_points(group="lmms_eval.models"):
        point.load()()
    index = TaskManager().task_index
    configs = {name: load_yaml_config(index[name]["yaml_path"]) for name in sorted(index) if name.startswith(OURS)}
    return {name: brief(_plain(config), 3) for name, config in configs.items()}


def _plain(value: Any) -> Any:
    if callable(value):
        return "<function>"
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def packaged_texts(work: Workspace) -> Json:
    """Every text of the YAML files in the packages, by file name and key: prompts, rubrics, roles."""
    paths = [work.repo / n for n in product_files(work) if re.match(rf"{PACKAGES}/.*\.yaml$", n) and "/tasks/" not in n]
    return {path.name: _texts(yaml.safe_load(path.read_text("utf-8"))) for path in paths}


def _texts(value: Any, where: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        pairs = [(f"{where}/{key}", item) for key, item in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{where}/{number}", item) for number, item in enumerate(value)]
    else:
        return {where: digest(value) if isinstance(value, str) and len(value) > 20 else repr(value)}
    return {path: text for name, item in pairs for path, text in _texts(item, name).items()}


def configs(work: Workspace) -> Json:
    """Digests of the files below configs/; of YAML and JSON files after parsing."""
    found = {}
    for name in product_files(work):
        if name.startswith("configs/"):
            text = (work.repo / name).read_bytes().decode("utf-8", "replace")
            data = canonical(yaml.safe_load(text)) if name.endswith((".yaml", ".json")) else text
            found[name] = "python" if name.endswith(".py") else digest(data)
    return found


def variables(work: Workspace) -> Json:
    """Environment variables in the files of the product: ours, and others that Python code reads."""
    texts = [(work.repo / name).read_bytes().decode("utf-8", "replace") for name in product_files(work)]
    read = re.compile(r"(?:environ(?:\.\w+)?[\[(]|getenv\()\s*[\"']([A-Z][A-Z0-9_]+)")
    ours = {name for text in texts for name in re.findall(r"\bAD2_[A-Z0-9_]+[A-Z0-9]\b", text)}
    others = {name for text in texts for name in read.findall(text)}
    ours = {name for name in ours if not name.startswith("AD2_TEST_")}
    return {"ours": dict.fromkeys(ours, True), "others": dict.fromkeys(others - ours, True)}


def public_names(work: Workspace) -> Json:
    """Names that the documents, configs and tasks import, with their parameters; entry points by group."""
    documents = [work.repo / name for name in product_files(work) if name.startswith(DOCUMENTS)]
    text = "\n".join(path.read_bytes().decode("utf-8", "replace") for path in documents)
    imported = re.compile(rf"from ({PACKAGES}[\w.]*) import (\w+(?:, *\w+)*)")
    names = {f"{m[1]}:{name.strip()}" for m in imported.finditer(text) for name in m[2].split(",")}
    names |= set(re.findall(rf"\b({PACKAGES}(?:\.\w+)+:\w+)", text))
    points = metadata.distribution("lmms-eval-ad2").entry_points
    models = [manifest.model_id for p in points if p.group == "lmms_eval.models" for manifest in p.load()()]
    return {
        "names": {name: _form(*name.split(":")) for name in sorted(names)},
        "entry points": {f"{point.group}: {point.name}": True for point in points},
        "python -m": dict.fromkeys(re.findall(rf"-m ({PACKAGES}[\w.]*)", text), True),
        "lmms-eval models": sorted(models),
    }


def _form(module: str, name: str) -> Any:
    try:
        value = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as exc:
        return f"{type(exc).__name__}"
    if not inspect.isclass(value):
        return _parameters(value) if callable(value) else "value"
    fields = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    members = {n: _parameters(m) for n, m in inspect.getmembers(value) if n[0] != "_" and n not in fields}
    return {"takes": _parameters(value), "members": members}


def _parameters(value: Any) -> str:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "value"
    return ", ".join(f"{p.name}{'' if p.default is p.empty else '='}" for p in parameters)


# Files that leave the checkout


def wheel(work: Workspace) -> Json:
    """The wheel: data files by name, metadata, entry points, licences; Python files only by their package."""
    clone = work.folder / "clone"
    for name in product_files(work):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(work.repo / name, clone / name)
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", work.folder / "dist", clone)
    work.run(sys.executable, *build)
    (path,) = (work.folder / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    info = {name.partition("/")[2]: data for name, data in content.items() if ".dist-info/" in name}
    files = {name: data for name, data in content.items() if ".dist-info/" not in name}
    message = email.message_from_bytes(info["METADATA"])
    points = configparser.ConfigParser()
    points.optionxform = str  # type: ignore[assignment,method-assign]
    points.read_string(info["entry_points.txt"].decode())
    keys = sorted(set(message.keys()) - {"Metadata-Version", "Version", "Dynamic", "Description-Content-Type"})
    return {
        "data files": sorted(Path(name).name for name in files if not name.endswith(".py")),
        "packages": dict.fromkeys((name.split("/")[0] for name in files), True),
        "metadata": {key: dict.fromkeys(message.get_all(key, []), True) for key in keys},
        "entry points": {group: sorted(points[group]) for group in points.sections()},
        "licences": {name: digest(data) for name, data in info.items() if name.startswith("licenses/")},
        "tags": email.message_from_bytes(info["WHEEL"]).get_all("Tag"),
    }


SSH = """#!/bin/sh
printf '%s\\0' "$@" > "$GOLDEN_SENT.words"
cat > "$GOLDEN_SENT.tar"
echo installed
"""


def deployed(work: Workspace, robot: str) -> Json:
    """What `ad2 robot deploy` sends to a vehicle: the ssh command and the archive.

    A fake program named ssh replaces the real one. Python files must be valid for Python 3.6, and of the random token
    the length is recorded.
    """
    work.write("bin/ssh", SSH).chmod(0o755)
    sent = work.folder / "sent"
    path = f"{work.folder / 'bin'}:/usr/bin:/bin"
    work.run("ad2", "robot", "deploy", robot, "someone@vehicle.example", PATH=path, GOLDEN_SENT=str(sent))
    files: Json = {}
    with tarfile.open(f"{sent}.tar") as tar:
        for entry in tar.getmembers():
            stream = tar.extractfile(entry)
            files[f"{entry.name} {entry.mode:o}"] = _sent(work, entry.name, stream.read() if stream else b"")
    words = Path(f"{sent}.words").read_text("utf-8").split("\0")[:-1]
    return {"ssh": work.scrub([shortened(word) for word in words]), "files": files}


def _sent(work: Workspace, name: str, data: bytes) -> Any:
    if name.endswith(".json"):
        return work.scrub(json.loads(data))
    if name.endswith(".py"):
        ast.parse(data, feature_version=(3, 6))
        return "Python 3.6"
    return f"{len(data)} bytes"


# Names in Scenic programs

PROBE = """
param route = "demo:101"
model scenic.domains.driving.model
_before = dict(globals())
from {module} import *
import names_in_scenic
names_in_scenic.write(_before, globals())
ego = new Car at place(0), facing stage.heading(0)
terminate after 1 steps
"""


def scenic_names(work: Workspace, module: str) -> Any:
    """Names in a Scenic program after `from MODULE import *`, with their parameters, and the scenario types."""
    program, out = work.write("probe.scenic", PROBE.format(module=module)), work.folder / f"{module}.json"
    env = {"PYTHONPATH": f"{work.repo}:{Path(__file__).parent}", "NAMES_OUT": str(out)}
    work.run("ad2", "drive", "run", "--scenario", program, "--agent", "still", "--out", f"run_{module}", **env)
    return brief(work.scrub(json.loads(out.read_text("utf-8"))), 4)
