"""Draws the bundled sample of every task: its pictures, and the records that follow from their ground truth.

scene, scenes    what stands where (metres)
camera, air, ground, canvas, vehicles, people, street, draw    the renderer
words, ask*, questions    records from the scenes' ground truth
write            the data of the package `lmms_eval_ad2.sample`: python -m scripts.sample.write

The same scenes give the same pictures and records: neither the time nor the machine's random numbers enter them.
"""
