"""What pyproject.toml cannot say: the module of `python -m sealbook` goes into wheels alone.

An editable install maps packages, and `sealbook` itself is none: there the Makefile puts the module in its place.
"""

import sys

from setuptools import setup

setup(py_modules=[] if "editable_wheel" in sys.argv else ["sealbook.__main__"])
