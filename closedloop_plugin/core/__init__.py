"""The data types of the closed loop: state, frames, route paths, profiles, routes, episode records."""
