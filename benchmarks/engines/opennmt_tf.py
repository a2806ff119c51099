"""OpenNMT-tf with this model's weights, through the SavedModel that it exports: pieces in, pieces out."""

from __future__ import annotations

import json

import numpy as np
from worker import Options, Translate, serve


def export(options: Options) -> None:
    """Writes the SavedModel, through OpenNMT-tf's own model and exporter."""
    from opennmt_model import assign_weights, make_model

    sizes, special = options["sizes"], options["special_ids"]
    with open(options["vocabulary"], encoding="utf-8") as file:
        pieces = json.load(file)
    model = make_model(sizes)
    # Its vocabulary begins with padding, start and end; the unknown token comes last and is not in the file.
    order = [special["pad"], special["start"], special["end"]]
    order += [i for i in range(len(pieces)) if i not in special.values()]
    names = ["<blank>", "<s>", "</s>", *(pieces[i] for i in order[3:])]
    vocabulary = options["opennmt_vocabulary"]
    with open(vocabulary, "w", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in names)
    model.initialize(
        {
            "source_vocabulary": vocabulary,
            "target_vocabulary": vocabulary,
            "source_sequence_controls": {"start": False, "end": True},
        },
        params={
            "beam_width": options["beam_size"],
            "length_penalty": options["alpha"],
            # One for all sentences: it is fixed in the export.
            "maximum_decoding_length": options["longest_source"] + options["extra_length"],
        },
    )
    model.create_variables()
    assign_weights(model, dict(np.load(options["weights"])), sizes["epsilon"], [*order, special["unknown"]])
    model.export(options["model"])


def load(options: Options) -> Translate:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options["threads"] // options["streams"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])
    loaded = tf.saved_model.load(options["model"])

    def translate(batch: list[list[str]]) -> list[list[str]]:
        lengths = [len(pieces) for pieces in batch]
        longest = max(lengths)
        output = loaded.signatures["serving_default"](
            tokens=tf.constant([pieces + [""] * (longest - len(pieces)) for pieces in batch]),
            length=tf.constant(lengths, tf.int32),
        )
        rows = zip(output["tokens"].numpy(), output["length"].numpy(), strict=True)
        return [[piece.decode() for piece in tokens[0, : length[0]]] for tokens, length in rows]

    return translate


if __name__ == "__main__":
    serve(load, ["tensorflow", "OpenNMT-tf"], export)
