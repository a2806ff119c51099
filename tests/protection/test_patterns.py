"""What is protected, by Python's regular expressions and by TensorFlow's."""

import re

import pytest
import tensorflow as tf

from tf_transformer.protection.patterns import PATTERN

# Each with what is protected in brackets.
TEXTS = [
    "See [https://example.com/a?b=c#d], or ([www.example.org]).",
    "Mail [a.b+c@mail.example.com].",
    "Hi [{name}], [{{user.id}}] [${x}] [%s] [%1$d] [%(n)s]",
    "[<b>]dog[</b>] [&amp;] [<br/>] 3 < 4 > 2",
    'A [<a href="https://example.com">]link[</a>]',
    "[5 km], [3.5 kg]; [10%] of [20 °C]; [-5°C] [30m²] [60 km/h] [€5] [$3.50] [5 €] [5\u00a0min] [1,000 MB] [12:30 h]",
    "3 [%s]",
    "[👩🏽‍🚒] [🇩🇪][❤️] [☀]",
    "[⟦Hund⟧] [⟦⟧] [⟦a b|c⟧] [⟦x {y} z⟧]",
    "[12 000 km] [1 500 €] [$1 000 000.50] [3\u202f000\u00a0m], in 2019 [300 km], 12 0000",
    "([https://en.wikipedia.org/wiki/Mercury_(planet)]) [http://x.org/a_(b)/c]. [http://x.org/(a], [www.a.org/(b)c)d]",
    "([https://x.org/((a)_(b))].) ([www.x.org/a]) ([https://x.org/()])",
    "请看[https://example.com/a]，谢谢大家的支持。我们明天见。（[www.example.org]）「[www.x.org]」[www.x.org/狗]、狗",
    "[https://x.org/a?b=1]をご覧ください。[https://x.org/ジョン・スミス]と[http://x.org/佐々木]！",
    "[https://x.org/a]\u00a0km [www.x.org]\u3000b [www.x.org]\u2003b [www.x.org]\u200bb [www.x.org]\x85b",
    "[https://de.wikipedia.org/wiki/Öl_(Ä)] [https://ru.wikipedia.org/wiki/Москва], [http://x.org/%E7%8B%97].",
    "[🏴󠁧󠁢󠁥󠁮󠁧󠁿] [1️⃣] [#️⃣] [©️] [⬅️] [▶️] [㊗️] © → ™",
    "[🐈\u200d⬛] [🐦\u200d⬛] [🙂\u200d↔\ufe0f] [⬛][⬜] [◽] [◾] [🏳️\u200d🌈] [❤️\u200d🔥] ■ ↔",
    "3 men, 2 a.m., 10 miles, 5 the, F16 m, 2016",
    "3 hübsche, 4 müde, 5 große und 2 süße Hunde",  # no hours, metres and grams: RE2 takes ü for no letter of a word
    "a@b and http and { and 50",
]


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_what_is_protected(number):
    expected = TEXTS[number]
    text = re.sub(r"[\[\]]", "", expected)
    assert re.sub(r"\[\]", "", re.sub(PATTERN, r"[\1\3]\2", text)) == expected
    by_tensorflow = tf.strings.regex_replace([text], PATTERN, r"[\1\3]\2").numpy()[0].decode()
    assert re.sub(r"\[\]", "", by_tensorflow) == expected
