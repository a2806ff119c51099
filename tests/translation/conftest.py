"""The tiny run as a translator and as a SavedModel, and what its model says by the equations alone."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.decoding.by_hand import log_softmax
from tests.tiny_run import tiny_run
from tf_transformer.decoding import DecodingOptions
from tf_transformer.runs.loading import load_model
from tf_transformer.tokenizers.base import END_ID, START_ID
from tf_transformer.translation import Translator


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """The tiny run with the options that its recipe has."""
    run = tiny_run(tmp_path_factory.getbasetemp())
    return Translator(load_model(run.path), run.load_tokenizers(), DecodingOptions(extra_length=10))


@pytest.fixture(scope="module")
def loaded(tiny_loaded):
    """The tiny run's export."""
    return tiny_loaded


def with_nothing_but(translator: Translator, *functions: str) -> Translator:
    """Takes the other graphs out, which its export would hold too."""
    translator.functions = {name: translator.functions[name] for name in functions}
    del translator._any, translator._attend
    return translator


# What it was exported with, as `translate_with_options` takes it.
OPTIONS = {
    "beam_size": 4,
    "num_hypotheses": 1,
    "alpha": 0.6,
    "min_length": 1,
    "max_length": 0,
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
    "replace_unknown": False,
    "protect": False,
    "no_repeat_ngram_size": 0,
}


def with_options(loaded, texts, prefix=None, **changes):
    """What the signature `translate_with_options` gives, as arrays."""
    signature = loaded.signatures["translate_with_options"]
    types = signature.structured_input_signature[1]
    given = {"text": texts, "prefix": [""] * len(texts) if prefix is None else prefix, **OPTIONS, **changes}
    tensors = {name: tf.constant(value, types[name].dtype) for name, value in given.items()}
    return {name: value.numpy() for name, value in signature(**tensors).items()}


class ByDefinition:
    """A translator's model as float64 NumPy, one sentence at a time, with no cache and no padding."""

    def __init__(self, translator: Translator) -> None:
        self.model, self.tokenizers = translator.model, translator.tokenizers
        self.weights = reference.weights_of(self.model)

    def source(self, text: str) -> list[int]:
        """A text's tokens, and the closing one."""
        return [*self.tokenizers.source.tokenize([text]).to_list()[0], END_ID]

    def target(self, text: str) -> list[int]:
        """A translation's tokens, and the closing one."""
        return [*self.tokenizers.target.tokenize([text]).to_list()[0], END_ID]

    def run(self, source: list[int], target: list[int]):
        """Each target token's log-probabilities, (length, vocabulary), and the weights (layers, heads, rows, columns).

        The closing token's are the last row, whether or not `target` holds it.
        """
        logits, weights = reference.transformer(
            self.weights,
            np.array([source]),
            np.array([[START_ID, *(token for token in target if token != END_ID)]]),
            num_layers=self.model.num_layers,
            num_heads=self.model.num_heads,
            norm_first=self.model.norm_first,
            position=self.model.decoder.position,
            share_embeddings=self.model.share_embeddings,
        )
        return log_softmax(logits[0]), {kind: np.stack(layers)[:, 0] for kind, layers in weights.items()}

    def token_scores(self, source: list[int], target: list[int]) -> np.ndarray:
        """The log-probability of each token of `target`."""
        log_probabilities, _ = self.run(source, target)
        return log_probabilities[np.arange(len(target)), target]

    def score(self, text: str, translation: str, alpha: float) -> float:
        """What a translation is ranked by."""
        target = self.target(translation)
        return self.token_scores(self.source(text), target).sum() / ((5 + len(target)) / 6) ** alpha


@pytest.fixture(scope="module")
def by_definition(translator):
    return ByDefinition(translator)
