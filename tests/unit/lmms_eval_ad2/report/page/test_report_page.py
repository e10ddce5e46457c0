"""The report page: self-contained, escaped, with images and plots."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.make_runs import ad2_tasks, cell, sample, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report.breakdowns import breakdown_grids
from lmms_eval_ad2.report.grid import grids
from lmms_eval_ad2.report.page import plots, report_page
from lmms_eval_ad2.report.sample_pictures import worst

EVIL = "<script>alert(1)</script>\"'><img src=http://evil.example/x onerror=alert(1)>{{ 7*7 }}"


class Reader(HTMLParser):
    """Collects tags with their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def evil_run(tmp_path: Path) -> Path:
    """A page in which all external texts are hostile: labels, groups, reasons, ids, questions, answers."""
    Image.new("RGB", (1600, 900), (90, 120, 150)).save(tmp_path / "a.jpg")
    table = task(
        "ad2_bench", "perception_base", cell(50.0, ci=[40, 60], unparsed=1), {EVIL: cell(1.0)},
        image_root=str(tmp_path), reasons={f"unparsed:{EVIL}": 1},
        breakdowns={"weather": {EVIL: cell(1.0), "fog": cell(2.0)}},
        subtasks={EVIL: cell(1.0), "b": cell(2.0)}, error_kinds={EVIL: 2},
    )  # fmt: skip
    rows = [
        sample("bad" + EVIL, 0.0, raw=EVIL, question=EVIL, box=(10.0, 10.0, 300.0, 200.0), subtask=EVIL,
               judge=[{"rubric": EVIL, "part": "0", "score": 3, "reason": None, "reply": "Why " + EVIL}]),
        sample("gone", 0.0, images=("absent.jpg",)),
        sample("outside", 0.0, images=("../secret.jpg",)),
        sample("broken", 0.0, record={"id": 3}),
        sample("fine", 100.0),
    ]  # fmt: skip
    data = summary({"ad2_perception_base": table}, label=EVIL, judge="lexical", model_args=EVIL)
    return write_run(tmp_path / "run", data, {"ad2_perception_base": rows})


@pytest.fixture
def page_html(tmp_path: Path) -> str:
    runs = report.load([evil_run(tmp_path)])
    report_page.write(runs, tmp_path / "out" / "page.html")
    return (tmp_path / "out" / "page.html").read_text("utf-8")


def test_untrusted_text_is_escaped(page_html: str) -> None:
    page = Reader(page_html)
    assert "script" not in {tag for tag, _ in page.tags}
    assert not [attrs for _, attrs in page.tags if any(name.startswith("on") for name in attrs)]
    assert page.text.count(EVIL) >= 8  # label, arguments, column, group, reason, id, question, answer
    assert "{{ 7*7 }}" in page.text  # not a template either
    assert "Why " + EVIL in page.text  # the judge's reply


def test_page_has_no_external_resources(page_html: str) -> None:
    page = Reader(page_html)
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base"), tag
        for name in ("src", "href", "xlink:href", "srcset", "action", "poster"):
            value = attrs.get(name)
            assert value is None or value.startswith(("data:image/", "#")), (tag, name, value)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", page_html, re.DOTALL)
    assert not re.findall(r"@import|url\((?!\"?#|#|&quot;#)", "".join(styles))
    assert not re.findall(r"url\(\s*['\"]?https?:", page_html)


def test_images_are_small_jpegs_with_the_mark(page_html: str) -> None:
    sources = [a["src"] for t, a in Reader(page_html).tags if t == "img" and a.get("src")]
    assert len(sources) == 1
    image = Image.open(io.BytesIO(base64.b64decode(str(sources[0]).split(",")[1])))
    assert image.format == "JPEG"
    assert image.size == (480, 270)
    pixels = np.asarray(image.convert("RGB")).astype(int)
    red = pixels[..., 0] - pixels[..., 1] > 60
    rows, columns = np.nonzero(red)
    assert red.sum() > 150  # an outline of 290 x 190 pixels at 0.3 is some 290 pixels long
    assert (columns.min(), rows.min(), columns.max(), rows.max()) == pytest.approx((3, 3, 90, 60), abs=2)


def test_missing_images_are_reported(page_html: str) -> None:
    text = Reader(page_html).text
    assert "no such file" in text
    assert "others are not opened" in text
    assert "the record cannot be read" in text


def test_contents_of_the_page(tmp_path: Path) -> None:
    write_run(tmp_path / "a", summary(ad2_tasks("lexical", data="sample_ad2_bench"), judge="lexical"))
    write_run(tmp_path / "b", summary(ad2_tasks("lexical"), judge="lexical", label="ad2_chance", model="ad2_chance"))
    text = re.sub(r"\s+", " ", Reader(report_page.page(report.load([tmp_path]))).text)
    for fact in (
        "sample_ad2_bench: sample: not the benchmark", "pretrained=toy/toy-7b", "lexical", "requests 3", "abababab",
        "lmms_eval_ad2 0.1.0", "55.0[54.0, 56.0]54.0 strict", "ad2_chance (floor)", "unparsed:hedged 2",
        "InternVL3-8B (Qwen2.5-7B)", "57.33", "[paper: GPT-4o]",
    ):  # fmt: skip
        assert fact in text, fact


def test_published_rows_can_be_omitted(tmp_path: Path) -> None:
    write_run(tmp_path / "a", summary(ad2_tasks("lexical"), judge="lexical"))
    assert "InternVL3-8B" not in report_page.page(report.load([tmp_path]), published=False)


def test_unwritable_path_is_an_error_message(tmp_path: Path) -> None:
    write_run(tmp_path / "a", summary(ad2_tasks("lexical"), judge="lexical"))
    (tmp_path / "file").write_text("")
    with pytest.raises(Ad2Error, match="cannot write the report page"):
        report_page.write(report.load([tmp_path / "a"]), tmp_path / "file" / "page.html")


def test_plots_have_one_point_per_figure_and_are_deterministic(tmp_path: Path) -> None:
    write_run(tmp_path / "a", summary(ad2_tasks("lexical"), judge="lexical"))
    all_grids = grids(report.load([tmp_path]))
    colours = plots.grid_colours(all_grids)
    overall = next(g for g in all_grids if g.key == "ad2_bench/2")
    svg = plots.draw(plots.grid_plot(overall), colours)
    assert svg is not None
    assert svg == plots.draw(plots.grid_plot(overall), colours)
    assert svg.startswith("<svg")
    assert svg.count("<title>") == 0 and colours["toy-7b"].lower() in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "")
    captions = next(g for g in all_grids if g.key == "ad2_bench/6")
    assert "OCR-CER" not in str(
        plots.draw(plots.grid_plot(captions), colours)
    )  # lower is better: not plotted with the others


def test_plots_of_status_and_error_kinds_are_none_without_data(tmp_path: Path) -> None:
    write_run(tmp_path / "a", summary({"t": task("ad2_bench", "relation", cell(50.0))}))
    runs = report.load([tmp_path])
    assert plots.status(runs) is None
    assert plots.error_kinds(runs) is None
    assert "None: every answer was read and scored." in report_page.page(runs)


def test_worst_samples_do_not_depend_on_the_order() -> None:
    rows: list[dict[str, Any]] = [{"id": str(i), "score": float(i % 50)} for i in range(1000)]
    rows += [{"id": "none", "score": None}, {"id": "full", "score": 100.0}]
    found, n = worst(iter(rows), 5)
    assert n == 1002
    assert [r["score"] for r in found] == [0.0] * 5
    assert {r["id"] for r in found} == {r["id"] for r in worst(iter(rows[::-1]), 5)[0]}
    assert worst(iter(rows[:3]), 5) == (rows[:3], 3)
    assert worst(iter([{"id": "full", "score": 100.0}]), 5) == ([], 1)


def test_worst_samples_exclude_baselines(tmp_path: Path) -> None:
    tasks = {"t": task("ad2_bench", "relation", cell(50.0))}
    write_run(tmp_path / "a", summary(tasks, label="m"), {"t": [sample("mine", 0.0)]})
    write_run(tmp_path / "b", summary(tasks, label="ad2_chance", model="ad2_chance"), {"t": [sample("by-chance", 0.0)]})
    page = report_page.page(report.load([tmp_path]))
    assert "mine" in page
    assert "by-chance" not in page
    assert "by-chance" in report_page.page(report.load([tmp_path / "b"]))


def test_chinese_labels_are_plotted_without_warnings(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    groups = {"weather": {"雾天": cell(40.0), "夜晚": cell(50.0)}}
    write_run(tmp_path, summary({"t": task("ad2_bench", "relation", cell(45.0), breakdowns=groups)}))
    assert "雾天</text>" in report_page.page(report.load([tmp_path]))
    assert not [w for w in recwarn if "Glyph" in str(w.message)]


def test_plots_report_omitted_runs_and_groups(tmp_path: Path) -> None:
    for i in range(7):
        parts = {"weather": {"fog": cell(40.0), "rain": cell(50.0, n=9)}}
        table = task("ad2_bench", "relation", cell(45.0), breakdowns=parts)
        write_run(tmp_path / str(i), summary({"t": table}, label=f"model-{i}"))
    runs = report.load([tmp_path])
    grid = breakdown_grids(runs)[0]
    svg = str(plots.draw(plots.grid_plot(grid, 10), plots.grid_colours([grid])))
    assert "first 6 of 7 runs; groups of at least 10 samples" in svg
    assert "fog</text>" in svg
    assert "rain</text>" not in svg
    assert "model-6" not in svg


def test_unfinished_runs_are_listed_on_the_page(tmp_path: Path) -> None:
    write_run(tmp_path / "a", summary(ad2_tasks()))
    page = report_page.page(report.load([tmp_path]), unfinished=[tmp_path / "half" / "ad2" / "m"])
    assert "half/ad2/m: unfinished run, left out" in page
    assert str(tmp_path) not in page
