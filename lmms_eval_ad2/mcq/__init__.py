"""AutoDrive-QA, rebuilt: open questions turned into multiple choice, with distractors of five error categories."""
