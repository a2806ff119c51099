"""Every sentence has one tree over exactly its words, whatever the model thinks of it."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eager import eagerly
from tests.parsing.random_parser import (
    MAX_LENGTH,
    SENTENCES,
    assert_scores_are_those_of_the_trees,
    make_parser,
    penalty_of,
)
from tests.recipe.recipes import DEMO
from tf_transformer import DecodingOptions, Ensemble
from tf_transformer.decoding import beam_search, shift_right
from tf_transformer.errors import UserError
from tf_transformer.parsing import linearise, read_tree
from tf_transformer.parsing import parser as parser_module
from tf_transformer.parsing.parser import Parser, words_of
from tf_transformer.parsing.sentences import evaluate_parses, load_parse, parse_function, parse_sentences
from tf_transformer.recipe import load_recipe, save_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.tokenizers.base import END_ID, START_ID
from tf_transformer.translation import loading

TEXTS = [sentence for sentence, _ in SENTENCES]


@pytest.fixture(scope="module", params=[pytest.param(False, marks=pytest.mark.thorough), True], ids=["XX", "tags"])
def parser(request):
    return make_parser(seed=1, tags=request.param, beam_size=3, extra_length=12)


def parsed(parser, texts):
    """(tree, mended) of each text; no tree where it has no words."""
    output = parser.parse(tf.constant(texts, tf.string))
    trees = [tree.decode() for tree in output["tree"].numpy()]
    return [(read_tree(tree) if tree else None, bool(m)) for tree, m in zip(trees, output["mended"], strict=True)]


def check(parser, sentences):
    for words, (tree, mended) in zip(sentences, parsed(parser, [" ".join(words) for words in sentences]), strict=True):
        if not words:
            assert (tree, mended) == (None, False)
            continue
        assert tree.words() == [word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words]
        assert {leaf.tag for leaf in tree.leaves()} <= {*parser.tokenizers.target.tags, *(["XX"] if mended else [])}
        assert mended == (len(words) > MAX_LENGTH - 3)
        if not mended:
            assert len(linearise(tree)) < MAX_LENGTH


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("seed", "options"), [(2, {"beam_size": 1}), (3, {"beam_size": 5, "alpha": 0.0}), (2, {"extra_length": 0})]
)
def test_there_is_a_tree_for_every_length(seed, options):
    sentences = [["word"] * length for length in (0, 1, 2, 5, MAX_LENGTH - 3, MAX_LENGTH - 2, MAX_LENGTH, 60)]
    check(make_parser(seed, **options), [*sentences, *(text.split() for text in TEXTS)])


# What no blank is to Python nor to TensorFlow: a sentence's words are what `str.split` gives.
WORD = st.text(min_size=1).map(lambda text: "".join(text.encode("utf-8", "ignore").decode().split())).filter(bool)


def test_it_parts_words_where_python_does():
    blanks = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
    others = ["\x1b", "\x84", "\u180e", "\u200b", "\u2060", "\ufeff", "´"]
    texts = [f"{each}a{each}b c{each}{each}d{each}" for each in [*blanks, *others]]
    assert len(blanks) > 20
    assert [[word.decode() for word in words] for words in words_of(tf.constant(texts)).to_list()] == [
        text.split() for text in texts
    ]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(WORD | st.sampled_from(["(", ")", "a)", "-LRB-", "XX", "(S", ",", "강아지"]), max_size=8)))
def test_a_tree_has_the_words_of_its_sentence(parser, sentences):
    check(parser, sentences)


def test_a_sentence_alone_has_the_tree_that_it_has_in_a_batch(parser):
    together = parser.parse(TEXTS)
    for place, text in enumerate(TEXTS):
        alone = parser.parse([text])
        assert alone["tree"].numpy()[0] == together["tree"].numpy()[place]
        np.testing.assert_allclose(alone["score"][0], together["score"][place], rtol=1e-4)


@pytest.mark.parametrize(
    ("sentences", "told"),
    [("a dog", "sentences is one string; give a list"), ([1], r"sentences must be strings \(")],
    ids=str,
)
def test_what_is_no_list_of_sentences_is_refused(parser, sentences, told):
    with pytest.raises(UserError, match=f"^{told}"):
        parser.parse(sentences)


# More words than a tree has room for; few words of many pieces; and both sentences as short as they should be.
LONG = [" ".join(["dog"] * 22), "Москва Москва Москва", "a dog", ""]


def test_what_is_cut_and_what_had_no_room_is_told(parser):
    whole = parser.parse(LONG)
    assert whole["mended"].numpy().tolist() == [True, False, False, False]
    assert whole["truncated"].numpy().tolist() == [True, True, False, False]
    for grammar in True, False:
        function = parse_function(parser, grammar)
        found = list(parse_sentences(function, [text.split() for text in LONG]))
        assert [parse.truncated for parse in found] == [True, True, False, False]
        assert [parse.tree.words() if parse.tree else [] for parse in found] == [text.split() for text in LONG]
    assert evaluate_parses(parse_function(parser), [read_tree("(S (XX Москва) (XX Москва) (XX Москва))")]).items() >= {
        ("grammar", True),
        ("mended", 0),
        ("truncated", 1),
    }


def test_an_export_of_an_earlier_version_does_not_tell_what_it_cut(monkeypatch, tmp_path):
    def signature(text):
        return {"tree": np.array([b"(S (XX a))"] * len(text)), "score": np.zeros(len(text)), "mended": [True, False]}

    monkeypatch.setattr(loading, "load_signature", lambda path, name, load: signature)
    (tmp_path / "saved_model.pb").touch()
    found = list(parse_sentences(load_parse(tmp_path), [["a"], ["a"]]))
    assert [(parse.mended, parse.truncated) for parse in found] == [(True, False), (False, False)]


@pytest.mark.parametrize("grammar", [True, False])
def test_a_run_s_recipe_says_whether_there_is_a_grammar(monkeypatch, tmp_path, parser, grammar):
    run = RunDirectory.create(tmp_path / "run")
    recipe = load_recipe(DEMO.parent / "parsing_demo.yaml", [f"evaluation.grammar={str(grammar).lower()}"])
    save_recipe(recipe, run.recipe)
    monkeypatch.setattr(loading, "load_translator", lambda path: parser)
    assert load_parse(run.path).grammar is grammar
    assert load_parse(run.path, grammar=not grammar).grammar is not grammar  # what is given comes first


def test_a_score_is_that_of_the_tree(parser):
    assert_scores_are_those_of_the_trees(parser)
    options = DecodingOptions(beam_size=3, extra_length=12, alpha=1.5, length_offset=2.0)
    with eagerly():
        assert_scores_are_those_of_the_trees(Parser(parser.model, parser.tokenizers, options))


def test_a_tree_is_no_longer_than_asked_for_but_for_its_words(parser):
    """Those have room in any case, with the root's brackets and the closing token."""
    short = Parser(parser.model, parser.tokenizers, DecodingOptions(beam_size=3, extra_length=12, max_length=9))
    most = [max(len(text.split()) + 3, 9) for text in TEXTS]

    def lengths(parser):
        return [len(linearise(tree)) + 1 for tree, _ in parsed(parser, TEXTS)]

    with eagerly():
        assert all(length <= limit for length, limit in zip(lengths(short), most, strict=True))
    assert any(length > limit for length, limit in zip(lengths(parser), most, strict=True))


@pytest.mark.parametrize("members", [1, 3])
def test_of_its_hypotheses_it_takes_the_one_that_encoders_and_decoders_find_likeliest(monkeypatch, members):
    """Of an ensemble's models the last has learned no loss of trees, so its encoder is not asked."""
    found = []

    def recorded(*arguments, **options):
        found.append(beam_search(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(parser_module, "beam_search", recorded)
    options = {"told": "tree_state", "tags": True, "beam_size": 4, "extra_length": 12}
    options |= {"alpha": 0.0}
    parser = make_parser(seed=3, tree_loss=0.5, **options)
    learned = [parser.model]
    if members > 1:
        learned += [make_parser(seed, tree_loss=0.5, **options).model for seed in range(6, members + 4)]
        models = [*learned, make_parser(seed=9, **options).model]
        parser = Parser(Ensemble(models), parser.tokenizers, parser.options)
    with eagerly():
        output = parser.parse([*TEXTS[:3], ""])
    ((ids, scores),) = found
    differ = by_other_options = 0
    for place, text in enumerate(TEXTS[:3]):
        source = tf.constant([[*parser.tokenizers.source.tokenize([text]).to_list()[0], END_ID]])
        contexts, totals, by_defaults = [model.encoder(source) for model in learned], [], []
        for hypothesis, score in zip(ids[place], scores[place].numpy(), strict=True):
            penalty = penalty_of(np.count_nonzero(hypothesis), parser.options)
            target = shift_right(hypothesis[None], START_ID)
            losses = [
                model.told.loss_of_tree(source, target, context).numpy()[0]
                for model, context in zip(learned, contexts, strict=True)
            ]
            totals.append(score - np.mean(losses) / penalty)
            by_defaults.append(score - np.mean(losses) / penalty_of(np.count_nonzero(hypothesis), DecodingOptions()))
        best = int(np.argmax(totals))
        by_other_options += best != np.argmax(by_defaults)  # as if it did not know of its alpha
        differ += best != 0
        tokens = parser.tokenizers.target.detokenize(ids[place, best][None]).numpy()[0].decode()
        assert " ".join(linearise(read_tree(output["tree"][place].numpy().decode()), tags=True)) == tokens
        assert output["score"][place] == scores[place, best]
    assert differ and by_other_options and output["tree"].numpy()[-1] == b""


def test_the_length_offset_decides_among_hypotheses_of_unlike_length(monkeypatch):
    """The search is made to find two trees, with scores that lie where the two offsets choose otherwise."""
    trees, offsets = ["(S (NP DT )NP (VP NN )VP )S", "(S DT NN )S"], [0.0, 5.0]
    options = [DecodingOptions(beam_size=2, alpha=1.0, length_offset=offset) for offset in offsets]
    parser = make_parser(seed=3, told="tree_state", tags=True, tree_loss=0.5)
    source = tf.constant([[*parser.tokenizers.source.tokenize(["Dogs bark"]).to_list()[0], END_ID]])
    rows = [[*row, END_ID] for row in parser.tokenizers.target.tokenize(trees).to_list()]
    ids = tf.ragged.constant(rows, tf.int32).to_tensor()
    context = tf.repeat(parser.model.encoder(source), 2, axis=0)
    losses = parser.model.told.loss_of_tree(tf.repeat(source, 2, axis=0), shift_right(ids, START_ID), context).numpy()
    by_encoder = np.array([-losses / penalty_of(np.array([len(row) for row in rows]), each) for each in options])
    scores = np.array([0.0, np.mean(by_encoder[:, 0] - by_encoder[:, 1])])
    best = np.argmax(scores + by_encoder, axis=1)
    assert sorted(best) == [0, 1]
    monkeypatch.setattr(
        parser_module, "beam_search", lambda *given, **named: (ids[None], tf.constant([scores], "float32"))
    )
    for each, place in zip(options, best, strict=True):
        with eagerly():
            (tree,) = Parser(parser.model, parser.tokenizers, each).parse(["Dogs bark"])["tree"].numpy()
        assert " ".join(linearise(read_tree(tree.decode()), tags=True)) == trees[place]
