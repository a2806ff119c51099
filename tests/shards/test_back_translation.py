"""The pairs of a back-translation, from lines that something else has translated."""

import json
import math

from tf_transformer.data.noise import Noise
from tf_transformer.data.text_filters import PairLimits
from tf_transformer.shards.back_translation import back_translate


def test_a_score_that_is_not_finite_is_low_and_a_limit_may_be_infinite(tmp_path):
    """Both are null where they are written; the same command finds what it wrote."""
    (tmp_path / "lines.en").write_text("A dog sleeps.\nA cat sleeps.\nA man sleeps.\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").touch()
    scores = [-0.5, None, -3.0]

    def translate(lines, advance):
        for number, text in lines:
            row = {"translation": f"{text} Ja.", "score": scores[number - 1], "truncated": False}
            yield json.dumps(row).encode() + b"\n"

    described = {"models": [tmp_path / "model"], "engine": "tensorflow", "options": {}}
    limits, out = PairLimits(max_ratio=math.inf), tmp_path / "back"
    made = [
        back_translate(tmp_path / "lines.en", 2, out, None, described, lambda: translate, limits, -1.0, Noise())
        for _ in range(2)
    ]
    assert made[0] == made[1] and made[0]["kept"] == 1 and made[0]["dropped"]["low_score"] == 2
    assert (out / "target.txt").read_text() == "A dog sleeps.\n"
    constants = []
    manifest = json.loads((out / "manifest.json").read_bytes(), parse_constant=constants.append)
    assert manifest["filters"]["max_ratio"] is None and not constants
