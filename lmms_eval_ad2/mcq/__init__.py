"""AutoDrive-QA made: open questions turned into multiple choice with distractors from five error categories."""
