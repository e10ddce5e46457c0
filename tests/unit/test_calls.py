"""Calls name their arguments: at most 6 are positional in a call of a class or function of the project."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from support.running import REPO

PACKAGES = (REPO / "lmms_eval_ad2", REPO / "closedloop_plugin")
LIMIT = 6
EXCEPTIONS = {
    "closedloop_plugin.worlds.bodies.vehicle.VehicleSpec",  # rows of a table with a column per field
}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class ModuleNames:
    """Names of one module: definitions (methods as "Class.method"), and imported names with their dotted names."""

    tree: ast.Module
    definitions: dict[str, Definition] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)


def names_of(tree: ast.Module) -> ModuleNames:
    """Imports within functions count too."""
    names = ModuleNames(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.imports |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.ClassDef):
            names.definitions[node.name] = node
            methods = (n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
            names.definitions |= {f"{node.name}.{method.name}": method for method in methods}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.definitions.setdefault(node.name, node)
    return names


def read(files: Iterable[Path], top: Path) -> dict[str, ModuleNames]:
    """Dotted name of each module -> its names."""
    dotted = {file: ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__") for file in files}
    return {name: names_of(ast.parse(file.read_text("utf-8"))) for file, name in dotted.items()}


@cache
def product() -> Mapping[str, ModuleNames]:
    return read((file for package in PACKAGES for file in sorted(package.rglob("*.py"))), REPO)


def defined(dotted: str, modules: Mapping[str, ModuleNames]) -> tuple[str, Definition] | None:
    """Full name and definition of "module.name" or "module.Class.method", also if the module only imports it."""
    parts = dotted.split(".")
    for end in (len(parts) - 1, len(parts) - 2):
        module, name = ".".join(parts[:end]), ".".join(parts[end:])
        if module not in modules:
            continue
        if name in modules[module].definitions:
            return f"{module}.{name}", modules[module].definitions[name]
        source = modules[module].imports.get(parts[end])
        return defined(".".join([source, *parts[end + 1 :]]), modules) if source else None
    return None


def target(
    call: ast.Call, inside: str, module: str, modules: Mapping[str, ModuleNames]
) -> tuple[str, Definition] | None:
    """The definition that is called, if it is the project's. `inside`: name of the enclosing class, or ""."""
    func, names = call.func, modules[module]
    if isinstance(func, ast.Name):
        own = inside if func.id == "cls" else func.id
        return defined(names.imports.get(own, f"{module}.{own}"), modules)
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
        return None
    base = inside if func.value.id in ("self", "cls") else func.value.id
    return defined(f"{names.imports.get(base, f'{module}.{base}')}.{func.attr}", modules)


def calls(node: ast.AST, inside: str = "") -> Iterable[tuple[ast.Call, str]]:
    """Every call with the name of its enclosing class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, inside
        yield from calls(child, child.name if isinstance(child, ast.ClassDef) else inside)


def long_calls(modules: Mapping[str, ModuleNames]) -> dict[str, int]:
    """ "caller:line name" -> number of positional arguments above the limit. A starred argument counts once."""
    found = {}
    for module, names in modules.items():
        for call, inside in calls(names.tree):
            called = target(call, inside, module, modules) if len(call.args) > LIMIT else None
            if called is None or called[0] in EXCEPTIONS:
                continue
            if isinstance(called[1], ast.ClassDef) or called[1].args.vararg is None:  # *args: a list of equal items
                found[f"{module}:{call.lineno} {called[0]}"] = len(call.args)
    return found


def test_calls_name_their_arguments() -> None:
    found = long_calls(product())
    assert not found, f"more than {LIMIT} positional arguments: name them\n" + "\n".join(found)


def test_exceptions_exist() -> None:
    assert all(defined(name, product()) for name in EXCEPTIONS)


def test_long_calls_are_found(tmp_path: Path) -> None:
    """The check must be able to fail: classes, functions, methods, re-exported and lazily imported names."""
    parameters = ", ".join("abcdefg")
    texts = {
        "a": f"class Big:\n    def __init__(self, {parameters}): ...\n"
        f"    def add(self, {parameters}): ...\n    def use(self):\n        self.add({parameters})\n"
        f"    @classmethod\n    def make(cls): return cls({parameters})\n"
        f"def many(*items): ...\nmany({parameters})\nBig(*{{}}, b, c, d, e, f, g=1)\n",
        "b": "from pkg.a import Big, many\n",
        "c": f"from pkg import b\nfrom pkg.b import Big as Large\nLarge({parameters})\nb.Big({parameters})\n"
        f"def f():\n    from pkg.a import Big\n    Big({parameters})\nprint({parameters})\nother.add({parameters})\n",
    }
    (tmp_path / "pkg").mkdir()
    for module, text in texts.items():
        (tmp_path / "pkg" / f"{module}.py").write_text(text)
    found = long_calls(read(sorted((tmp_path / "pkg").glob("*.py")), tmp_path))
    assert set(found) == {
        "pkg.a:5 pkg.a.Big.add", "pkg.a:7 pkg.a.Big",
        "pkg.c:3 pkg.a.Big", "pkg.c:4 pkg.a.Big", "pkg.c:7 pkg.a.Big",
    }  # fmt: skip
    assert set(found.values()) == {7}
