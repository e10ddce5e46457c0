"""Source files of model wrappers: where they are, and what their constructors take. Nothing of them is imported."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

# `assert kwargs == {}`, `assert not kwargs`, `assert len(kwargs) == 0`, and the forms with other names.
_REFUSES = r"assert (?:{0} == \{{\}}|not {0}\b|len\({0}\) == 0)"


@dataclass(frozen=True, slots=True)
class WrapperConstructor:
    """defaults: parameter -> its default; None if that is no text. takes_any: other arguments are accepted.

    ignores_others: accepted ones are without effect, since nothing uses them.
    asks_for_cuda: the file asks whether there is a GPU. moves_to_cuda: it moves inputs to "cuda" by that name.
    """

    defaults: dict[str, str | None]
    takes_any: bool
    asks_for_cuda: bool
    moves_to_cuda: bool
    ignores_others: bool = False
    whole: frozenset[str] = frozenset()  # parameters annotated as int


def source_of(module: str) -> Path | None:
    """The file of a module. Files of lmms-eval are found by their path, so that no parent package is imported."""
    root, _, rest = module.partition(".")
    try:
        spec = importlib.util.find_spec(root if root == "lmms_eval" else module)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    if root != "lmms_eval":
        return Path(spec.origin)
    path = Path(spec.origin).parent.joinpath(*filter(None, rest.split(".")))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@functools.cache
def torch_has_cuda() -> bool:
    """Whether the installed torch was built for GPUs (CUDA or ROCm), from its version file."""
    spec = importlib.util.find_spec("torch")
    file = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    if file is None or not file.is_file():
        return True
    return bool(re.search(r"^(?:cuda|hip)\b[^=\n]*= *['\"]", file.read_text("utf-8"), re.M))


@functools.cache
def constructor_of(class_path: str) -> WrapperConstructor | None:
    """The constructor of a class, inherited or its own; None if it cannot be told from the source."""
    module, _, name = class_path.rpartition(".")
    file = source_of(module)
    if file is None:
        return None
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    found = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)
    if found is None:
        return None
    for item in found.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            own = _read(item, text)
            inherited = _inherited(found, tree, module) if _passes_on(item) else None
            return own if inherited is None else replace(inherited, defaults=inherited.defaults | own.defaults)
    inherited = _inherited(found, tree, module)
    return inherited and replace(inherited, moves_to_cuda=inherited.moves_to_cuda or _moves(text))


def _inherited(found: ast.ClassDef, tree: ast.Module, module: str) -> WrapperConstructor | None:
    """The constructor of the first base class that has one."""
    imported = dict(_imported(tree))
    paths = (imported.get(ast.unparse(base), f"{module}.{ast.unparse(base)}") for base in found.bases)
    return next((made for path in paths if (made := constructor_of(path)) is not None), None)


def _passes_on(function: ast.FunctionDef) -> bool:
    """Whether a constructor passes all other arguments to that of its base, and uses them for nothing else."""
    rest = function.args.kwarg
    if rest is None or _uses(function, rest.arg) != 1:
        return False
    return f"super().__init__(*args, **{rest.arg})" in ast.unparse(function)


def _uses(function: ast.FunctionDef, name: str) -> int:
    """How often a name occurs in the body, apart from warnings of the form `if name: log.warning(...)`."""
    kept = [part for part in function.body if not _only_warns(part, name)]
    return sum(isinstance(node, ast.Name) and node.id == name for part in kept for node in ast.walk(part))


def _only_warns(part: ast.stmt, name: str) -> bool:
    if not (isinstance(part, ast.If) and ast.unparse(part.test) == name and not part.orelse):
        return False
    return all(re.match(r"\w+\.warn(?:ing)?\(", ast.unparse(line)) for line in part.body)


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name in the file, dotted path) of what a file imports from modules."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _read(function: ast.FunctionDef, text: str) -> WrapperConstructor:
    """`text`: of the file."""
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args)][1:]
    texts = dict(zip(reversed(names), map(_text, reversed(given.defaults)), strict=False))
    texts |= {a.arg: _text(d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)}
    defaults = {name: texts.get(name) for name in [*names, *(a.arg for a in given.kwonlyargs)]}
    takes_any = given.kwarg is not None
    if given.kwarg is not None:
        rest = given.kwarg.arg
        # Ours call it `unknown` where they refuse it by themselves.
        if rest == "unknown" or any(re.match(_REFUSES.format(rest), ast.unparse(s)) for s in function.body):
            takes_any = False
            taken = re.findall(rf"{rest}\.pop\(['\"](\w+)", ast.unparse(function))
            defaults |= dict.fromkeys(taken)
    ignores = takes_any and given.kwarg is not None and not _uses(function, given.kwarg.arg)
    typed = {a.arg: ast.unparse(a.annotation) for a in (*given.args, *given.kwonlyargs) if a.annotation is not None}
    whole = frozenset(name for name, annotation in typed.items() if annotation in ("int", "int | None"))
    return WrapperConstructor(defaults, takes_any, "cuda.is_available" in text, _moves(text), ignores, whole)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _moves(text: str) -> bool:
    return bool(re.search(r"\.to\(['\"]cuda", text))
