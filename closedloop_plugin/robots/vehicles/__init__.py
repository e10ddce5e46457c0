"""From a Control to what a vehicle obeys: one dataclass and one function each."""
