"""Road users and obstacles, shared by all worlds: bodies, their motion, traffic lights and car following."""
