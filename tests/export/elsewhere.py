"""What stands where a server does: it has TensorFlow and TensorFlow Text, and nothing of ours.

The program reads a question as JSON, loads the SavedModels that it names, and writes what they answer.
"""

import gc
import json
import sys
from pathlib import Path

import tensorflow as tf


def lists(output):
    assert sorted(output) == ["score", "translation", "truncated"], output
    columns = {key: value.numpy().tolist() for key, value in output.items()}
    return {**columns, "translation": [text.hex() for text in columns["translation"]]}


def answers_of(model, batches):
    """By name of the batch: what a translator makes of it, and of each of its texts alone."""
    translate = model.signatures["translate"]
    return {
        name: {
            "together": lists(translate(text=texts)),
            "one by one": [lists(translate(text=texts[row : row + 1])) for row in range(len(texts))],
        }
        for name, texts in batches.items()
    }


def found_of_compiled(model, texts):
    """How many searches are compiled, and how long a memory they have, before and after somebody asks for one."""

    def warm():
        return int(model.translator._compiled.warm.numpy().sum())

    def width(rows):
        return model.translator._best(tf.constant([[5, 6, 3]] * rows))[0].shape[2]

    before = [warm(), width(5)]
    asked = model.signatures["warm_up"](rows=tf.constant([7, 33]), lengths=tf.constant([30, 9]))
    return {
        "before": before,
        "asked": asked["compiled"].numpy().tolist(),
        "answers": lists(model.signatures["translate"](text=texts)),
        "after": [warm(), width(5), width(3)],
    }


def trees_of(path, texts):
    """What each signature of a parser makes of texts."""
    parser = tf.saved_model.load(path)
    outputs = {name: parser.signatures[name](text=tf.constant(texts)) for name in ("parse", "serving_default")}
    return {name: [tree.decode() for tree in output["tree"].numpy()] for name, output in outputs.items()}


def check_that_nothing_needs_another(models, path, batch, expected):
    """The first of the models, which lies at that path."""
    texts = tf.constant(batch)
    assert lists(models[0].translate(texts)) == expected
    assert lists(models[0].signatures["serving_default"](text=texts)) == expected
    # The same one twice: neither needs the other, nor the kernels that TensorFlow drops when a seed is set.
    again = tf.saved_model.load(path)
    tf.random.set_seed(1)
    assert lists(models[0].translate(texts)) == lists(again.translate(texts)) == expected
    models.clear()
    gc.collect()
    assert lists(again.translate(texts)) == expected
    # In one expression, nothing but the signature holds on to what was loaded.
    assert lists(tf.saved_model.load(path).signatures["translate"](text=texts)) == expected


def main():
    sys.modules["tf_transformer"] = None  # whoever imports it fails, installed or not
    # As in the tests' own processes; those of tests/cli/test_processes.py translate with graphs that are made faster.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    question = json.load(sys.stdin)
    lists_of_ops = [Path(path, "assets.extra", "ops.txt").read_text().split() for path in question["paths"]]
    foreign = [[op for op in ops if not hasattr(tf.raw_ops, op)] for ops in lists_of_ops]
    import tensorflow_text  # noqa: F401  its ops, which are the foreign ones

    batches = {
        name: tf.constant([bytes.fromhex(text) for text in texts], tf.string, shape=[len(texts)])
        for name, texts in question["batches"].items()
    }
    # All at once in one process: none may take another's vocabulary for its own.
    models = [tf.saved_model.load(path) for path in question["paths"]]
    answers = [answers_of(model, batches) for model in models]
    compiled = found_of_compiled(models[question["compiled"]], batches["seven"])
    trees = trees_of(question["parser"], question["sentences"])
    of_first = answers[0]["the issue's"]["together"]
    check_that_nothing_needs_another(models, question["paths"][0], batches["the issue's"], of_first)
    assert not [name for name in sys.modules if name.startswith("tf_transformer.")]
    json.dump({"answers": answers, "foreign ops": foreign, "compiled": compiled, "trees": trees}, sys.stdout)


if __name__ == "__main__":
    main()
