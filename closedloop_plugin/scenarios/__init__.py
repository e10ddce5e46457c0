"""The 44 scenario types of Bench2Drive as Scenic programs, their catalogue, and helpers for programs."""
