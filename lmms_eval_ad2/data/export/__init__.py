"""Records of training splits in the formats of training tools."""
