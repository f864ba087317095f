"""Pictures: the SVG is well formed, and what is outside is said in words."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from render.report import svg
from render.result.usage import counted
from tests.render.result.test_usage import CASES
from tests.support import rng


@pytest.mark.parametrize("name", CASES)
def test_histogram_is_well_formed(name: str) -> None:
    root = ET.fromstring(svg.histogram(counted(CASES[name](rng(0)))))
    bars = [r for r in root.iter() if r.tag.endswith("rect")]
    assert bars
    assert all(float(bar.attrib["height"]) <= 170 for bar in bars)


def test_histogram_of_nothing() -> None:
    assert svg.histogram(counted(np.array([]))) == ""
    assert svg.histogram(counted(np.array([np.nan]))) == ""


def test_outside_is_said_in_words() -> None:
    assert ">outside<" in svg.histogram(counted(np.array([0.1, 3.0])))
    assert ">outside<" not in svg.histogram(counted(np.array([0.1, 0.3])))
    assert ">outside<" in svg.heatmap(counted(np.array([[0.1, 3.0]])))
    assert ">no bound<" in svg.heatmap(counted(np.array([[0.1, np.nan]])))


def test_heatmap_has_one_cell_per_tile() -> None:
    root = ET.fromstring(svg.heatmap(counted(rng(0).uniform(0, 1, (8, 4)))))
    titles = [t.text or "" for t in root.iter() if t.tag.endswith("title")]
    assert sum(t.startswith("from (") for t in titles) == 32


def test_pictures_need_no_script_and_no_network() -> None:
    for picture in (svg.histogram(counted(np.array([0.5]))), svg.heatmap(counted(np.ones((2, 2))))):
        assert "script" not in picture
        assert picture.count("http") == 1  # the name space


def test_a_picture_is_no_wider_than_its_page() -> None:
    drawn = svg._svg(480, 100, "title", [])
    assert 'viewBox="0 0 480 100"' in drawn and "max-width:100%" in drawn


@pytest.mark.parametrize("size", [(2, 2), (100, 130), (2048, 2048), (3, 40000)])
def test_words_stay_in_the_picture(size: tuple[int, int]) -> None:
    """A letter of size 11 is 5.5 wide on the average; 6 is on the safe side."""
    root = ET.fromstring(svg.heatmap(counted(np.zeros(size))))
    words = [t for t in root.iter() if t.tag.endswith("text")]
    assert words
    for text in words:
        assert float(text.attrib["x"]) + 6 * len(text.text or "") <= float(root.attrib["width"])
