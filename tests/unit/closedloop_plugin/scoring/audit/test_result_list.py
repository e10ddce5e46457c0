"""Lists of result files: one message with file and field for every mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.closedloop.audits import COMMIT, entry, sha256

from closedloop_plugin.scoring.audit.result_list import MOST_LIST_BYTES, read_list
from lmms_eval_ad2.core.errors import Ad2Error, DataError

ROUTES = {
    "repository": "group/routes", "commit": COMMIT, "path": "a.xml", "sha256": sha256(b""), "license": "MIT",
}  # fmt: skip


def write(folder: Path, raw: Any) -> Path:
    file = folder / "list.yaml"
    file.write_text(raw if isinstance(raw, str) else yaml.safe_dump(raw), "utf-8")
    return file


def test_a_list_is_read(tmp_path: Path) -> None:
    printed = [{"source": "README", "driving_score": 45.81}]
    raw = {
        "routes": ROUTES,
        "results": [entry("one", printed=printed), entry("two", path="r/{route}/x.json", repeats="model")],
        "not_available": [{"name": "Three", "reason": "no file"}],
    }
    found = read_list(write(tmp_path, raw))
    assert [result.id for result in found.results] == ["one", "two"]
    assert [result.by_route for result in found.results] == [False, True]
    assert (found.results[0].printed[0].driving_score, found.results[0].printed[0].success_rate) == (45.81, None)
    assert found.not_available[0].reason == "no file"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"commit": "main"}, "results.0.commit"),
        ({"sha256": "12"}, "results.0.sha256"),
        ({"path": "../../etc/passwd"}, "results.0.path"),
        ({"path": "/etc/passwd"}, "results.0.path"),
        ({"repository": "https://elsewhere/x"}, "results.0.repository"),
        ({"id": "../x", "path": "x.json"}, "results.0.id"),
        ({"id": "routes"}, "results.id"),
        ({"printed": [{"source": "a", "success_rate": 101}]}, "results.0.printed.0.success_rate"),
        ({"comment": "?"}, "results.0.comment"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    file = write(tmp_path, {"routes": ROUTES, "results": [entry(**changes)]})
    with pytest.raises(DataError) as found:
        read_list(file)
    assert (found.value.file, found.value.field) == (file, field)
    assert "\n" not in str(found.value)


def test_ids_and_names_are_unique(tmp_path: Path) -> None:
    twice = {"routes": ROUTES, "results": [entry("one"), entry("two", name="One")]}
    with pytest.raises(DataError, match=r"results\.name.*'One'"):
        read_list(write(tmp_path, twice))


@pytest.mark.parametrize("text", ["a: [", "\x00", "- 1", "", "results: []", "&a [*a]", "a: 2020-13-45"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Ad2Error) as found:
        read_list(write(tmp_path, text))
    assert "list.yaml" in str(found.value) and "\n" not in str(found.value)


def test_aliases_are_refused_before_they_are_expanded(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    with pytest.raises(Ad2Error, match=r"list\.yaml: not a YAML file: more than 200,000 values"):
        read_list(write(tmp_path, "\n".join(lines)))


def test_a_missing_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="cannot be read"):
        read_list(tmp_path / "none.yaml")
    with pytest.raises(Ad2Error, match="larger than"):
        read_list(write(tmp_path, "#" * (MOST_LIST_BYTES + 1)))
