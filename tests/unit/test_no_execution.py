"""No text is executed: where our code can run a program, a shell or a module by name is a closed list.

Scenario programs are the only code that is generated; test_program_set.py enumerates them.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest
from support.running import REPO

BUILTINS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN = {
    "os.system", "os.popen", "pickle.load", "pickle.loads", "marshal.loads", "torch.load",
    "numpy.load", "np.load", "yaml.unsafe_load", "yaml.full_load", "runpy.run_path", "runpy.run_module",
}  # fmt: skip
PROCESS = {"subprocess.Popen", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output",
           "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell",
           "os.execv", "os.execve", "os.execvp", "os.execvpe", "os.posix_spawn", "os.spawnv"}  # fmt: skip
# Files that start programs; none takes a word of the command from a reply, a release or a result file.
STARTS_PROGRAMS = {
    "closedloop_plugin/carla/maps/from_server.py",  # this interpreter
    "closedloop_plugin/carla/servers/lifecycle.py",
    "closedloop_plugin/carla/servers/supervisor.py",
    "closedloop_plugin/cli/demo.py",  # ad2
    "closedloop_plugin/runner/cluster/connection.py",  # ray health-check, with the user's address
    "closedloop_plugin/robots/onboard/relay_link.py",
    "closedloop_plugin/robots/transport/ros.py",
    "closedloop_plugin/robots/transport/ssh.py",  # the user's vehicle file
    "closedloop_plugin/runner/world_processes.py",  # world processes
    "lmms_eval_ad2/cli/demo.py",
    "lmms_eval_ad2/core/import_probe.py",  # this interpreter
    "lmms_eval_ad2/scoring/metrics/caption/java.py",  # texts are passed on its standard input
    "lmms_eval_ad2/storage/identity.py",  # git
}
# Files that import a module whose name is not a constant: from the user's arguments, or from a table of ours.
IMPORTS_BY_NAME = {
    "closedloop_plugin/driver/agents/custom.py",  # --agent MODULE:CALLABLE
    "closedloop_plugin/driver/agents/make.py",
    "closedloop_plugin/robots/onboard/io.py",  # the user's vehicle file
    "closedloop_plugin/robots/onboard/ros2.py",  # the package of a message, from the user's vehicle file
    "closedloop_plugin/runner/recipe.py",  # --world MODULE:CLASS
    "lmms_eval_ad2/core/errors.py",
    "lmms_eval_ad2/harness/plugin.py",
    "lmms_eval_ad2/core/import_probe.py",  # what the installed lmms-eval imports
}


# Parsing all files takes a second; the others have no call of these names.
_CANDIDATE = re.compile(
    r"\b(?:"
    + "|".join(sorted({name.rpartition(".")[2] for name in {*BUILTINS, *FORBIDDEN, *PROCESS}} | {"import_module"}))
    + r")\(|shell ?="
)


def calls(source: str) -> Iterator[tuple[str, ast.Call]]:
    """(dotted name, call) of every call of a plain or dotted name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield ast.unparse(node.func), node


def findings(source: str) -> set[str]:
    """What a file does: "executes", "unsafe", "shell", "process", "import"."""
    found: set[str] = set()
    if not _CANDIDATE.search(source):
        return found
    for name, call in calls(source):
        if name in BUILTINS:
            found.add("executes")
        if name in FORBIDDEN:
            found.add("unsafe")
        if name == "yaml.load" and "Loader" not in ast.unparse(call):
            found.add("unsafe")
        if any(k.arg == "shell" and getattr(k.value, "value", True) is not False for k in call.keywords):
            found.add("shell")
        if name in PROCESS:
            found.add("process")
        if name.endswith("import_module") and not (call.args and isinstance(call.args[0], ast.Constant)):
            found.add("import")
    return found


@pytest.fixture(scope="module")
def by_finding() -> dict[str, set[str]]:
    """Finding -> files of the two packages."""
    found = defaultdict(set)
    for package in ("lmms_eval_ad2", "closedloop_plugin"):
        for path in (REPO / package).rglob("*.py"):
            for kind in findings(path.read_text("utf-8")):
                found[kind].add(str(path.relative_to(REPO)))
    return found


def test_no_text_is_executed(by_finding: dict[str, set[str]]) -> None:
    assert by_finding["process"], "the search has found the packages"
    assert not by_finding["executes"] | by_finding["unsafe"] | by_finding["shell"]


def test_the_files_that_start_programs_are_known(by_finding: dict[str, set[str]]) -> None:
    assert by_finding["process"] == STARTS_PROGRAMS


def test_the_files_that_import_modules_by_name_are_known(by_finding: dict[str, set[str]]) -> None:
    assert by_finding["import"] == IMPORTS_BY_NAME


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("eval(reply)", "executes"), ("x = compile(reply, '', 'exec')", "executes"), ("os.system(reply)", "unsafe"),
        ("pickle.loads(reply)", "unsafe"), ("yaml.load(reply)", "unsafe"), ("run(reply, shell=True)", "shell"),
        ("subprocess.run([reply])", "process"), ("importlib.import_module(reply)", "import"),
    ],
)  # fmt: skip
def test_the_search_finds(source: str, kind: str) -> None:
    assert findings(source) == {kind}
    assert not findings("import re\nre.compile(reply)\nmodel.eval()\nimport_module('json')\nrun(reply, shell=False)")
