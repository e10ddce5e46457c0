"""YAML files that a user names, often written by others, with bounds on their size, depth and aliases.

`yaml.safe_load` runs no code, but of a doubled key it keeps the last value, a few nested aliases stand for billions of
values, and its errors for dates, numbers and deep nesting are of many classes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 8 << 20
DEEPEST = 64  # levels of lists and mappings
MOST_VALUES = 200_000  # with what aliases stand for


class BoundedLoader(yaml.SafeLoader):
    """Refuses doubled keys: it would be unclear which of two values applies."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if name in seen and name is not None:
                raise yaml.MarkedYAMLError(problem=f"duplicate key {key.value!r}", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


class PlainTexts(BoundedLoader):
    """Reads true, false and null; every other scalar is the text as it was typed: off, 007, 12:30, 1e-3."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 -- as its base class declares it


PlainTexts.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
PlainTexts.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:null|~|)$"), ["n", "~", ""])


def parse(text: str, kind: type[BoundedLoader] = BoundedLoader) -> Any:
    """The value of a YAML text; raises yaml.YAMLError for every fault of it."""
    loader = kind(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _expanded(node, {}, [])
        return loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError(f"nested more than {DEEPEST} levels deep") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as exc:  # a date or number that is none
        raise yaml.YAMLError(f"a value that is none of its kind: {' '.join(str(exc).split())[:200]}") from exc
    finally:
        loader.dispose()


def read_text(path: Path) -> str:
    """The content of a file; raises OSError if it cannot be read, is too large, or is not UTF-8."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(f"more than {MOST_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise OSError(f"not UTF-8 text: {exc.reason} at byte {exc.start:,}") from exc


def _expanded(node: yaml.Node, sizes: dict[yaml.Node, int], above: list[yaml.Node]) -> int:
    """The number of values of a node, where an alias counts as what it stands for."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if node not in sizes:
        if node in above:
            raise yaml.MarkedYAMLError(problem="an alias of what it is in", problem_mark=node.start_mark)
        if len(above) >= DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"nested more than {DEEPEST} levels deep", problem_mark=node.start_mark)
        above.append(node)
        pairs = isinstance(node, yaml.MappingNode)
        parts = (part for pair in node.value for part in pair) if pairs else node.value
        sizes[node] = 1 + sum(_expanded(part, sizes, above) for part in parts)
        above.pop()
    if sizes[node] > MOST_VALUES:
        problem = f"more than {MOST_VALUES:,} values, with those that its aliases stand for"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return sizes[node]
