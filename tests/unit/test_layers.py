"""Who may import whom (docs/architecture.md, docs/closed-loop.md). Reads the source: lazy imports count too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.running import REPO

OPEN, CLOSED = REPO / "lmms_eval_ad2", REPO / "closedloop_plugin"
PACKAGES = (OPEN, CLOSED)

# room -> rooms of its own package that it may know. "cli" is the roof and may know all.
ALLOWED: dict[str, set[str]] = {
    "records": set(),
    "errors": set(),
    "files": set(),
    "folders": {"errors"},
    "pillow": set(),
    "drivelm_text": {"records", "errors"},
    "releases": {"records", "errors", "drivelm_text", "pillow"},
    "library": {"records", "errors", "releases"},
    "prompts": {"records", "errors", "pillow"},
    "parsing": {"records", "errors"},
    "metrics": {"records", "errors"},
    "llm": {"records", "errors"},
    "judge": {"llm", "parsing", "records", "errors", "files"},
    # AutoDrive-QA's questions made: reads releases and the data home, asks models, writes a file that releases reads.
    "mcq": {
        "llm", "library", "releases", "drivelm_text", "prompts", "metrics", "parsing", "records", "errors", "files",
        "folders", "pillow",
    },
    # Training files: the words and pictures of the tasks, from training splits.
    "export": {"scoring", "prompts", "library", "releases", "records", "errors", "files"},
    # People's annotations: a page over the data home.
    "annotate": {
        "llm", "library", "releases", "prompts", "parsing", "metrics", "records", "errors", "files", "pillow",
    },
    "scoring": {"judge", "parsing", "metrics", "records", "errors", "drivelm_text", "files"},
    "sample": {"library", "records", "errors", "mcq"},
    "harness": {
        "scoring", "judge", "llm", "parsing", "metrics", "prompts", "library", "releases", "sample", "records",
        "errors",
    },
    "report": {"prompts", "metrics", "records", "errors", "files"},
}  # fmt: skip
BASES = {"worlds.base", "agents.base", "interpreters.base", "maps.base"}
CLOSED_ALLOWED: dict[str, set[str]] = {
    "state": set(),
    "frames": set(),
    "record": set(),
    "path": {"state", "frames"},
    "routes": {"frames"},
    "profiles": {"state", "worlds.base"},
    "program_suites": {"routes"},
    "suites": {"routes", "program_suites"},
    "maps": {"state", "frames", "path", "routes"},
    "worlds": {"state", "frames", "path", "routes", "maps", "scenarios", "profiles"},
    "agents": {"state", "frames", "path", "maps.base", "worlds.base", "profiles", "prompts"},
    "interpreters": {"state", "frames", "agents", "profiles", "prompts"},
    # A program runs inside a world: it knows the bridge (Stage, Rail) as the worlds know the catalogue.
    "scenarios": {"state", "frames", "path", "routes", "maps", "worlds"},
    "prompts": set(),
    "scoring": {"state", "frames", "path", "record", "routes", "profiles", "maps.base"},
    "runner": {"state", "frames", "path", "record", "routes", "profiles", "suites", "scoring", "show"} | BASES,
    # Makes, checks and searches scenarios by driving them: it stands above the loop, below harness and cli.
    "threats": {
        "state",
        "frames",
        "path",
        "record",
        "routes",
        "profiles",
        "suites",
        "program_suites",
        "maps.base",
        "worlds.base",
        "agents",
        "prompts",
        "runner",
        "scoring",
        "show",
        "scenarios",  # what the programs that it writes are made of
    },
    "show": {"state", "frames", "path", "record", "maps.base"},
    "where": {"maps", "runner", "suites"},  # from a world's name to its recipe
    "servers": {"maps"},  # CARLA servers: started, watched, asked; knows no world
    "serve": {"state", "agents", "interpreters", "profiles", "prompts", "worlds.base"},
    # Vehicles at the far end of a link: the agents and interpreters of the loop, another world.
    "robots": {
        "state",
        "frames",
        "path",
        "agents",
        "interpreters",
        "profiles",
        "prompts",
        "worlds.base",
        "show",
    },
    "bench2drive": set(),  # files for other interpreters than ours: they stand alone
}
# What the closed loop may use of the other package, which never knows it (cli, the roof, aside).
SHARED = {"errors", "files", "folders", "pillow", "prompts", "parsing", "llm", "metrics", "report"}
# heavy library -> the rooms or files that may import it
HEAVY = {
    "lmms_eval": ("lmms_eval_ad2/harness", "lmms_eval_ad2/cli/lmms.py", "closedloop_plugin/harness.py",
                  "closedloop_plugin/agents/lmms_model.py"),
    "swift": ("lmms_eval_ad2/harness/models/swift.py",),
    "gradio": ("lmms_eval_ad2/annotate/page.py",),
    "sentence_transformers": ("lmms_eval_ad2/judge/embedding.py",),
    "matplotlib": ("lmms_eval_ad2/report/plots.py", "closedloop_plugin/show/", "closedloop_plugin/maps/draw.py"),
    "pycocoevalcap": ("lmms_eval_ad2/metrics/caption",),
    "jiwer": ("lmms_eval_ad2/metrics/ocr.py",),
    "ijson": ("lmms_eval_ad2/releases",),
    "torch": ("lmms_eval_ad2/harness/models", "lmms_eval_ad2/harness/ranks.py"),
    "datasets": ("lmms_eval_ad2/harness/data.py", "closedloop_plugin/harness.py"),
    "scenic": ("closedloop_plugin/worlds/bridge/", "closedloop_plugin/worlds/embedded/",
               "closedloop_plugin/worlds/carla",
               "closedloop_plugin/scenarios/", "closedloop_plugin/threats/search/samplers.py"),
    "verifai": ("closedloop_plugin/threats/search/samplers.py",),
    "sklearn": ("closedloop_plugin/threats/search/bayes.py",),
    "greenlet": ("closedloop_plugin/worlds/bridge/session.py",),
    "carla": ("closedloop_plugin/worlds/carla", "closedloop_plugin/maps/from_server.py",
              "closedloop_plugin/maps/carla_", "closedloop_plugin/where.py", "closedloop_plugin/servers/probe.py",
              "closedloop_plugin/bench2drive/agent.py", "lmms_eval_ad2/cli/threats_check.py"),
    "cv2": ("closedloop_plugin/worlds/embedded/camera/", "closedloop_plugin/show/",
            "closedloop_plugin/robots/sandbox/", "closedloop_plugin/robots/onboard/jpeg.py"),
    "av": ("closedloop_plugin/show/",),
    "rospy": ("closedloop_plugin/robots/sandbox/node.py", "closedloop_plugin/robots/onboard/ros1.py",
              "closedloop_plugin/robots/course/witness.py"),
    "rclpy": ("closedloop_plugin/robots/onboard/ros2.py",),
    "rosbags": ("closedloop_plugin/robots/course/",),
}  # fmt: skip


def modules() -> list[Path]:
    return sorted(p for package in PACKAGES for p in package.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(REPO))


def room_of(path: Path) -> str:
    package = next(p for p in PACKAGES if p in path.parents)
    return path.relative_to(package).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Dotted names that the file imports anywhere, and the modules it names in errors.require("...")."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "require":
            names |= {str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant)}
    return names


def rooms(names: set[str], package: Path) -> set[str]:
    """Rooms of a package among imported names; "worlds.base" stays apart from "worlds"."""
    found = set()
    for parts in (n.split(".") for n in names):
        if parts[0] != package.name or len(parts) < 2:
            continue
        if ".".join(parts[1:3]) in BASES:
            found.add(".".join(parts[1:3]))
        elif (package / f"{parts[1]}.py").exists() or len(parts) > 2:
            found.add(parts[1])
    return found


@pytest.mark.parametrize("path", modules(), ids=name)
def test_imports_follow_the_layers(path: Path) -> None:
    room, here = room_of(path), path.is_relative_to(CLOSED)
    names = imported(path)
    if room in ("cli", "__init__"):
        return
    if not here:
        assert not rooms(names, CLOSED), f"{name(path)} imports the closed loop: only cli may"
    else:
        strangers = rooms(names, OPEN) - SHARED
        if room != "harness":
            assert not strangers, f"{name(path)} imports {sorted(strangers)}; the closed loop may use {sorted(SHARED)}"
    if here and room == "harness":
        return  # the lmms-eval tasks: they know everything here, as the roof does
    allowed = (CLOSED_ALLOWED if here else ALLOWED).get(room)
    assert allowed is not None, f"a new room '{room}': say in this file and in docs/ whom it may know"
    package = CLOSED if here else OPEN
    foreign = {r for r in rooms(names, package) - allowed - {room} if r.split(".")[0] not in allowed | {room}}
    assert not foreign, f"{name(path)} imports {sorted(foreign)}; {room} may know {sorted(allowed)}"


@pytest.mark.integration
@pytest.mark.parametrize("library", HEAVY)
def test_heavy_libraries_have_one_home(library: str) -> None:
    homes = HEAVY[library]
    importers = {name(p) for p in modules() if any(n == library or n.startswith(f"{library}.") for n in imported(p))}
    strangers = {i for i in importers if not i.startswith(homes)}
    assert not strangers, f"{library} is imported by {sorted(strangers)}; its home is {homes}"


def test_the_reader_of_imports_sees_lazy_ones(tmp_path: Path) -> None:
    """The check must be able to fail: a lazy import and a require() are both found."""
    file = tmp_path / "x.py"
    file.write_text("def f():\n    from lmms_eval_ad2.harness import run\n    require('swift')\n")
    assert {"lmms_eval_ad2.harness", "swift"} <= imported(file)


def test_the_bases_are_told_from_their_rooms() -> None:
    names = {"closedloop_plugin.worlds.base.World", "closedloop_plugin.agents.expert"}
    assert rooms(names, CLOSED) == {"worlds.base", "agents"}


# Carried into other environments as one file, and longer for it.
ONE_FILE = {"closedloop_plugin/bench2drive/advlm_server.py": 480}


@pytest.mark.parametrize("path", modules(), ids=name)
def test_rooms_stay_small(path: Path) -> None:
    most = ONE_FILE.get(name(path), 400)
    assert len(path.read_text("utf-8").splitlines()) <= most, "split it: files of about 120 lines, rarely past 400"
