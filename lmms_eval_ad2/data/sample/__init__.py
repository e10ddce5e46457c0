"""A small sample of every task, free to use: package data, and `loader`, which copies it into the data home.

    images/{ad2,coda,six}/*.jpg                         images
    records/{ad2_bench,coda_lm,autodrive_qa}.jsonl      one record per line
    version.json                                        version of both, and the libraries that drew the images

A program drew the images as scenes of known objects and derived the records from them: `scripts/sample` in the history
of this repository, last in commit 1692f762. None of the pictures is from a data set.
"""

from __future__ import annotations

from lmms_eval_ad2.data.sample.loader import BENCHMARKS, dataset_name, ensure_sample, image_root, write_sample

__all__ = ["BENCHMARKS", "dataset_name", "ensure_sample", "image_root", "write_sample"]
