"""A small sample of every task, free to use: package data, and `loader`, which copies it into the data home.

    images/{ad2,coda,six}/*.jpg                         images
    records/{ad2_bench,coda_lm,autodrive_qa}.jsonl      one record per line
    version.json                                        version of both, and the libraries that drew the images

These files are written by scripts/sample, which draws the images and derives the records from their ground truth.
"""

from __future__ import annotations

from lmms_eval_ad2.sample.loader import BENCHMARKS, dataset_name, ensure_sample, image_root, write_sample

__all__ = ["BENCHMARKS", "dataset_name", "ensure_sample", "image_root", "write_sample"]
