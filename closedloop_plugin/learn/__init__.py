"""Learning from the closed loop: made routes, collected frames, labels and training sets."""
