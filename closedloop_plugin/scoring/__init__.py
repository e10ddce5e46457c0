"""Official scores: infractions, driving score, success rate, efficiency, comfortness, abilities."""
