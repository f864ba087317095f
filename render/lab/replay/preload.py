"""Imported once by the server process that forks itself for every case: whatever every case needs and nothing else.

No thread may be working when it forks, so torch gets one thread and what is computed here is tiny.
"""

import atexit
import contextlib
import gc

import torch
import triton  # noqa: F401

import render.interpreter.lift
import render.interpreter.session
import render.lab.corpus.device_models
import render.lab.replay.baselines
import render.lab.replay.judging  # noqa: F401
from render.lab.replay.pages import forget_code
from render.lab.replay.warm import warm

torch.set_num_threads(1)
with contextlib.suppress(Exception):  # whatever is wrong, the first case will say it
    warm()
# What is alive now stays so: no case needs to look through it for garbage, or to copy the pages that this would write.
gc.collect()
gc.freeze()
# The arrays of a run are in no cycle and freed by their counts: looking for cycles often only costs time.
gc.set_threshold(20_000, 20, 20)
forget_code()
atexit.register(gc.unfreeze)  # or nanobind reports all of Triton as leaked
