"""Signatures of the real package, from the docstrings that Boost.Python generates.

They decide whether a call is accepted; the wheel's stubs name arguments that the binary does not have.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import carla

_LINE = re.compile(r"^\w+\((.*)\) -> .* :$", re.M)
_ARGUMENT = re.compile(r"\((\w[\w.]*)\)(\w+)(=)?")
_NUMBERS = (int, float)
_IMPLICIT = {"Location": "Vector3D", "Vector3D": "Location"}  # converted into each other wherever one is expected


@dataclass(frozen=True)
class Argument:
    """`name` None: it has no name in the real function, so it cannot be given by keyword."""

    type: str
    name: str | None
    optional: bool


def signatures(real: object) -> list[list[Argument]]:
    """The overloads of a real function, without self."""
    found = []
    for line in _LINE.findall(real.__doc__ or ""):
        arguments = _ARGUMENT.findall(re.sub(r"='[^']*'|=<[^>]*>", "=x", line))
        named = [(kind.rsplit(".", 1)[-1], name, bool(default)) for kind, name, default in arguments]
        found.append([Argument(k, None if re.fullmatch(r"arg\d+", n) else n, d) for k, n, d in named[1:]])
    return found


def converts(value: object, kind: str) -> bool:
    """Boost's rules: an int is accepted as a float but not vice versa; for an enum only its members, no plain int."""
    if kind in ("float", "int", "str", "list", "dict"):
        known: Any = {"float": _NUMBERS, "int": int, "str": str, "list": list, "dict": dict}[kind]
        return isinstance(value, known)
    if kind == "bool":
        return value is None or isinstance(value, int)
    if kind == "GBufferTextureID":  # Boost prints this name for unsigned numbers
        return isinstance(value, int)
    if kind == "object":
        return True
    known = getattr(carla, kind, None) or getattr(carla.command, kind)
    if kind in _IMPLICIT and isinstance(value, getattr(carla, _IMPLICIT[kind])):
        return True
    return (value is None and kind == "Actor") or isinstance(value, known)


def misfits(fake: type, real: type) -> list[str]:
    """What `fake` offers that `real` lacks or would refuse. Empty: every call that works here works there."""
    found = []
    for name, member in vars(fake).items():
        real_member = getattr(real, name, None)
        if name.startswith("_") and name not in ("__init__", "__len__", "__iter__", "__getitem__"):
            continue
        if real_member is None:
            found.append(f"{name}: the real class has none")
        elif isinstance(member, property) != isinstance(real_member, property):
            found.append(f"{name}: property here, method there, or the other way round")
        elif inspect.isfunction(member) and signatures(real_member):
            found += [f"{name}: {why}" for why in _refused(member, signatures(real_member))]
    return found


def _refused(method: Callable[..., Any], overloads: list[list[Argument]]) -> list[str]:
    """For every number of arguments that the fake takes, an overload must take them under the same names."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return ["*args hides what it takes"]
    least = sum(p.default is p.empty for p in parameters)
    return [
        f"({', '.join(map(str, parameters[:count]))}) is refused by {overloads}"
        for count in range(least, len(parameters) + 1)
        if not any(_takes(overload, parameters[:count]) for overload in overloads)
    ]


def _takes(overload: list[Argument], given: list[inspect.Parameter]) -> bool:
    least = sum(not argument.optional for argument in overload)
    return least <= len(given) <= len(overload) and all(
        p.kind is p.POSITIONAL_ONLY or p.name == argument.name for p, argument in zip(given, overload, strict=False)
    )


def guard(fake: type, real: type) -> None:
    """Let every method of `fake` raise TypeError for arguments that the real converters refuse."""
    for name, method in list(vars(fake).items()):
        if inspect.isfunction(method) and (not name.startswith("_") or name == "__init__"):
            overloads = signatures(getattr(real, name, None))
            if any(overloads):
                setattr(fake, name, _guarded(method, overloads, f"{fake.__name__}.{name}"))


def _guarded(method: Callable[..., Any], overloads: list[list[Argument]], name: str) -> Callable[..., Any]:
    parameters = list(inspect.signature(method).parameters)[1:]

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(parameters, args, strict=False)) | kwargs
        if not any(_fits(given, parameters, overload) for overload in overloads):
            kinds = {key: type(value).__name__ for key, value in given.items()}
            raise TypeError(f"Python argument types in {name}({kinds}) did not match C++ signature: {overloads}")
        return method(self, *args, **kwargs)

    return checked


def _fits(given: dict[str, Any], parameters: list[str], overload: list[Argument]) -> bool:
    places = {name: at for at, name in enumerate(parameters)}
    return all(
        places[key] < len(overload) and converts(value, overload[places[key]].type)
        for key, value in given.items()
        if key in places
    )
