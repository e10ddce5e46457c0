"""Manual annotation: reviewers keep, change or delete texts; every action is saved before the next one."""
