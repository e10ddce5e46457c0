"""Rules that make distractors from the annotations, without a language model and deterministically."""
