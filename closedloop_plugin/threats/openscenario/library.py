"""Access to scenariogeneration, which writes and reads OpenSCENARIO XML, and to the schema; imported lazily, only here.

The schema (XSD) is ASAM's and not part of this project: the library's own copy is used, or a file of the user.
"""

from __future__ import annotations

import re
import warnings
import xml.etree.ElementTree as ET
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error, require

MINOR = 3  # OpenSCENARIO XML 1.3: the 1.2 schema demands two kinds of light in each light action
SCHEMA = "OpenSCENARIO_1_3_1.xsd"


@cache
def xosc() -> Any:
    """The module with the classes of OpenSCENARIO elements. Raises MissingExtra without the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return require("scenariogeneration.xosc", "OpenSCENARIO files")


def own_schema() -> Path | None:
    """The schema file that the library brings, or None."""
    file = Path(str(xosc().__file__)).parents[2] / "schemas" / SCHEMA
    return file if file.is_file() else None


class XsdSchema:
    """An XML schema file. `problems(file)`: its violations."""

    def __init__(self, file: Path) -> None:
        """Raises Ad2Error for a file that is not a schema."""
        etree = require("lxml.etree", "checking with a schema")
        self.file, self._etree = file, etree
        try:
            self._schema = etree.XMLSchema(file=str(file))
        except (etree.XMLSchemaParseError, etree.XMLSyntaxError, OSError) as exc:
            raise Ad2Error(f"{file}: not an XML schema (XSD): {_one_line(exc)}") from exc

    def problems(self, file: Path) -> list[str]:
        """Violations in a file, with line numbers; [] if it is valid."""
        tree = self._etree.parse(str(file))
        self._schema.validate(tree)
        return [f"line {entry.line}: {_one_line(entry.message)}" for entry in self._schema.error_log]


def read_back(file: Path) -> Any:
    """The library's object for a file: a Scenario or a ParameterValueDistribution. Raises Ad2Error if it cannot be read
    or loses elements."""
    try:
        root = ET.parse(file).getroot()
        lib = xosc()
        kind = lib.Scenario if root.find("Storyboard") is not None else lib.ParameterValueDistribution
        with redirect_stdout(StringIO()):  # it prints some elements that it parses
            found = kind.parse(root)
        lost = _elements(root) - _elements(found.get_element())
    except Exception as exc:  # the library raises errors of many kinds
        raise Ad2Error(f"{file}: cannot be read back: {type(exc).__name__}: {_one_line(exc)}") from exc
    if lost:
        raise Ad2Error(f"{file}: {lost} elements are lost when it is read back")
    return found


def _elements(root: ET.Element) -> int:
    return sum(1 for _ in root.iter())


def _one_line(exc: Any) -> str:
    return re.sub(r"\s+", " ", str(exc))[:300]
