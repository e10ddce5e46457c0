"""lmms-eval-ad2: driving benchmarks for vision-language models as plain lmms-eval tasks."""

__version__ = "0.3.0"
