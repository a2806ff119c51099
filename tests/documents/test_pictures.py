"""The documents' pictures: made by the script, shown by a page, and true."""

import math
import re

import numpy as np
import pytest
from pictures import draw
from pictures import page as photograph
from pictures.beam import search

from tests.documents.reading import ROOT
from tests.tiny_run import PAIRS
from tf_transformer import load_translator

MADE = {f"{function.__name__}.png" for function in draw.WITHOUT_MODEL + draw.WITH_MODEL} | {photograph.PICTURE.name}


def test_every_picture_is_made_by_the_script_and_shown():
    shown = set()
    for page in ROOT.glob("docs/**/*.md"):
        for text, name in re.findall(r"!\[([^\]]*)\]\(pictures/(\w+\.png)\)", page.read_text(encoding="utf-8")):
            assert len(text.split()) > 10, name
            shown.add(name)
    assert shown == MADE == {path.name for path in draw.FOLDER.glob("*.png")}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_its_definition(smoothing):
    given = np.array([0.35, 0.9, 0.999])
    expected = []
    for p in given:
        others = (1 - p) / 9
        q, rest = 1 - smoothing + smoothing / 10, smoothing / 10
        expected.append(-q * math.log(p) - 9 * rest * math.log(others))
    np.testing.assert_allclose(draw.smoothed_losses(given, 10, smoothing), expected, rtol=1e-5)


@pytest.mark.thorough
def test_the_search_that_is_drawn_ends_in_the_translation(tiny_run_directory):
    translator = load_translator(tiny_run_directory.path, beam_size=4, alpha=0.6, extra_length=50)
    for text, _ in PAIRS[:3]:
        steps = search(translator, text)
        path = [each for step in steps for each in step if each.wins]
        found = translator.translate([text])
        assert (
            "".join(each.token for each in path[:-1]).replace("▁", " ").strip()
            == found["translation"].numpy()[0].decode()
        )
        assert path[-1].score == pytest.approx(float(found["score"][0]), abs=1e-4)


@pytest.mark.thorough
def test_what_is_drawn_tells_where_each_hypothesis_came_from(tiny_run_directory):
    steps = search(load_translator(tiny_run_directory.path), PAIRS[0][0], beam=3)
    for before, step in zip(steps, steps[1:], strict=False):
        assert {each.parent for each in step} == {place for place, each in enumerate(before) if each.continued}
        for each in step:
            parent = before[each.parent]
            assert parent.score is None and parent.log_probability >= each.log_probability
