"""Learning from drives: made routes, collected frames, labels from the truth, training, contamination."""
