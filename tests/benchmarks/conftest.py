"""The benchmarks are not installed: their tests find them in the checkout, behind everything else."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
