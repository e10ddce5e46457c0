"""The sample in the data home: copied once, by one of several processes, with identical content."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from lmms_eval_ad2.data.home import open_dataset
from lmms_eval_ad2.data.sample import ensure_sample, loader, write_sample
from lmms_eval_ad2.prompts import text, visual

NAMES = {"sample_ad2_bench", "sample_coda_lm", "sample_autodrive_qa"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample_home")
    write_sample(path)
    return path


def image_hash(home: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(loader.image_root(home).rglob("*.jpg")):
        total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


@pytest.mark.integration
def test_all_records_have_a_prompt_and_images(home: Path) -> None:
    n = 0
    for name in NAMES:
        dataset = open_dataset(name, "test", home=home)
        for record in dataset.records():
            n += 1
            assert text.build(record)
            images = visual.render(record, dataset.image_root)
            assert [i.size for i in images] == [(960, 540)] * len(record.images)
            if record.benchmark == "ad2_bench":
                assert text.build(record, lang="zh") != text.build(record)
    assert n == sum(m.n for m in ensure_sample(home).values())


@pytest.mark.integration
def test_two_processes_write_the_same_sample_once(home: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from lmms_eval_ad2.data.sample import ensure_sample;"
        "print({k: m.sha256 for k, m in sorted(ensure_sample(Path(sys.argv[1])).items())})"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) for _ in range(2)]
    outputs = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert outputs[0] == outputs[1]
    expected = {k: m.sha256 for k, m in sorted(ensure_sample(home).items())}
    assert outputs[0].decode().strip() == str(expected), "another process, another home, the same records"
    assert image_hash(tmp_path) == image_hash(home)


def test_present_sample_is_not_written_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_copy_images", lambda root: pytest.fail("written again"))
    assert set(ensure_sample(home)) == NAMES


def test_another_generator_version_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[Path] = []
    copy_images = loader._copy_images
    monkeypatch.setattr(loader, "_copy_images", lambda root: (copied.append(root), copy_images(root)))
    ensure_sample(tmp_path)
    before = image_hash(tmp_path)
    (loader.image_root(tmp_path) / "coda" / "0001.jpg").write_bytes(b"a picture of another version")
    ensure_sample(tmp_path)
    assert len(copied) == 1
    monkeypatch.setattr(loader, "packaged_version", lambda: "ad2-sample/other")
    assert all(m.source["generator"] == "ad2-sample/other" for m in ensure_sample(tmp_path).values())
    assert len(copied) == 2
    assert image_hash(tmp_path) == before


def test_incomplete_sample_is_not_present(home: Path, tmp_path: Path) -> None:
    assert loader._present(tmp_path) is None
    root = loader.image_root(tmp_path)
    root.mkdir(parents=True)
    (root / "version").write_text(loader.packaged_version())
    assert loader._present(tmp_path) is None, "pictures without data sets"


def test_pictures_are_plain_jpegs(home: Path) -> None:
    paths = list(loader.image_root(home).rglob("*.jpg"))
    assert len(paths) == 21 + 12 + 4 * 6
    for path in paths:
        with Image.open(path) as image:
            assert (image.size, image.mode, image.format) == ((960, 540), "RGB", "JPEG")
