"""What makes distractors: language models in five roles, or rules over the annotations."""
