"""Recipes to test with, and how one is refused."""

from pathlib import Path

import pytest
import yaml

from tf_transformer.errors import UserError
from tf_transformer.recipe import load_recipe

FOLDER = Path(__file__).resolve().parents[2] / "train" / "recipes"
RECIPES = sorted(FOLDER.rglob("*.yaml"))
DEMO = FOLDER / "demo.yaml"
MULTI30K = FOLDER / "multi30k_en_de.yaml"
BASE = FOLDER / "wmt14_en_de_base.yaml"


def recipe_id(path):
    return str(path.relative_to(FOLDER).with_suffix(""))


SMALLEST = """
name: small
data: {kind: demo}
tokenizer: {vocab_size: 300}
model: {num_layers: 1, d_model: 8, num_heads: 2, dff: 16}
training: {steps: 10, validate_every: 5}
"""

# Every key with its default, as the recipe's design lists them.
DEFAULTS = yaml.safe_load("""
name: small
seed: 1
task: translation
init_from: null
data: {kind: demo, root: null, dataset: null, source_language: en, target_language: de, train: train,
  validation: validation, test: test, tags: false, invalid_utf8: error, damaged: error, max_length: 128,
  max_ratio: null, placeholders: 0.0, alignments: null, batch_tokens: 4096, prepared: null}
tokenizer: {kind: bpe, vocab_size: 300, joint: true, keep: true}
model: {kind: transformer, preset: null, num_layers: 1, decoder_layers: null, d_model: 8, num_heads: 2, dff: 16,
  dropout_rate: 0.1, attention_dropout_rate: 0.0, activation_dropout_rate: 0.0, key_dim: null, value_dim: null,
  norm_first: false, norm_epsilon: 1.0e-6, activation: relu,
  position: sinusoidal, scale_embeddings: true, output_bias: false, window: null, next_word: false, tree_state: false,
  tree_loss: 0.0, alignment_head: null, max_length: 512, share_embeddings: all}
training: {steps: 10, schedule: transformer, warmup_steps: 4000, learning_rate: null, learning_rate_scale: 1.0,
  weight_decay: 0.0, clip_norm: null, ema: null, label_smoothing: 0.1, r_drop: 0.0, alignment_weight: 0.05,
  gradient_accumulation: 1, parallel_parts: 1, precision: float32, jit_compile: false, steps_per_execution: 1,
  validate_every: 5, keep_checkpoints: 5, average_checkpoints: 0, early_stopping: null, save_every_seconds: 60,
  freeze: [], distribution: mirrored, sample_translations: 3}
tensorboard: {attention: 2, bleu: 0, histograms: false, graph: false, embeddings: false, profile: null}
evaluation: {lowercase: false, tokenize: 13a, batch_size: 64, beam_size: 4, alpha: 0.6, length_offset: 5.0,
  extra_length: 50, no_repeat_ngram_size: 0, grammar: true, also: null}
""")


def dotted(mapping, prefix=""):
    """Lists the keys that hold values, with their sections before a dot."""
    for key, value in mapping.items():
        if isinstance(value, dict) and not prefix:
            yield from dotted(value, f"{key}.")
        else:
            yield prefix + key


ALL_KEYS = set(dotted(DEFAULTS))


def refusal(path, *overrides):
    with pytest.raises(UserError) as caught:
        load_recipe(path, overrides)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message
