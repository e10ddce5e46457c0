"""A small sample of every task, free to use and complete: package data, and `loader`, which puts it into the data home.

images/{ad2,coda,six}/*.jpg                           the pictures
records/{ad2_bench,coda_lm,autodrive_qa}.jsonl        a record per line
version.json                                          the version of both, and what drew the pictures

All of them are written by scripts/sample, which draws the pictures and derives the records from their ground truth.
"""

from __future__ import annotations

from lmms_eval_ad2.sample.loader import BENCHMARKS, dataset_name, ensure_sample, image_root, write_sample

__all__ = ["BENCHMARKS", "dataset_name", "ensure_sample", "image_root", "write_sample"]
