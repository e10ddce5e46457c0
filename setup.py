"""Packages are found, except tasks/, which is installed as lmms_eval_ad2.tasks; everything else is in setup.cfg."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["lmms_eval_ad2*", "closedloop_plugin*"]), "lmms_eval_ad2.tasks"])
