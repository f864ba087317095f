import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A corpus of two synthetic cases in place of the packaged one; the current folder is empty."""
    from synthetic import write_corpus

    base = write_corpus(tmp_path / "datasets")
    monkeypatch.setattr("render.lab.corpus.case.folder", lambda name: base)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return base
