"""Test doubles of the closed loop for our tests and for users' tests."""
