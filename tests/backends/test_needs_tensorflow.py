"""What only TensorFlow can do says so on another backend; the command takes TensorFlow by itself (tests/cli)."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import tf_transformer as tt
from tf_transformer import experiment

model = tt.Transformer(1, 8, 2, 16, input_vocab_size=290, target_vocab_size=290, max_length=64)
tokenizers = tt.train_tokenizers([("a dog", "ein Hund"), ("a cat", "eine Katze")], vocab_size=290)
recipe = tt.load_recipe(sys.argv[1])
for attempt in lambda: tt.Translator(model, tokenizers), lambda: experiment.train(recipe, sys.argv[2]):
    try:
        attempt()
    except tt.UserError as error:
        print(error)
"""


def test_what_needs_tensorflow_says_so(tmp_path):
    pytest.importorskip("jax", reason="needs JAX: pip install -e '.[jax]'")
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, "train/recipes/demo.yaml", tmp_path / "run"],
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    needs = "needs Keras's TensorFlow backend, but this process uses jax: set the environment variable KERAS_BACKEND"
    translator, training = process.stdout.splitlines()
    assert translator.startswith(f"a Translator {needs}")
    assert training.startswith(f"a training from a recipe {needs}")
    assert list(tmp_path.iterdir()) == []
