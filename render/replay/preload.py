"""Imported once by the server process that forks itself for every case: whatever every case needs and nothing else.

No thread may be running when it forks, so nothing here computes.
"""

import torch  # noqa: F401
import triton  # noqa: F401

import render.classify
import render.corpus.device_models
import render.interpreter.lift
import render.interpreter.session
import render.replay.baselines
import render.replay.judging  # noqa: F401
