"""Readers of the released datasets, and the data home, the folder of imported records."""
