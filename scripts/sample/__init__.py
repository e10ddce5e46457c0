"""Generate the bundled sample of every task: draw the images, and derive the records from their ground truth.

scene, scenes    positions of all objects (metres)
camera, air, ground, canvas, characters, vehicles, people, street, draw    the renderer
words, ask*, questions    records from the scenes' ground truth
write            write the data of the package `lmms_eval_ad2.sample`: python -m scripts.sample.write

The same scenes always give the same images and records; all random numbers have fixed seeds.
"""
