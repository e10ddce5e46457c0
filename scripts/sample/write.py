"""Write the sample as package data: `python -m scripts.sample.write [OUT]`, in the root of a checkout.

    OUT/images/{ad2,coda,six}/*.jpg
    OUT/records/{ad2_bench,coda_lm,autodrive_qa}.jsonl    one record per line (`Record.to_json`)
    OUT/version.json                                      version of the sample, and the libraries that drew the images

OUT is lmms_eval_ad2/sample by default; `lmms_eval_ad2.sample` copies its content into a data home. Obsolete files in
OUT are not removed.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import numpy as np
import PIL
from PIL import features

from lmms_eval_ad2.records import Record
from scripts.sample.questions import BENCHMARKS, shots

GENERATOR = "ad2-sample/5"  # increase it whenever an image or a record changes: data homes then replace their copy
QUALITY = 92
PACKAGE_DATA = Path(__file__).resolve().parents[2] / "lmms_eval_ad2" / "sample"


def write_package_data(out: Path) -> None:
    """Draw all images and write them with their records to `out` (a few seconds)."""
    records: dict[str, list[Record]] = {name: [] for name in BENCHMARKS}
    for shot in shots():
        for path, picture in shot.pictures.items():
            file = out / "images" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            picture.image.save(file, quality=QUALITY, subsampling=0)
        for name, rows in shot.records.items():
            records[name] += rows
    (out / "records").mkdir(exist_ok=True)
    for name, rows in records.items():
        lines = "".join(f"{record.to_json()}\n" for record in rows)
        (out / "records" / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    version = {"generator": GENERATOR, "drawn_with": drawn_with()}
    (out / "version.json").write_text(json.dumps(version, indent=1) + "\n", encoding="utf-8")


def drawn_with() -> dict[str, str | None]:
    """The versions on which the bytes of the images depend: JPEG encoder and fonts differ between them."""
    return {
        "machine": platform.machine(),
        "numpy": np.__version__,
        "pillow": PIL.__version__,
        "libjpeg_turbo": features.version("libjpeg_turbo"),
        "freetype2": features.version("freetype2"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the bundled sample and write it as package data.")
    parser.add_argument("out", type=Path, nargs="?", default=PACKAGE_DATA, help="default: lmms_eval_ad2/sample")
    write_package_data(parser.parse_args().out)


if __name__ == "__main__":
    main()
