"""The lmms-eval task files; installed as `lmms_eval_ad2.tasks`. No logic lives here."""
