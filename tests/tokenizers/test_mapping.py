"""Embeddings of a new vocabulary from those of an old one, against what the token strings say, one by one."""

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor

from tests.tiny_run import PAIRS
from tf_transformer.tokenizers import WordPieceTokenizer, map_tokens, train_tokenizers

OTHERS = [("A woman eats the apple pies", "Die Frau isst Apfelkuchen"), ("Our dogs bark", "Unsere Hunde bellen")] * 3


def rows(size, seed):
    return np.random.default_rng(seed).standard_normal((size, 5)).astype("float32")


def by_hand(old_model, new_model, old, initial):
    """The embeddings of SentencePiece's tokens, by their names and SentencePiece's own segmentation."""
    there, here = SentencePieceProcessor(model_proto=old_model), SentencePieceProcessor(model_proto=new_model)
    ids = {there.id_to_piece(i): i for i in range(there.vocab_size())}
    expected, kinds = initial.astype("float64"), []
    for token in range(here.vocab_size()):
        name = here.id_to_piece(token)
        if name in ids:
            expected[token] = old[ids[name]]
            kinds.append("kept")
            continue
        pieces = there.encode(name.replace("▁", " ").strip(), out_type=str)
        if not name.startswith("▁"):  # within a word, where its pieces stand without the mark of a word's beginning
            first = pieces[0].removeprefix("▁")
            pieces = ([first if first in ids else pieces[0]] if first else []) + pieces[1:]
        pieces = [ids[piece] for piece in pieces if ids[piece] != there.unk_id()]
        if pieces:
            expected[token] = sum(old[piece].astype("float64") for piece in pieces) / len(pieces)
        kinds.append("averaged" if pieces else "new")
    return expected, {kind: kinds.count(kind) for kind in ("kept", "averaged", "new")}


@pytest.mark.parametrize(("old_kind", "size"), [("bpe", 340), ("unigram", 310)])
def test_sentencepiece_is_mapped_token_by_token(old_kind, size):
    old = train_tokenizers(PAIRS, old_kind, size).source
    new = train_tokenizers(OTHERS, "bpe", 350).source
    embeddings, initial = rows(size, 0), rows(350, 1)
    mapping = map_tokens(old, new)
    expected, counts = by_hand(old.to_bytes(), new.to_bytes(), embeddings, initial)
    assert mapping.counts() == counts and counts["kept"] > 260 and counts["averaged"] > 20
    np.testing.assert_allclose(mapping.embeddings(embeddings, initial), expected, atol=1e-6)


def test_the_old_tokenizer_is_asked_once(monkeypatch):
    """Some take nearly as long for one text as for a thousand."""
    old, new = WordPieceTokenizer([*SPECIAL, "do", "##g"]), WordPieceTokenizer([*SPECIAL, "dog", "##dog", "elk"])
    asked, encode = [], WordPieceTokenizer.encode
    monkeypatch.setattr(WordPieceTokenizer, "encode", lambda self, texts: asked.append(texts) or encode(self, texts))
    mapping = map_tokens(old, new)
    assert asked == [["dog", "dog", "elk"]] and mapping.averaged == {4: [4, 5], 5: [4, 5]} and mapping.new == [6]


def test_each_token_is_kept_averaged_or_new():
    old, new = (train_tokenizers(pairs, "bpe", 330).source for pairs in (PAIRS, OTHERS))
    mapping = map_tokens(old, new)
    assert sorted([*mapping.kept, *mapping.averaged, *mapping.new]) == list(range(330))


def test_the_same_vocabulary_keeps_every_row():
    tokenizer = train_tokenizers(PAIRS, "bpe", 340).source
    embeddings = rows(340, 0)
    mapping = map_tokens(tokenizer, tokenizer)
    assert mapping.counts() == {"kept": 340, "averaged": 0, "new": 0}
    np.testing.assert_array_equal(mapping.embeddings(embeddings, rows(340, 1)), embeddings)


SPECIAL = ["[PAD]", "[UNK]", "[START]", "[END]"]


def test_wordpiece_within_and_at_the_beginning_of_words():
    old = WordPieceTokenizer([*SPECIAL, "dog", "##s", "do", "##g", "s", "##dog", "cat"])
    new = WordPieceTokenizer([*SPECIAL, "##s", "dogs", "##dogs", "##cat", "elk", "s"])
    mapping = map_tokens(old, new)
    assert mapping.kept == {0: 0, 1: 1, 2: 2, 3: 3, 4: 5, 9: 8}
    # ##dogs is ##dog and ##s; cat is known at the beginning of a word alone, which is better than nothing.
    assert mapping.averaged == {5: [4, 5], 6: [9, 5], 7: [10]}
    assert mapping.new == [8]


def test_from_wordpiece_to_sentencepiece_the_same_words_are_kept():
    old = train_tokenizers(PAIRS, "wordpiece", 90).source
    new = train_tokenizers(PAIRS, "bpe", 340).source
    mapping = map_tokens(old, new)
    names = dict(enumerate(new.pieces(range(340))))
    words = {name: token for token, name in enumerate(old.pieces(range(90)))}
    assert any(name.startswith("▁") and len(name) > 3 for token in mapping.kept if (name := names[token]))
    for token, there in mapping.kept.items():
        if token > 3:
            name = names[token]
            assert words[name[1:] if name.startswith("▁") else f"##{name}"] == there
    # Bytes have names that are no text; nothing is known of them.
    assert {names[token] for token in mapping.new} >= {f"<0x{byte:02X}>" for byte in range(256)}
