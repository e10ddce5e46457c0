"""The released datasets (one reader each) and the folder that imported records are kept in."""
