# SPDX-License-Identifier: Apache-2.0
"""The harness, for the tests beside this file, which run dlock and its stores in surroundings that
hurt."""
import os, sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import *  # noqa: E402, F401, F403
