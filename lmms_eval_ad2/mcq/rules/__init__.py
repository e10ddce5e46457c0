"""Distractors without a language model: made from the data themselves, the same in every run."""
