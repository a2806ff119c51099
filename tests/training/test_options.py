"""With each option of a recipe, a shrunk model learns: 200 steps on fixed data lower its loss well below chance."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.recipe.recipes import DEMO
from tf_transformer import SmoothedCrossEntropy, load_recipe
from tf_transformer.experiment import make_model
from tf_transformer.training.loss_scaling import LossScaling
from tf_transformer.training.step_count import steps_taken

VOCABULARY, ROWS, LENGTH, STEPS = 20, 8, 6, 200
SHRUNK = [
    *("model.num_layers=1", "model.d_model=16", "model.num_heads=2", "model.dff=32"),
    *(f"training.steps={STEPS}", f"training.validate_every={STEPS}", "training.warmup_steps=40"),
    "training.distribution=single",
]
OPTIONS = {
    "paper": [],
    "pre-norm": ["model.norm_first=true"],
    "learned positions": ["model.position=learned"],
    "attention dropout": ["model.attention_dropout_rate=0.2"],
    "activation dropout": ["model.activation_dropout_rate=0.2"],
    "inverse square root": [
        *("training.schedule=inverse_sqrt", "training.learning_rate=0.01", "training.learning_rate_scale=1.0")
    ],
    "cosine": ["training.schedule=cosine", "training.learning_rate=0.01", "training.learning_rate_scale=1.0"],
    "weight decay": ["training.weight_decay=0.1"],
    "clipping": ["training.clip_norm=0.5"],
    "moving average": ["training.ema=0.95"],
    "R-Drop": ["training.r_drop=1.0"],
    "gradient accumulation": ["training.gradient_accumulation=3"],
    "parts side by side": ["training.parallel_parts=2"],
    "bfloat16": ["training.precision=mixed_bfloat16"],
    "float16": ["training.precision=mixed_float16"],
    "XLA": ["training.jit_compile=true"],
    "XLA and gradient accumulation": ["training.jit_compile=true", "training.gradient_accumulation=2"],
    "XLA and R-Drop": ["training.jit_compile=true", "training.r_drop=1.0"],
    "steps per execution": ["training.steps_per_execution=50"],
}
OPTIONS["several at once"] = [
    *OPTIONS["pre-norm"],
    *OPTIONS["learned positions"],
    *OPTIONS["attention dropout"],
    *OPTIONS["activation dropout"],
    *OPTIONS["cosine"],
    *OPTIONS["weight decay"],
    *OPTIONS["clipping"],
    *OPTIONS["R-Drop"],
]
# The others, each alone, are slow. Parts, XLA and float16 are held to the plain step in test_steps.py, and the paper's
# model and bfloat16 learn in other quick tests too.
MARKS = {"several at once": ()} | dict.fromkeys(["paper", "bfloat16", "float16"], pytest.mark.thorough)


def test_each_option_reaches_the_model():
    """A model learns with an option left out too. The optimizer's options have a test of their own."""
    arguments = {
        "attention_dropout_rate": 0.2,
        "activation_dropout_rate": 0.3,
        "norm_first": True,
        "position": "learned",
        "share_embeddings": "none",
        "key_dim": 5,
        "value_dim": 7,
    }
    training = {
        "label_smoothing": 0.3,
        "r_drop": 2.0,
        "gradient_accumulation": 3,
        "parallel_parts": 2,
        "steps_per_execution": 50,
        "precision": "mixed_bfloat16",
    }
    changes = [f"model.{key}={value}" for key, value in arguments.items()]
    changes += [f"training.{key}={value}" for key, value in training.items()]
    model, usual = (make_model(load_recipe(DEMO, [*SHRUNK, *more]), VOCABULARY, VOCABULARY) for more in (changes, []))

    def found(model):
        config = model.get_config()
        return [
            {key: config[key] for key in arguments},
            {
                "label_smoothing": model.loss.label_smoothing,
                "r_drop": model.loss.r_drop,
                "gradient_accumulation": model.gradient_accumulation,
                "parallel_parts": model.parallel_parts,
                "steps_per_execution": model.steps_per_execution,
                "precision": model.dtype_policy.name,
            },
        ]

    assert found(model) == [arguments, training]
    for ours, before in zip([arguments, training], found(usual), strict=True):
        assert all(ours[key] != before[key] for key in ours)
    assert not usual.jit_compile
    assert make_model(load_recipe(DEMO, [*SHRUNK, "training.jit_compile=true"]), VOCABULARY, VOCABULARY).jit_compile
    half = make_model(load_recipe(DEMO, [*SHRUNK, *OPTIONS["float16"]]), VOCABULARY, VOCABULARY)
    assert half.dtype_policy.name == "mixed_float16" and isinstance(half.optimizer, LossScaling)


def fixed_data():
    """Source ids, target ids and labels of sentences that have nothing to do with each other but are to be learned."""
    random = np.random.default_rng(0)
    source, labels = (random.integers(4, VOCABULARY, (ROWS, LENGTH)).astype("int32") for _ in range(2))
    source[0, 4:] = labels[1, 3:] = 0
    target = np.pad(labels, [(0, 0), (1, 0)], constant_values=2)[:, :-1] * (labels != 0)
    return (source, target), labels


def loss_of_guessing(labels):
    """The smoothed loss of a model that knows how frequent each token is, and nothing else."""
    found = np.bincount(labels[labels != 0], minlength=VOCABULARY)
    share = 0.9 * found / found.sum() + 0.1 / VOCABULARY
    return -(share * np.log(share)).sum()


@pytest.mark.parametrize("option", [pytest.param(name, marks=MARKS.get(name, pytest.mark.slow)) for name in OPTIONS])
def test_it_learns(option):
    keras.utils.set_random_seed(1)
    recipe = load_recipe(DEMO, [*SHRUNK, *OPTIONS[option]])
    model = make_model(recipe, VOCABULARY, VOCABULARY)
    inputs, labels = fixed_data()

    def loss():
        return float(SmoothedCrossEntropy(0.1)(labels, model(inputs)))

    chance = loss_of_guessing(labels)
    assert loss() > chance
    batches = tf.data.Dataset.from_tensors((inputs, labels)).repeat()
    model.fit(batches, steps_per_epoch=STEPS, shuffle=False, verbose=0)
    assert steps_taken(model) == STEPS
    assert loss() < 0.5 * chance
