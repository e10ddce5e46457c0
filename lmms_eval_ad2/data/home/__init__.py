"""The data home: imported datasets in one common form."""

from __future__ import annotations

from lmms_eval_ad2.data.home.dataset import Dataset, list_datasets, open_dataset, relocate
from lmms_eval_ad2.data.home.importing import import_release
from lmms_eval_ad2.data.home.manifest import DatasetManifest, home
from lmms_eval_ad2.data.home.verify import DatasetVerification, verify
from lmms_eval_ad2.data.home.writer import write_dataset

__all__ = [
    "Dataset",
    "DatasetManifest",
    "DatasetVerification",
    "home",
    "import_release",
    "list_datasets",
    "open_dataset",
    "relocate",
    "verify",
    "write_dataset",
]
