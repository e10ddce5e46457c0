"""Changes of the scenic package in this process: stepping from outside, places of errors, and a faster compilation.

None changes what a program means: the same program, map and seed give the same scene and the same simulation.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import hashlib
import json
import pickle
import struct
import sys
from functools import cache, wraps
from importlib.metadata import version
from pathlib import Path
from types import CodeType
from typing import Any, BinaryIO, NamedTuple

from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.maps.opendrive_file import SCENIC, map_bytes, opendrive_root
from closedloop_plugin.worlds.bridge.faults.checks import check_arguments, check_bounds, checked_after
from closedloop_plugin.worlds.bridge.faults.place import check_actions, remember_rejections
from closedloop_plugin.worlds.bridge.standard_scenario import below_program, running
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.private_cache import PrivateCache

# Cache of Scenic's parsing on disk: translated programs and road networks, each by the hash of its source.
#
#     programs/SHA256.json    a translated program, 60 kB
#     networks/SHA256.snet    a parsed map as Scenic's pickle, 1 MB; empty: it was used once
#
# The hash covers the source's bytes and the versions of all that parses it. Both end as running code, so they are read
# from private folders only; see lmms_eval_ad2/storage/private_cache.py and docs/security.md.

FORMAT = 2  # of the entries
PROGRAMS, NETWORKS = "programs", "networks"
MOST = {PROGRAMS: 300, NETWORKS: 256}

_CACHES: dict[str, PrivateCache] = {}


def use_disk_cache(folder: Path) -> None:
    """Cache below this folder from now on."""
    _CACHES.update((kind, PrivateCache(Path(folder) / kind, most)) for kind, most in MOST.items())


def disk_cache(kind: str) -> PrivateCache | None:
    """The cache of PROGRAMS or NETWORKS; None before `use_disk_cache`."""
    return _CACHES.get(kind)


def entry_name(source: bytes, suffix: str) -> str:
    """Name of the entry of a source."""
    return hashlib.sha256(_versions() + source).hexdigest() + suffix


@cache
def _versions() -> bytes:
    packages = [f"{name} {version(name)}" for name in ("scenic", "shapely", "numpy", "scipy")]
    return "\n".join([str(FORMAT), sys.version, *packages, ""]).encode()


# Translation of Scenic programs into Python code, remembered by text: a file is parsed once, not for every scene.
#
# Every compilation reads the program and six to eight modules that it imports (the world model, Scenic's driving
# domain, our library), and parsing them takes longer than driving. Scenic runs their code again for every scene, since
# the map and the params differ; what it runs depends on the text alone. On disk a translation is the syntax tree of its
# Python code as JSON, since reading that takes 3 % of the time of parsing.

MOST_TRANSLATIONS = 300  # translations to remember


class TranslatedProgram(NamedTuple):
    """Python code of a program, the expressions of its requirements, and Scenic's hash of its syntax tree."""

    code: CodeType
    requirements: tuple[ast.AST, ...]
    digest: bytes


_KNOWN: dict[tuple[str, str], TranslatedProgram] = {}


def translated(source: str, filename: str) -> TranslatedProgram:
    """The translation of a program's text. `filename`: for error messages. Raises Scenic's errors of syntax."""
    key = source, filename
    if key not in _KNOWN:
        if len(_KNOWN) >= MOST_TRANSLATIONS:
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


# Road networks of maps: parsed by Scenic, and cached on disk from the second use on, since many maps are used once.

_OPTIONS = bytes(8)  # in the place of Scenic's hash of map options: entries are for its defaults


def cache_networks() -> None:
    """Let Scenic read maps through our cache, instead of through its own beside the map, which others may write."""
    from scenic.domains.driving.roads import Network

    parse: Any = Network.fromFile.__func__

    def from_file(cls: Any, path: Any, useCache: bool = True, writeCache: bool = True, **options: Any) -> Any:
        if useCache or writeCache or options:
            return parse(cls, path, useCache=useCache, writeCache=writeCache, **options)
        if not isinstance(path, str | Path):
            raise MapError(repr(path), SCENIC, "expected the path of an OpenDRIVE file")
        return _network(cls, Path(path), parse)

    Network.fromFile = classmethod(from_file)


def _network(cls: Any, path: Path, parse: Any) -> Any:
    """The network of an OpenDRIVE file, from the cache if it is there."""
    if path.suffix != ".xodr":
        raise MapError(path, SCENIC, "its name does not end in .xodr")
    try:
        store, data = disk_cache(NETWORKS), map_bytes(path)
    except Ad2Error as exc:
        raise _refused(path, exc) from exc
    digest, name = hashlib.blake2b(data).digest(), entry_name(data, ".snet")
    entry = store.open(name) if store else None
    if entry is not None:
        try:
            return cls.fromPickle(entry, originalDigest=digest, optionsDigest=_OPTIONS)
        except (pickle.UnpicklingError, cls.DigestMismatchError):
            pass  # empty, or damaged
    try:
        opendrive_root(data, path)  # Scenic has no bounds
        network = parse(cls, path, useCache=False, writeCache=False)
    except (MapError, MemoryError):
        raise
    except Ad2Error as exc:
        raise _refused(path, exc) from exc
    except Exception as exc:  # Scenic raises what its code happens to meet
        raise MapError(path, SCENIC, f"{type(exc).__name__}: {exc}") from exc
    if not network.lanes:
        raise MapError(path, SCENIC, "no driving lane in it")
    if store:
        # In Scenic's format, compressed in a tenth of the time that its own function takes.
        header = struct.pack("<I", network._currentFormatVersion()) + digest + _OPTIONS
        store.write(name, b"" if entry is None else header + gzip.compress(pickle.dumps(network), compresslevel=1))
    return network


def _refused(path: Path, exc: Ad2Error) -> MapError:
    return MapError(path, SCENIC, str(exc).removeprefix(f"{path}: "))


def apply_patches() -> None:
    """Patch the scenic package once; later calls have no effect."""
    import scenic.core.dynamics as dynamics
    import scenic.syntax.translator as translator

    if dynamics.stuckBehaviorWarningTimeout == 0:
        return
    # Scenic's watchdog, a SIGALRM around each behaviour step, would count model calls; the pool has its own.
    dynamics.stuckBehaviorWarningTimeout = 0
    _record_source_lines()
    remember_rejections()
    _check_actions()
    _check_values()
    _share_property_defaults()
    translator.compileStream = wraps(translator.compileStream)(_compile_stream)
    cache_networks()


def _check_actions() -> None:
    """Report an action that its agent cannot take with the line of the behaviour."""
    from scenic.core.simulators import Simulation

    own: Any = Simulation.actionsAreCompatible

    def checked(self: Any, agent: Any, actions: Any) -> bool:
        check_actions(agent, actions)
        return own(self, agent, actions)

    Simulation.actionsAreCompatible = checked


def _check_values() -> None:
    """Report bounds and arguments of behaviours that cannot be meant where the program gives them."""
    from scenic.core.distributions import DiscreteRange, Normal, Range
    from scenic.core.dynamics.behaviors import Behavior

    kinds: list[Any] = [Range, DiscreteRange, Normal]
    for kind in kinds:
        kind.__init__ = checked_after(kind.__init__, check_bounds)
    behavior: Any = Behavior
    behavior.__init__ = checked_after(behavior.__init__, check_arguments)


def _record_source_lines() -> None:
    """Store with each distribution and object the line that makes it, for place_of: errors in them occur later."""
    import scenic.syntax.veneer as veneer
    from scenic.core.distributions import Distribution

    own: Any = Distribution.__init__
    register: Any = veneer.registerObject

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        own(self, *args, **kwargs)
        self.__dict__["_source_line"] = _calling_line()  # Scenic turns attribute access into distributions

    def registered(obj: Any) -> None:
        obj.__dict__["_source_line"] = _calling_line()
        register(obj)

    Distribution.__init__ = wrapped
    veneer.registerObject = registered


def _calling_line() -> tuple[str, int] | None:
    """File and line of the outermost step of a program."""
    frame, line = sys._getframe(2), None
    while frame is not None:  # the outermost .scenic frame is the user's
        if frame.f_code.co_filename.endswith(".scenic"):
            line = frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return line


def _share_property_defaults() -> None:
    """Resolve the default of a property once, not again for every subclass.

    Scenic creates about 45 classes with 60 properties each per compilation, and builds for each property a specifier
    from four nested lazy values, although nearly all are inherited without a change.
    """
    from scenic.core.lazy_eval import DelayedArgument
    from scenic.core.specifiers import PropertyDefault, Specifier

    resolve: Any = PropertyDefault.resolveFor

    def wrapped(self: Any, prop: str, overridden: Any) -> Any:
        if self.isAdditive or any(other.isFinal for other in overridden):  # depends on the defaults of superclasses
            return resolve(self, prop, overridden)
        known = self.__dict__.setdefault("_specifiers", {})
        if prop not in known:
            value = DelayedArgument(self.requiredProperties, self.value, _internal=True)
            both = DelayedArgument(self.requiredProperties, lambda at: {prop: value.evaluateIn(at)}, _internal=True)
            known[prop] = Specifier("PropertyDefault", {prop: -1}, both)
        return known[prop]

    PropertyDefault.resolveFor = wrapped
