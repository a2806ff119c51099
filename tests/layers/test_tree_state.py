"""What a decoder is told of a tree, against a stack machine; and that the search is told the same."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from tests import reference
from tests.parsing.random_trees import LABELS, TAGS, trees
from tf_transformer import SmoothedCrossEntropy, Transformer, TreeState
from tf_transformer.parsing import linearise

# Ids of a tree's tokens, from 4: the tags, then the brackets of each label.
TOKENS = [*TAGS, *(bracket + label for label in LABELS for bracket in "()")]
IDS = {token: place for place, token in enumerate(TOKENS, start=4)}
SIZE = len(TOKENS) + 4
WRITING = [IDS[tag] for tag in TAGS]
OPENING, CLOSING = [IDS[f"({label}"] for label in LABELS], [IDS[f"){label}"] for label in LABELS]
BEGINNING = [3, 5, 6, 7, 8, 9, 10]
TOLD = [BEGINNING, WRITING, OPENING, CLOSING]
SIZES = {"num_layers": 1, "d_model": 16, "num_heads": 2, "dff": 24, "max_length": 64}
VOCABULARIES = {"input_vocab_size": 20, "target_vocab_size": SIZE}


@pytest.fixture(scope="module")
def layer():
    return TreeState(8, 20, SIZE, *TOLD)


def by_a_stack(tokens):
    """The state of a tree of which these tokens have been written."""
    stack, words, empty = [(0, -1), (0, -1)], 0, 0  # label and first word; what is around the root
    for token in tokens:
        empty = empty + 1 if token[0] == "(" else 0
        if token in TAGS:
            words += 1
        elif token[0] == "(":
            stack.append((LABELS.index(token[1:]) + 1, words))
        else:
            stack.pop()
    (parent, _), (label, first) = stack[-2:]
    return {"next": words, "last": words - 1, "first": first, "label": label, "parent": parent, "empty": empty}


@settings(max_examples=40, deadline=None)
@given(tree=trees)
def test_it_follows_a_tree(layer, tree):
    """At every position: the position's own tokens so far are one tree of the batch's."""
    tokens = linearise(tree, tags=True)
    ids = np.array([2, *(IDS[token] for token in tokens)])
    so_far = np.tril(np.broadcast_to(ids, (len(ids), len(ids))))
    state = {name: value[0].numpy() for name, value in layer.follow(so_far[None]).items()}
    for position in range(len(ids)):
        assert {name: value[position] for name, value in state.items()} == by_a_stack(tokens[:position])


def test_padding_may_stand_anywhere(layer):
    """As a search has it, in whose cache the tokens of other hypotheses lie between those of one."""
    random = np.random.default_rng(0)
    ids = random.choice(SIZE, 30)
    apart = np.zeros(90, int)
    apart[np.sort(random.choice(89, 30, replace=False))] = ids
    for name, value in layer.follow(apart[None, None]).items():
        np.testing.assert_array_equal(value, layer.follow(ids[None, None])[name])


def test_it_is_its_definition():
    layer = reference.randomise(built(TreeState(8, 20, SIZE, *TOLD)))
    last, first, labels, empty = layer.get_weights()
    tree = ["(S", "(NP", "DT", "NN", ")NP", "(VP", "NN", "(NP", "NN", ")NP", ")VP", ".", ")S"]
    source = np.array([[5, 15, 6, 7, 16, 17, 8, 9, 3, 0]])  # 15 to 17 go on with a word, 3 comes last
    context = np.random.default_rng(1).standard_normal((1, 10, 8)).astype("float32")
    words = context[0, np.isin(source[0], BEGINNING)]
    target = np.array([[2, *(IDS[token] for token in tree)]])
    told = layer(source, target, context).numpy()[0]
    for position in range(target.shape[1]):
        state = by_a_stack(tree[:position])
        learned = labels[state["label"]] + labels[len(LABELS) + 1 + state["parent"]] + empty[min(state["empty"], 7)]
        expected = words[state["next"]] + learned * 8**0.5
        if state["last"] >= 0:
            expected = expected + words[state["last"]] @ last
        if state["first"] >= 0:
            expected = expected + words[state["first"]] @ first
        np.testing.assert_allclose(told[position], expected, rtol=0, atol=1e-5)


def built(layer):
    layer.build((None, None), (None, None), (None, None, 8))
    return layer


def of_words_of(tokens):
    """What each word is to tell, by hand: its token, brackets closed, opened behind it, label between, last opened."""
    found, path = [], []
    for place, token in enumerate(tokens):
        if token[0] == "(":
            path.append(token[1:])
        elif token[0] == ")":
            path.pop()
        else:
            inside, behind = list(path), 0
            while place + behind + 1 < len(tokens) and tokens[place + behind + 1][0] == ")":
                inside.pop()
                behind += 1
            rest = tokens[place + behind + 1 :]
            opened = list(itertools.takewhile(lambda each: each[0] == "(", rest))
            number = [LABELS.index(label) + 1 for label in (*inside[-1:], *(each[1:] for each in opened[-1:]))]
            label = number[0] if inside else 0
            found.append([IDS[token], min(behind, 12), min(len(opened), 12), label, number[-1] if opened else 0])
    return found


@settings(max_examples=40, deadline=None)
@given(tree=trees)
def test_what_words_are_to_tell(layer, tree):
    """The words are in the source with other pieces between them, and the closing token behind."""
    tokens = linearise(tree, tags=True)
    expected = of_words_of(tokens)
    source = np.array([[*itertools.chain(*([5, 15] for _ in expected)), 3, 0]])
    targets, is_word = layer.word_targets(source, np.array([[2, *(IDS[token] for token in tokens), 0]]))
    assert is_word.numpy()[0].tolist() == [1.0, 0.0] * len(expected) + [0.0, 0.0]
    assert targets.numpy()[0, : 2 * len(expected) : 2].tolist() == expected


def constituents(tokens):
    """First word, last word and label of each constituent, by a stack."""
    found, path, words = [], [], 0
    for token in tokens:
        if token[0] == "(":
            path.append((words, LABELS.index(token[1:]) + 1))
        elif token[0] == ")":
            first, label = path.pop()
            found.append((first, words - 1, label))
        else:
            words += 1
    return found


def by_definition(layer, tokens, words):
    """Both parts of a tree's loss; `words` is the encoder's output at each word, float64 (words, 8)."""
    layers = {each.name: [weight.astype("float64") for weight in each.get_weights()] for each in layer.spans._layers}
    layers["words"] = [weight.astype("float64") for weight in layer.words.get_weights()]

    def dense(name, x):
        kernel, bias = layers[name]
        return x @ kernel + bias

    def cross_entropy(logits, target):
        return np.log(np.exp(logits).sum()) - logits[target]

    of_words = 0.0
    for state, classes in zip(words, of_words_of(tokens), strict=True):
        parts = np.split(dense("words", state), np.cumsum([SIZE, 13, 13, len(LABELS) + 1]))
        of_words += sum(cross_entropy(part, each) for part, each in zip(parts, classes, strict=True))
    found, of_spans = constituents(tokens), 0.0
    for first, last in itertools.combinations_with_replacement(range(len(words)), 2):
        logit = dense("first", words[first]) @ dense("last", words[last]) / 8**0.5 + float(layer.spans.bias)
        probability = 1 / (1 + np.exp(-logit))
        is_one = any((first, last) == (each[0], each[1]) for each in found)
        of_spans -= np.log(probability if is_one else 1 - probability)
    for first, last, label in found:
        hidden = dense("first_of_label", words[first]) + dense("last_of_label", words[last])
        of_spans += cross_entropy(dense("label", np.maximum(hidden, 0)), label)
    return of_words, of_spans


def test_the_loss_of_a_tree_is_a_sum_of_cross_entropies():
    """Some trees have a constituent that is the only part of another, and sentences have pieces between their words."""
    layer = reference.randomise(built(TreeState(8, 20, SIZE, *TOLD, tree_loss=True)))
    trees = [
        ["(S", "(NP", "DT", ")NP", "NN", ")S"],
        ["(S", "NN", ")S"],
        ["(S", "(VP", "(NP", "DT", "NN", ")NP", ")VP", ")S"],
    ]
    source = np.array([[5, 15, 6, 3], [7, 3, 0, 0], [5, 15, 6, 3]])
    target = np.zeros((3, 10), int)
    for row, tree in zip(target, trees, strict=True):
        row[: len(tree) + 1] = [2, *(IDS[token] for token in tree)]
    context = np.random.default_rng(1).standard_normal((3, 4, 8)).astype("float32")
    expected = np.array(
        [
            by_definition(layer, tree, states[np.isin(row, BEGINNING[1:])].astype("float64"))
            for tree, states, row in zip(trees, context, source, strict=True)
        ]
    )
    np.testing.assert_allclose(layer.loss_of_words(source, target, context), expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(layer.loss_of_spans(source, target, context), expected[:, 1], rtol=1e-5)
    np.testing.assert_allclose(layer.loss_of_tree(source, target, context), expected.sum(axis=1), rtol=1e-5)


@pytest.mark.thorough
def test_a_step_adds_the_loss_of_the_trees():
    """Over the whole batch's tokens, whatever parts it is worked on in, and with R-Drop the mean of both passes."""
    tree = [IDS[token] for token in ["(S", "(NP", "DT", "NN", ")NP", "(VP", "NN", ")VP", ")S"]]
    source = np.array([[5, 6, 7, 3], [5, 6, 7, 3]])
    x, y = (source, np.array([[2, *tree]] * 2)), np.array([[*tree, 3]] * 2)

    def loss_of(parts=1, r_drop=0.0, **changes):
        model = model_of(dropout_rate=0.0, **changes)
        model.parallel_parts = parts
        model.compile(keras.optimizers.SGD(0.0), SmoothedCrossEntropy(0.1, r_drop))
        return model, model.train_on_batch(x, y)

    model, with_it = loss_of(tree_loss=0.5)
    further = 0.5 * model.told.loss_of_tree(*x, model.encoder(source)).numpy().sum() / y.size
    plain = float(SmoothedCrossEntropy(0.1)(y, model(x)))
    assert further > 0.01
    assert with_it == pytest.approx(plain + further, rel=1e-4)
    assert loss_of(tree_loss=0.5, parts=2, r_drop=3.0)[1] == pytest.approx(with_it, rel=1e-4)
    assert float(model.evaluate(x, y, verbose=0)) == pytest.approx(plain, rel=1e-4)


def test_the_loss_of_trees_needs_the_state():
    with pytest.raises(ValueError, match="tree_loss must be 0 or more, and 0 without tree_state, got 0.5"):
        Transformer(**SIZES, **VOCABULARIES, tree_loss=0.5)


def test_a_step_that_cannot_add_the_loss_of_the_trees_refuses():
    """That of Keras, over logits."""
    model = model_of(tree_loss=0.5)
    metrics = [keras.metrics.SparseCategoricalAccuracy()]
    model.compile(keras.optimizers.SGD(0.0), SmoothedCrossEntropy(0.1), metrics=metrics, run_eagerly=True)
    ids = np.array([[5, 6, 7, 3]])
    with pytest.raises(ValueError, match="^r_drop, tree_loss, .* need the loss SmoothedCrossEntropy, no metrics but"):
        model.train_on_batch((ids, ids), ids)


def model_of(**changes):
    keras.utils.set_random_seed(0)
    model = Transformer(**SIZES, **VOCABULARIES, tree_state=TOLD, **changes)
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


@pytest.mark.parametrize("norm_first", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_its_steps_are_the_whole(norm_first):
    """Of any tokens, those of no tree too."""
    random = np.random.default_rng(2)
    source, target = random.integers(3, 20, (3, 12)).astype("int32"), random.integers(4, SIZE, (3, 16)).astype("int32")
    source[1, 7:], target[0, 10:] = 0, 0
    model = model_of(norm_first=norm_first)
    stepper, expected = model.stepper(), model((source, target))
    cache = stepper.start_cache(source)
    for position in range(target.shape[1]):
        logits, cache = stepper.step(target[:, position], position, cache, np.ones((1, 1, position + 1), bool))
        np.testing.assert_allclose(logits, expected[:, position], rtol=0, atol=1e-4)


def test_every_weight_learns():
    """The projections and the labels are told apart by what the model writes."""
    model = model_of()
    tree = [IDS[token] for token in ["(S", "(NP", "DT", "NN", ")NP", "(VP", "NN", ")VP", ")S"]]
    source, target = np.array([[5, 6, 7, 3]]), np.array([[2, *tree]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model((source, target), training=True)))
    weights = model.told.weights
    for weight, gradient in zip(weights, tape.gradient(loss, [each.value for each in weights]), strict=True):
        assert np.any(gradient), weight.path


def test_its_weights_are_counted():
    """Of width 16; the labels that a constituent and the one around it can have are those there are, and none."""
    labels = len(LABELS) + 1
    # Two projections, the embeddings of both constituents' labels, and of 0 to 7 empty ones.
    of_state = 2 * 16 * 16 + (2 * labels + 8) * 16
    assert model_of().told.count_params() == of_state
    # What a word tells: a tag, 0 to 12 brackets before and behind it, two labels. What a span tells: its label.
    of_words = (16 + 1) * (SIZE + 2 * 13 + 2 * labels)
    of_spans = 4 * (16 + 1) * 16 + (16 + 1) * labels + 1
    assert model_of(tree_loss=0.5).told.count_params() == of_state + of_words + of_spans


@pytest.mark.parametrize("name", ["opening", "writing", "opening_brackets", "closing_brackets"])
def test_what_is_no_token_is_refused(name):
    given = dict(zip(("opening", "writing", "opening_brackets", "closing_brackets"), TOLD, strict=True))
    with pytest.raises(ValueError, match=f"{name} must be tokens from 0 to .*, got 'XX'"):
        TreeState(8, 20, SIZE, **{**given, name: ["XX"]})
