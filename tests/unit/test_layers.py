"""Import directions between the parts of the two packages, from the source; the only place that lists them.

Lazy imports count too.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from support.running import REPO

OPEN, CLOSED = REPO / "lmms_eval_ad2", REPO / "closedloop_plugin"
PACKAGES = (OPEN, CLOSED)

# part of a package -> parts of the same package that it may import. A part is a folder, a file, or one level deeper
# if the deeper one has its own row. "cli" may import all of its package.
ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "core.run_files": {"storage"},  # options in YAML files, which may be of others
    "core.command_errors": {"storage"},  # how every command ends; its log is in the data home
    "storage": set(),  # also of images, and of rows that may be files of others
    "data": set(),
    "data.coda_checkout": {"storage"},  # texts of a checkout of CODA-LM: for its judge and its questions
    "data.drivelm_text": set(),
    "data.releases": {"data.drivelm_text", "storage"},
    "data.home": {"data.releases", "storage"},
    "data.sample": {"data", "storage"},
    # Training files: the texts and images of the tasks, from training splits. Official answer files: replies of a run.
    "data.export": {"scoring", "parsing", "prompts", "data", "storage"},
    "prompts": {"data.coda_checkout", "storage"},
    "parsing": set(),
    "llm": {"storage"},
    "judge": {"llm", "storage", "testing.fake_judge", "data.coda_checkout"},
    # Builds AutoDrive-QA's questions: reads releases and the data home, asks models, writes a file that releases read.
    "mcq": {"llm", "data", "prompts", "scoring.metrics", "parsing", "storage"},
    # Human annotation: a page over the data home. Human preferences between the answers of runs.
    "annotate": {"llm", "data", "prompts", "parsing", "scoring", "judge", "storage"},
    "scoring": {"judge", "parsing", "data.drivelm_text", "storage"},
    "scoring.metrics": set(),
    "harness": {"scoring", "judge", "llm", "parsing", "prompts", "data", "storage"},
    "report": {"prompts", "scoring.metrics", "storage"},
    # Scores random answers; all else reads result files.
    "report.floors": {"report", "judge", "scoring", "storage"},
    "report.table": set(),  # the table type of all commands
    "evaluation": {"harness", "report", "storage"},  # lmms_eval_ad2.evaluate
    "testing": set(),
    "testing.fake_judge": {"judge", "llm"},
}
EVERYWHERE = {"core"}  # may be imported by every part of its package
PROTOCOLS = {"worlds.base", "driver.agent", "driver.interpreter", "maps.base"}
CLOSED_ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "maps": set(),
    "worlds": {"maps", "scenarios"},
    "worlds.recipes": {"carla.maps", "runner", "scenarios.suites"},  # from a world's name to its recipe
    "worlds.testing": {"maps", "worlds.base"},
    # A program runs inside a world and imports its bridge (Stage, Rail); the worlds import the catalogue.
    "scenarios": {"maps", "worlds"},
    "scenarios.suites": set(),
    "carla": set(),
    "carla.maps": {"maps"},
    "carla.servers": {"carla.maps"},  # starts, watches and queries CARLA servers; independent of worlds
    "carla.world": {"maps", "worlds", "carla.maps"},
    "carla.leaderboard_agent": set(),  # files that run under other Python interpreters: self-contained
    "driver": {"maps.base"},
    "driver.prompts": set(),
    "driver.agents": {"driver.agent", "maps.base", "driver.prompts", "runner.cluster", "runner.recipe"},
    "driver.agents.model_backend": set(),
    "driver.interpreters": {"driver.agent", "driver.agents", "driver.interpreter", "driver.prompts"},
    "scoring": {"maps.base"},
    "scoring.audit": {"scoring"},  # published result files
    "runner": {"maps.base", "scoring", "worlds.base", "driver.agent", "driver.interpreter"},
    "runner.recipe": set(),
    "runner.options": set(),
    # From options to a run, for commands and library calls.
    "runner.routes": {"maps", "runner", "scenarios", "worlds.recipes"},
    "runner.driver": {"driver", "runner"},
    "runner.training_data": {"driver.agents", "learn", "runner", "scenarios.suites"},
    "runner.prepare": {"driver", "runner", "worlds.recipes"},
    # Ray: world processes and models on other machines, behind the runner's and the agents' interfaces.
    "runner.cluster": {"runner", "driver.agents"},
    "report": {"maps", "runner", "scoring", "scenarios.suites", "worlds"},
    # Makes, checks and searches scenarios by driving them: above the runner, below the tasks and cli.
    "threats": {
        "maps.base", "worlds.base", "driver", "runner", "report", "scoring",
        "scenarios",  # imported by the programs that it writes
    },
    # Collects frames of drives, labels them and trains on them: above the runner, below cli.
    "learn": {"maps", "worlds.base", "driver", "runner", "scenarios"},
    # Vehicles behind a network link: the agents and interpreters of the loop, another world.
    "robots": {"driver", "report"},
    "interfaces": {"driver", "learn", "scoring", "runner", "scenarios", "threats", "report", "worlds"},
    "interfaces.serve": {"driver"},
}  # fmt: skip
TABLES = {OPEN: ALLOWED, CLOSED: CLOSED_ALLOWED}
# Parts of the open-loop package that the closed loop may import.
SHARED = {"core", "storage", "prompts", "parsing", "llm", "scoring.metrics", "report"}
# Training data of drives are questions too: records, and their comparison with those that are evaluated.
SHARED_WITH_LEARN = SHARED | {"data", "scoring"}
# The closed loop's tasks of lmms-eval, and its wrapper of lmms-eval's models.
HARNESS_USERS = ("closedloop_plugin/interfaces/tasks.py", "closedloop_plugin/driver/agents/lmms_model.py")
# heavy library -> the folders or files that may import it
HEAVY = {
    "lmms_eval": ("lmms_eval_ad2/harness", "lmms_eval_ad2/cli/lmms.py", "lmms_eval_ad2/evaluation.py",
                  "closedloop_plugin/interfaces/tasks.py", "closedloop_plugin/driver/agents/lmms_model.py"),
    "swift": ("lmms_eval_ad2/harness/models/swift.py",),
    "gradio": ("lmms_eval_ad2/annotate/page.py", "lmms_eval_ad2/annotate/page_server.py",
               "lmms_eval_ad2/annotate/votes.py"),
    "sentence_transformers": ("lmms_eval_ad2/judge/backends/embedding.py",),
    "matplotlib": ("lmms_eval_ad2/report/page/plots.py", "closedloop_plugin/report/", "closedloop_plugin/maps/draw.py"),
    "pycocoevalcap": ("lmms_eval_ad2/scoring/metrics/caption",),
    "jiwer": ("lmms_eval_ad2/scoring/metrics/answer_metrics.py",),
    "evaluate": ("lmms_eval_ad2/judge/backends/evaluate_metric.py",),
    "ijson": ("lmms_eval_ad2/data/releases",),
    "torch": ("closedloop_plugin/driver/agents/lmms_model.py", "lmms_eval_ad2/core/import_probe.py",
              "lmms_eval_ad2/harness/models", "lmms_eval_ad2/harness/run.py", "lmms_eval_ad2/harness/library.py",
              "closedloop_plugin/learn/row_trainer.py", "closedloop_plugin/learn/model_folder.py",
              "closedloop_plugin/learn/forward_pass.py", "closedloop_plugin/learn/encoded_rows.py",
              "closedloop_plugin/learn/answer_loss.py", "closedloop_plugin/learn/tiny_model.py"),
    "datasets": ("lmms_eval_ad2/harness/task_data.py", "closedloop_plugin/interfaces/tasks.py"),
    "scenic": ("closedloop_plugin/worlds/bridge/", "closedloop_plugin/worlds/embedded/",
               "closedloop_plugin/carla/world/"),
    "optuna": ("closedloop_plugin/threats/search/samplers.py",),
    "greenlet": ("closedloop_plugin/worlds/bridge/session.py", "closedloop_plugin/runner/cluster/world_actors.py"),
    "carla": ("closedloop_plugin/carla/", "closedloop_plugin/worlds/recipes.py",
              "closedloop_plugin/cli/scenic/check.py"),
    "cv2": ("closedloop_plugin/worlds/embedded/camera/", "closedloop_plugin/report/",
            "closedloop_plugin/robots/sandbox/", "closedloop_plugin/robots/onboard/jpeg.py"),
    "av": ("closedloop_plugin/report/",),
    "ray": ("closedloop_plugin/runner/cluster/",),
    "rospy": ("closedloop_plugin/robots/sandbox/node.py", "closedloop_plugin/robots/onboard/ros1.py"),
    "rclpy": ("closedloop_plugin/robots/onboard/ros2.py",),
}  # fmt: skip


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(p for package in PACKAGES for p in package.rglob("*.py")))


@cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def name(path: Path) -> str:
    return str(path.relative_to(REPO))


def part_of(path: Path) -> str:
    package = next(p for p in PACKAGES if p in path.parents)
    parts = path.relative_to(package).with_suffix("").parts
    deeper = ".".join(parts[:2])
    return deeper if deeper in TABLES[package] else parts[0]


@cache
def imported(path: Path) -> frozenset[str]:
    """Dotted names that the file imports anywhere, and those it names in require("...") or import_module("...")."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Call) and _called(node) in ("require", "import_module"):
            names |= {_beginning(a) for a in node.args[:1]} - {""}
    return frozenset(names)


def _called(node: ast.Call) -> str:
    return str(getattr(node.func, "id", None) or getattr(node.func, "attr", ""))


def _beginning(node: ast.expr) -> str:
    """The constant beginning of a text: "a.b" of "a.b" and of f"a.b.{c}"."""
    if isinstance(node, ast.JoinedStr):
        return _beginning(node.values[0]).rstrip(".") if node.values else ""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def parts_of(names: Iterable[str], package: Path) -> set[str]:
    """Parts of a package among imported names; "worlds.base" is distinguished from "worlds"."""
    found = set()
    for parts in (n.split(".") for n in names):
        if parts[0] != package.name or len(parts) < 2:
            continue
        if ".".join(parts[1:3]) in PROTOCOLS | TABLES[package].keys():
            found.add(".".join(parts[1:3]))
        elif len(parts) > 2 or any((package / f"{parts[1]}{end}").exists() for end in ("", ".py")):
            found.add(parts[1])
    return found


def _lines(offenders: Mapping[str, set[str]]) -> str:
    return "\n".join(f"{path} imports {sorted(found)}" for path, found in offenders.items() if found)


def test_open_loop_never_imports_the_closed_loop() -> None:
    """Commands included: the closed loop adds its commands to `ad2` through entry points."""
    offenders = [name(p) for p in modules() if OPEN in p.parents and CLOSED.name in _roots(imported(p))]
    assert not offenders, "\n".join(offenders)


def _roots(names: Iterable[str]) -> set[str]:
    return {n.split(".")[0] for n in names}


def test_closed_loop_imports_only_shared_parts_of_the_open_loop() -> None:
    offenders = {}
    for path in modules():
        if CLOSED in path.parents and name(path) not in HARNESS_USERS:
            allowed = SHARED_WITH_LEARN if path.parent.name == "learn" else SHARED
            allowed = allowed | ({"harness"} if "cli/learn" in name(path) else set())
            offenders[name(path)] = {r for r in parts_of(imported(path), OPEN) if not permits(allowed, r)}
    assert not any(offenders.values()), f"{_lines(offenders)}\nthe closed loop may use {sorted(SHARED)}"


def test_no_library_imports_a_command() -> None:
    """Programs that call `evaluate` or the tasks of lmms-eval need no parser, and a command only parses and prints."""
    offenders = {}
    for path in modules():
        if part_of(path) != "cli":
            offenders[name(path)] = {
                n for n in imported(path) if re.match(r"(lmms_eval_ad2|closedloop_plugin)\.cli\b", n)
            }
    assert not any(offenders.values()), _lines(offenders)


def test_imports_follow_the_layers() -> None:
    """`cli` of each package may import all of its package."""
    offenders = {}
    for path in modules():
        part = part_of(path)
        package, table = (CLOSED, CLOSED_ALLOWED) if CLOSED in path.parents else (OPEN, ALLOWED)
        if part in ("cli", "__init__"):
            continue
        assert part in table, f"a new part '{part}': add a row to the tables of this file and to the docs"
        allowed = table[part] | {part} | EVERYWHERE
        offenders[name(path)] = {r for r in parts_of(imported(path), package) if not permits(allowed, r)}
    assert not any(offenders.values()), f"{_lines(offenders)}\nsee the tables of this file"


def permits(grants: set[str], part: str) -> bool:
    return part in grants or part.split(".")[0] in grants


def superfluous(grants: set[str], used: Iterable[str], always: set[str]) -> set[str]:
    """The grants without which all of `used` is permitted as well."""
    return {g for g in grants if all(permits(grants - {g} | always, part) for part in used)}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.name)
def test_every_grant_is_needed(package: Path) -> None:
    used = defaultdict(set)
    for path in modules():
        if package in path.parents:
            used[part_of(path)] |= parts_of(imported(path), package)
    rows = TABLES[package].items()
    unused = {part: superfluous(grants, used[part], {part} | EVERYWHERE) for part, grants in rows}
    assert not any(unused.values()), {part: grants for part, grants in unused.items() if grants}


def test_superfluous_grants_are_found() -> None:
    grants = {"maps", "worlds", "worlds.base", "core"}
    assert superfluous(grants, {"maps.base", "worlds.base", "core"}, EVERYWHERE) == {"worlds", "worlds.base", "core"}


@pytest.mark.parametrize(
    ("page", "package", "without_row"),
    [("architecture.md", OPEN, {"cli"}), ("closed-loop.md", CLOSED, {"cli"})],
    ids=["open", "closed"],
)
def test_documentation_lists_every_part(page: str, package: Path, without_row: set[str]) -> None:
    """The first column of the page's table of packages; `without_row`: parts that may import everything."""
    cells = re.findall(r"^\| ((?:`[\w./]+`(?:, )?)+) \|", (REPO / "docs" / page).read_text("utf-8"), re.MULTILINE)
    documented = {re.split(r"[./]", part)[0] for cell in cells for part in re.findall(r"`([^`]+)`", cell)}
    parts = {part.split(".")[0] for part in TABLES[package]} | without_row
    assert parts <= documented, parts - documented


def graph_of(files: Iterable[Path], top: Path) -> dict[str, set[str]]:
    """Module -> modules of ours that it imports, lazily too; what only TYPE_CHECKING imports is left out."""
    names = {_module(path, top): path for path in files}
    return {module: _targets(path, names) - {module} for module, path in names.items()}


def _module(path: Path, top: Path) -> str:
    return ".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__")


def _targets(path: Path, known: Mapping[str, Path]) -> set[str]:
    tree = tree_of(path)
    checks = (n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test))
    typing_only = {id(node) for check in checks for part in check.body for node in ast.walk(part)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in typing_only:
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing_only:
            dotted_names = {a.name: f"{node.module}.{a.name}" for a in node.names}
            found |= {dotted if dotted in known else node.module for dotted in dotted_names.values()}
    return found & known.keys()


def cycles_of(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module."""
    number = {module: i for i, module in enumerate(sorted(graph))}
    edges = [(number[module], number[target]) for module, targets in graph.items() for target in targets]
    rows, columns = zip(*edges, strict=True) if edges else ((), ())
    matrix = coo_matrix(([1] * len(edges), (rows, columns)), shape=(len(number), len(number)))
    _, labels = connected_components(matrix, directed=True, connection="strong")
    groups = defaultdict(list)
    for module, i in number.items():
        groups[labels[i]].append(module)
    return [group for group in groups.values() if len(group) > 1]


def test_there_are_no_import_cycles() -> None:
    found = cycles_of(graph_of(modules(), REPO))
    assert not found, "\n".join(map(" – ".join, found))


def test_cycle_search_includes_lazy_imports_but_not_type_checking_imports(tmp_path: Path) -> None:
    """The check must be able to fail."""
    texts = {
        "__init__": "",
        "a": "def f():\n    from pkg import b\n",
        "b": "from pkg.c import g\n",
        "c": "import pkg.a\n",
        "d": "if TYPE_CHECKING:\n    from pkg import e\n",
        "e": "from pkg import d\n",
    }
    (tmp_path / "pkg").mkdir()
    for module, text in texts.items():
        (tmp_path / "pkg" / f"{module}.py").write_text(text)
    graph = graph_of((tmp_path / "pkg").glob("*.py"), tmp_path)
    assert graph["pkg.e"] == {"pkg.d"}
    assert cycles_of(graph) == [["pkg.a", "pkg.b", "pkg.c"]]


@pytest.mark.integration
@pytest.mark.parametrize("library", HEAVY)
def test_heavy_libraries_are_imported_by_listed_files_only(library: str) -> None:
    allowed = HEAVY[library]
    importers = {name(p) for p in modules() if library in _roots(imported(p))}
    others = {i for i in importers if not i.startswith(allowed)}
    assert not others, f"{library} is imported by {sorted(others)}; allowed: {allowed}"
    unused = [place for place in allowed if not any(i.startswith(place) for i in importers)]
    assert not unused, f"{library} is not imported by {unused}: remove them from HEAVY"


def test_lazy_imports_are_found(tmp_path: Path) -> None:
    """The check must be able to fail: a lazy import, a require() and an import_module() are all found."""
    file = tmp_path / "x.py"
    file.write_text(
        "def f(name):\n    from lmms_eval_ad2.harness import run\n    require('swift')\n"
        "    importlib.import_module(f'closedloop_plugin.cli.{name}')\n"
    )
    assert {"lmms_eval_ad2.harness", "swift", "closedloop_plugin.cli"} <= imported(file)


def test_base_modules_are_distinguished_from_their_packages() -> None:
    names = {"closedloop_plugin.worlds.base.World", "closedloop_plugin.driver.agents.expert"}
    assert parts_of(names, CLOSED) == {"worlds.base", "driver.agents"}
    names = {"lmms_eval_ad2.report", "lmms_eval_ad2.core.plugins", "lmms_eval_ad2.__version__"}
    assert parts_of(names, OPEN) == {"report", "core"}


# Copied into other environments as one file, therefore longer.
ONE_FILE = {"closedloop_plugin/carla/leaderboard_agent/advlm_server.py": 480}


def test_files_have_at_most_400_lines() -> None:
    """At most 400 lines, usually about 120: split longer files."""
    lengths = {name(p): len(text_of(p).splitlines()) for p in modules()}
    long = [f"{path}: {length} lines" for path, length in lengths.items() if length > ONE_FILE.get(path, 400)]
    assert not long, "\n".join(long)
