"""Protected spans are taken out and put back: by hand, and for whatever a model may write and attend to."""

import random

import pytest
import tensorflow as tf

from tests.protection.written import SOURCE_WORDS, TARGET_WORDS, written
from tf_transformer.protection.places import _count_tokens, _written
from tf_transformer.protection.spans import take_out
from tf_transformer.tokenizers.placeholders import PLACEHOLDERS

pytestmark = pytest.mark.usefixtures("eager")

SPANS = ["{name}", "www.example.com", "<b>", "5 km", "😀", "⟦x⟧"]


@pytest.mark.parametrize(
    ("text", "read", "span"),
    [
        ("⟦dog|Hund⟧", "dog", "Hund"),
        ("⟦|Hund⟧", "", "Hund"),
        ("⟦dog|⟧", "dog", ""),
        ("⟦dog\nhouse|Hunde\nhütte⟧", "dog\nhouse", "Hunde\nhütte"),
        ("⟦dog|Hund|Tier⟧", "dog", "Hund|Tier"),
    ],
)
def test_the_parts_of_what_is_marked(text, read, span):
    taken = take_out([f"the {text}"], placeholders=False)
    assert taken.text.numpy()[0].decode().rstrip() == f"the {read}".rstrip()
    assert taken.spans.numpy()[0, 0].decode() == span


@pytest.mark.parametrize(
    ("text", "translation", "alignment", "expected"),
    [
        # What stands before it in the source stands before it in the translation.
        ("the dog {name} sees", "der Hund sieht", [0, 1, 2], "der Hund {name} sieht"),
        # At either end.
        ("{name} sees the dog", "der Hund sieht", [1, 2, 0], "{name} der Hund sieht"),
        ("{name} the dog", "der Hund", [0, 1], "{name} der Hund"),
        ("the dog 😀", "der Hund", [0, 1], "der Hund 😀"),
        # Another order of words: what is nearest in the source counts most.
        ("dog {name} sees the cat", "eine Katze sieht der Hund", [2, 3, 1, 0, 0], "eine Katze sieht der Hund {name}"),
        ("at night the dog {name} sees", "der Hund sieht in Nacht", [2, 3, 4, 0, 1], "der Hund {name} sieht in Nacht"),
        # By the square of the distance: 1 on one side outweighs 1/4, 1/9 and 1/16 on the other.
        ("the old dog sees {name} cat", "Katze Hund alte der", [4, 2, 1, 0], "{name} Katze Hund alte der"),
        # A full stop goes with a full stop, whatever it attends to.
        ("the dog {name}.", "der Hund.", [0, 1, 0], "der Hund {name}."),
        ("the dog. {name}", "der Hund.", [0, 1, 1], "der Hund. {name}"),
        # Tags stay at their words.
        ("the <b>dog</b> sees", "der Hund sieht", [0, 1, 2], "der <b>Hund</b> sieht"),
        ("<i>the</i> dog", "der Hund", [0, 1], "<i>der</i> Hund"),
        # Brackets and several side by side.
        ("the dog ({name}) sees", "der Hund () sieht", [0, 1, 2, 3, 4], "der Hund ({name}) sieht"),
        ("the <b>{name}</b> dog", "der Hund", [0, 1], "der <b>{name}</b> Hund"),
        # Nothing but spans, or none.
        ("{name} 5 km", "", [], "{name} 5 km"),
        ("the dog", "der Hund", [0, 1], "der Hund"),
        # A term takes the place of the words that are aligned to it; of several, the last ones.
        ("the ⟦old dog|Katze⟧ sees", "der alte Hund sieht", [0, 1, 2, 3], "der Katze sieht"),
        ("⟦old dog|Katze⟧ sees", "alte sieht Hund", [0, 2, 1], "alte sieht Katze"),
        # The model wrote the term by itself: it stays there, and with it what else is aligned to the text.
        ("the ⟦dog|Hund⟧ sees", "der Hund sieht eine Katze", [0, 1, 1, 1, 1], "der Hund sieht eine Katze"),
        ("the ⟦old dog|alte Hund⟧ sees", "der alte Hund sieht", [1, 0, 1, 2], "der alte Hund sieht"),
        ("the ⟦dog|Hund⟧ sees", "der Hund sieht Hund", [0, 2, 2, 1], "der Hund sieht Hund"),
        ("the ⟦dog|Hund⟧ sees", "der Hund sieht eine", [0, 2, 2, 1], "der Hund sieht eine"),
        # But not what it wrote for another term, or for a word elsewhere.
        ("⟦dog|Hund⟧ sees ⟦cat|Hund⟧", "Hund sieht Katze", [0, 1, 2], "Hund sieht Hund"),
        ("⟦dog|Hund⟧ sees the old cat", "Katze sieht der alte Hund", [0, 1, 2, 3, 4], "Hund sieht der alte Hund"),
        # Nothing is aligned to it: as if the model had not read it.
        ("the ⟦dog|Katze⟧ sees", "der sieht", [0, 2], "der Katze sieht"),
    ],
)
def test_by_hand(tokenizers, text, translation, alignment, expected):
    assert written(tokenizers["bpe"], [text], [translation], [alignment]) == [expected]


def test_a_term_is_not_written_where_a_longer_word_begins_with_it(tokenizers):
    texts = ["the ⟦dog|Hund⟧ sees", "the ⟦dog|Hunds⟧ sees"]
    translations = ["der Hunds sieht", "der Hunds sieht"]
    expected = ["der Hunds Hund", "der Hunds sieht"]  # where both are aligned, of the words the last one goes
    assert written(tokenizers["wordpiece"], texts, translations, [[0, 0, 0, 1], [0, 1, 1, 1]]) == expected


def test_a_term_of_unknown_or_of_too_many_tokens_is_written_nowhere(tokenizers):
    texts = ["the ⟦dog|Ω⟧ sees", f"the ⟦dog|{'Hund ' * 9}⟧ sees", "the ⟦dog|⟧ sees"]
    taken = take_out(texts, placeholders=False)
    ids = tf.constant([[1, 1, 1], *2 * [tokenizers["wordpiece"].target.tokenize(["Hund Hund Hund"]).to_list()[0]]])
    everywhere = tf.fill([3, 1, 3], True)
    found = _written(tokenizers["wordpiece"].target, taken, ids, everywhere, everywhere, tf.fill([3, 3], True))
    assert found.shape == (3, 1, 3) and not found.numpy().any()
    none = take_out(["the dog"], placeholders=False)
    nothing = tf.fill([1, 0, 3], True)
    assert _written(tokenizers["wordpiece"].target, none, ids[:1], nothing, nothing, ids[:1] > 0).shape == (1, 0, 3)


def test_where_a_term_is_written_is_found_as_by_a_plain_loop(tokenizers):
    generator, pair = random.Random(1), tokenizers["wordpiece"]
    terms = ["Hund", "Hunds", "Hund Hund", "der Hund"]
    for _ in range(30):
        chosen = [generator.choice(terms) for _ in range(generator.randrange(1, 4))]
        taken = take_out(["".join(f"⟦dog|{term}⟧ a " for term in chosen)], placeholders=False)
        tokens = pair.target.tokenize(["".join(generator.choices(["Hund ", "Hunds ", "der "], k=5))]).to_list()[0]
        aligned = [[generator.random() < 0.3 for _ in tokens] for _ in chosen]
        starts_word = pair.target.begins_word(tf.constant([tokens]))
        near = [[one or generator.random() < 0.3 for one in row] for row in aligned]
        flags = tf.constant([aligned]), tf.constant([near])
        found = _written(pair.target, taken, tf.constant([tokens]), *flags, starts_word).numpy()[0]
        begins = [*starts_word.numpy()[0].tolist(), True]
        for number, (term, span) in enumerate(zip(pair.target.tokenize(chosen).to_list(), found, strict=True)):
            best, most = None, -1
            for start in range(len(tokens) - len(term) + 1):
                places = range(start, start + len(term))
                own = sum(aligned[number][place] for place in places)
                free = not any(row[place] for row in aligned for place in places)
                free &= any(near[number][place] for place in places) or not any(aligned[number])
                whole = begins[start] and begins[start + len(term)]
                if tokens[start : start + len(term)] == term and whole and (own or free) and own > most:
                    best, most = places, own
            assert [place for place in range(len(tokens)) if span[place]] == list(best or [])


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        # Where the model wrote it, whatever is aligned to what.
        ("{name} sees the dog", "der Hund sieht ⟦0⟧", "der Hund sieht {name}"),
        ("the {name} at 5 km.", "⟦1⟧ der ⟦0⟧.", "5 km der {name}."),
        # Written twice, or one that stands for nothing: it goes.
        ("the {name} sees", "der ⟦0⟧ sieht ⟦0⟧ ⟦7⟧", "der {name} sieht"),
        # Lost: put back by the alignment of the others.
        ("the {name} sees", "der sieht", "der {name} sieht"),
        ("the ⟦dog|Hund⟧ sees", "der ⟦0⟧ sieht", "der Hund sieht"),
    ],
)
def test_placeholders_by_hand(tokenizers, text, translation, expected):
    pair = tokenizers["placeholders"]
    count = pair.target.tokenize([translation]).row_lengths()[0]
    read = {0: 0, int(count) - 1: int(pair.source.tokenize(take_out([text], True).text).row_lengths()[0]) - 1}
    assert written(pair, [text], [translation], [[read.get(place, 0) for place in range(count)]]) == [expected]


def test_beyond_the_placeholders_spans_are_put_back_by_the_alignment(tokenizers):
    spans = [f"{{{number}}}" for number in range(len(PLACEHOLDERS) + 2)]
    text = " ".join(spans)
    alignment = [0] * 2 * len(PLACEHOLDERS)
    assert written(tokenizers["placeholders"], [text], [" ".join(PLACEHOLDERS)], [alignment]) == [text]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "placeholders"])
def test_each_span_comes_out_once_and_the_rest_stays(tokenizers, kind):
    """Whatever the model writes, and whatever it attends to; 40 texts in a batch."""
    generator, pair = random.Random(kind), tokenizers[kind]
    texts, spans_of, says_of, translations = [], [], [], []
    for _ in range(40):
        spans_of.append(generator.choices(SPANS[:-1], k=generator.randrange(4)))
        words = generator.sample(SOURCE_WORDS, 5) + spans_of[-1]
        generator.shuffle(words)
        texts.append(" ".join(words))
        says_of.append(generator.sample(TARGET_WORDS, 6))
        with_placeholders = says_of[-1] + generator.choices(PLACEHOLDERS, k=3) * (kind == "placeholders")
        generator.shuffle(with_placeholders)
        translations.append(" ".join(with_placeholders))
    counts = pair.target.tokenize(translations).row_lengths().numpy()
    read = pair.source.tokenize(take_out(texts, kind == "placeholders").text).row_lengths().numpy()
    alignments = [[generator.randrange(most) for _ in range(count)] for most, count in zip(read, counts, strict=True)]
    results = written(pair, texts, translations, alignments)
    for rest, spans, says, translation in zip(results, spans_of, says_of, translations, strict=True):
        for span in sorted(spans, key=len, reverse=True):
            assert span in rest
            rest = rest.replace(span, " ", 1)
        assert rest.split() == [word for word in translation.split() if word in says]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_the_tokens_before_a_span_are_counted_as_far_as_the_model_reads(tokenizers, kind):
    source = tokenizers[kind].source
    taken = take_out(["{x}the {x}dogs {x} <b>sees</b> ", "", "große {x} Katze"], placeholders=False)
    text, ends = taken.text.numpy(), taken.before.numpy()
    read = [[text[row][:end].decode() for end in ends[row]] for row in range(len(text))]
    expected = [source.tokenize(row).row_lengths().numpy().tolist() for row in read]
    assert _count_tokens(source, taken.text, taken.before, longest=20).numpy().tolist() == expected
    cut = _count_tokens(source, tf.constant(["dog " * 100_000]), tf.constant([[12, 400_000]]), longest=20)
    assert cut[0, 0] == 3 and cut[0, 1] >= 20


@pytest.mark.parametrize("blank", [" ", "\n", "\u3000"])
def test_a_row_of_blanks_counts_as_one_however_short_the_other_texts_are(tokenizers, blank):
    source = tokenizers["bpe"].source
    texts = ["the" + 1_000 * blank + "dogs <b>sees</b>", "Katze {x}"]
    taken = take_out(texts, placeholders=False)
    longest = source.tokenize(taken.text).bounding_shape()[1]
    expected = source.tokenize(["the dogs", "the dogs sees"]).row_lengths().numpy().tolist()
    assert _count_tokens(source, taken.text, taken.before, longest)[0].numpy().tolist() == expected
    assert b"<b>" in taken.spans.numpy() and 1_000 * blank.encode() not in taken.text.numpy()[0]


def test_without_spans_nothing_changes():
    texts = ["the dog", "", "  two  blanks ", "3 dogs < 4", "a \x1d b"]
    taken = take_out(texts, True)
    assert [text.decode() for text in taken.text.numpy()] == [*texts[:-1], "a   b"]
    assert taken.spans.shape == (5, 0)
