"""Translation of Scenic programs into Python code, remembered by text: a file is parsed once, not for every scene.

Every compilation reads the program and six to eight modules that it imports (the world model, Scenic's driving
domain, our library), and parsing them takes longer than driving. Scenic runs their code again for every scene, since
the map and the params differ; what it runs depends on the text alone. On disk a translation is the syntax tree of its
Python code as JSON, since reading that takes 3 % of the time of parsing.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
from dataclasses import dataclass
from functools import wraps
from types import CodeType
from typing import Any, BinaryIO

from closedloop_plugin.worlds.bridge.disk_cache import PROGRAMS, disk_cache, entry_name
from closedloop_plugin.worlds.bridge.standard_scenario import below_program, running

MOST = 300  # translations to remember


@dataclass(frozen=True)
class TranslatedProgram:
    """Python code of a program, the expressions of its requirements, and Scenic's hash of its syntax tree."""

    code: CodeType
    requirements: tuple[ast.AST, ...]
    digest: bytes


_KNOWN: dict[tuple[str, str], TranslatedProgram] = {}


def remember_translations() -> None:
    """Let Scenic's compiler use `translated`."""
    import scenic.syntax.translator as translator

    translator.compileStream = wraps(translator.compileStream)(_compile_stream)


def translated(source: str, filename: str) -> TranslatedProgram:
    """The translation of a program's text. `filename`: for error messages. Raises Scenic's errors of syntax."""
    key = source, filename
    if key not in _KNOWN:
        if len(_KNOWN) >= MOST:
            _KNOWN.clear()
        _KNOWN[key] = _translate(source, filename)
    return _KNOWN[key]


def _translate(source: str, filename: str) -> TranslatedProgram:
    """From the disk if it is there, else by Scenic."""
    import scenic.syntax.translator as translator

    store, name = disk_cache(PROGRAMS), entry_name(source.encode(), ".json")
    if store and (content := store.read(name)):
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):  # damaged: translated again
            tree, requirements, digest = _decoded(json.loads(content))
            return _compiled(tree, requirements, digest, filename)
    parsed = translator.parse_string(source, "exec", filename=filename)
    tree, requirements = translator.compileScenicAST(parsed, filename=filename)
    _place_ego(tree)
    digest = hashlib.blake2b(ast.dump(tree).encode(), digest_size=4).hexdigest()
    if store:
        with contextlib.suppress(TypeError):  # a constant that JSON lacks, such as b"" or 1j
            store.write(name, json.dumps(_encoded([tree, requirements, digest]), separators=(",", ":")).encode())
    return _compiled(tree, requirements, digest, filename)


def _place_ego(tree: ast.AST) -> None:
    """Give `ego = new ...` its line, which Scenic's compiler drops."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call)):
            continue
        if getattr(call.func, "id", "") != "ego" or not call.args:
            continue
        lost = node.lineno
        inner = [part for part in ast.walk(call.args[0]) if getattr(part, "lineno", 0) > lost]
        if inner:
            first = min(inner, key=lambda part: getattr(part, "lineno", 0))
            for part in [p for p in ast.walk(node) if getattr(p, "lineno", None) == lost]:
                ast.copy_location(part, first)


def _compiled(tree: ast.AST, requirements: list[ast.AST], digest: str, filename: str) -> TranslatedProgram:
    import scenic.syntax.translator as translator

    code = translator.compileTranslatedTree(tree, filename)
    return TranslatedProgram(code, tuple(requirements), bytes.fromhex(digest))


_NODES = {name: node for name, node in vars(ast).items() if isinstance(node, type) and issubclass(node, ast.AST)}


def _encoded(value: Any) -> Any:
    """A syntax tree as JSON: a node as {"": its class, field: value}, a tuple as {"tuple": [...]}. TypeError: other."""
    if isinstance(value, ast.AST):
        return {"": type(value).__name__, **{name: _encoded(field) for name, field in vars(value).items()}}
    if isinstance(value, list):
        return [_encoded(one) for one in value]
    if isinstance(value, tuple):
        return {"tuple": [_encoded(one) for one in value]}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} in a syntax tree")


def _decoded(value: Any) -> Any:
    """The tree of `_encoded`. Builds nodes of Python's syntax and nothing else. KeyError, TypeError: damaged."""
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_decoded(one) for one in value["tuple"])
    kind = _NODES[value.pop("")]
    return kind(**{name: _decoded(field) for name, field in value.items()})


def _compile_stream(stream: BinaryIO, namespace: dict[str, Any], options: Any, filename: str) -> tuple[CodeType, None]:
    """As Scenic's compileStream: run a program in a namespace. The Python source, which it only prints, is None."""
    import scenic.syntax.translator as translator
    import scenic.syntax.veneer as veneer

    below, standard = below_program(), running(namespace)
    veneer.activate(options, namespace)
    try:
        namespace.update((name, getattr(veneer, name)) for name in veneer.__all__)  # `from ...veneer import *`
        namespace[translator.namespaceReference] = namespace
        program = translated(stream.read().decode("utf-8-sig"), filename)
        for one in below:
            one.add()
        translator.executeCodeIn(program.code, namespace)
        for one in below:
            one.place_ego(veneer.currentScenario)
        if standard:
            standard.without_ego(veneer.currentScenario)
        translator.storeScenarioStateIn(namespace, program.requirements, program.digest, options)
    finally:
        veneer.deactivate()
    return program.code, None
