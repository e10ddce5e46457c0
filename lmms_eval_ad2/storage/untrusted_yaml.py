"""YAML that a user wrote (prompts, rubrics, tables, robots): every fault of the text is a yaml.YAMLError."""

from __future__ import annotations

from typing import Any

import yaml


def read_yaml(text: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """The value of a YAML text. Raises YAMLError, also where PyYAML raises something else: for very deep nesting, and
    for a value that does not fit its tag, such as the date 2026-13-01.
    """
    try:
        return yaml.load(text, loader)
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None
    except (ValueError, TypeError, AttributeError, LookupError) as exc:
        raise yaml.YAMLError(f"a value that does not fit its type: {exc}") from exc
