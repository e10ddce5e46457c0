"""Questions about collected frames, answered from the world's truth, in the forms of AD2-Bench and AutoDrive-QA."""
