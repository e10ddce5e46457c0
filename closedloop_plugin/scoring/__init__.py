"""Official scores: infractions, driving score, success, efficiency, comfort, ability."""
