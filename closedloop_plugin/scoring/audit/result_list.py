"""The list of an audit: public result files at fixed commits, and the figures that were printed for them.

configs/audit/bench2drive.yaml uses every field. A `path` with {route} stands for one file per route. Its `sha256` is
that of a listing with one line "<sha256 of the file>  <path>" per route, sorted, as `sha256sum` prints it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lmms_eval_ad2.core.errors import Ad2Error, DataError, yaml_fault
from lmms_eval_ad2.storage import user_yaml

ROUTE = "{route}"
MOST_LIST_BYTES = 1 << 20

Text = Annotated[str, Field(min_length=1, max_length=2000)]
Percent = Annotated[float, Field(ge=0, le=100)]


def _inside(path: str) -> str:
    if path.startswith("/") or {"", ".", ".."} & set(path.split("/")):
        raise ValueError("a path inside the repository, such as docs/merged.json")
    return path


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublicFile(_Strict):
    """A file of a public repository at a fixed commit."""

    repository: Annotated[str, Field(pattern=r"^[\w-]+/[\w.-]+$")]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    path: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_inside)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    license: Text

    @property
    def by_route(self) -> bool:
        return ROUTE in self.path


class PrintedFigures(_Strict):
    """Figures in percent as printed at `source`."""

    source: Text
    driving_score: Percent | None = None
    success_rate: Percent | None = None


class ListedResult(PublicFile):
    """A result file of the list. `id`: its name on disk; `repeats`: results with the same one differ in their seed."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,60}$")]
    name: Text
    printed: tuple[PrintedFigures, ...] = ()
    repeats: str | None = None
    note: str = ""


class UnavailableResult(_Strict):
    """A published result without a public file that could be read."""

    name: Text
    reason: Text


class OtherFigures(_Strict):
    """Figures in percent of one driver on another set of routes."""

    name: Text
    driving_score: Percent
    success_rate: Percent | None = None


class OtherSet(_Strict):
    """Figures that one source prints for another set of routes; they cannot be recomputed without result files."""

    name: Text
    source: Text
    note: Text
    printed: Annotated[tuple[OtherFigures, ...], Field(min_length=1)]


class ResultList(_Strict):
    """The whole list. `routes`: the route file."""

    routes: PublicFile
    results: Annotated[tuple[ListedResult, ...], Field(min_length=1)]
    not_available: tuple[UnavailableResult, ...] = ()
    other_sets: tuple[OtherSet, ...] = ()


def read_list(file: Path) -> ResultList:
    """Read and check a list. Raises Ad2Error or DataError (file, field) for an unreadable or malformed one."""
    try:
        if file.stat().st_size > MOST_LIST_BYTES:
            raise Ad2Error(f"{file}: larger than {MOST_LIST_BYTES} bytes: not a list of result files")
        found = ResultList.model_validate(user_yaml.parse(user_yaml.read_text(file)))
    except OSError as exc:
        raise Ad2Error(f"{file}: cannot be read ({exc.strerror or exc})") from exc
    except yaml.YAMLError as exc:
        raise Ad2Error(f"{file}: not a YAML file: {yaml_fault(exc)}") from exc
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "list"
        raise DataError(file, None, field, first["msg"], first.get("input")) from exc
    for key in ("id", "name"):
        names = [getattr(result, key) for result in found.results]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DataError(file, None, f"results.{key}", "unique values", twice[0])
    if any(result.id == "routes" for result in found.results):
        raise DataError(file, None, "results.id", "another name: the route file is stored as routes", "routes")
    return found
