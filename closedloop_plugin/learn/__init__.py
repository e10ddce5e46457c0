"""Training a driving model on collected frames: rows, tokenizer, a tiny model from random weights, and its trainer."""
