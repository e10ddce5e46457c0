"""A small sample of every task, drawn by our own renderer: free to use, complete, and the same on every machine.

scene, scenes    what stands where (metres)
camera, air, ground, canvas, vehicles, people, street, draw    the renderer
words, ask*, questions    records from the scenes' ground truth
write            into the data home
"""

from __future__ import annotations

from lmms_eval_ad2.sample.write import ensure_sample, write_sample

__all__ = ["ensure_sample", "write_sample"]
