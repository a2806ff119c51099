"""A model for MiniSBD, which parts texts into sentences for Argos Translate.

Its own are on the network. This one ends a sentence at each full stop, question mark and exclamation mark.
"""

import json

import numpy as np

ENDS = ".?!"
# The classes of a character: inside a word, the end of one, the end of a sentence; two more are of no use here.
INSIDE, ENDS_WORD, ENDS_SENTENCE, CLASSES = 0, 1, 2, 5


def write_splitter(path):
    """Writes the model, a table with a row of scores for each character."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    units = ["<PAD>", "<UNK>", " ", *ENDS]
    classes = [INSIDE, INSIDE, ENDS_WORD, *[ENDS_SENTENCE] * len(ENDS)]
    table = np.eye(CLASSES, dtype="float32")[classes]
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "units"], ["scores"])],
        "splitter",
        [
            helper.make_tensor_value_info("units", TensorProto.INT64, ["texts", "characters"]),
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["texts", "characters", "features"]),
        ],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["texts", "characters", CLASSES])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    vocabulary = {"lang": "en", "_unit2id": {unit: i for i, unit in enumerate(units)}, "_id2unit": units}
    config = {"feat_funcs": ["space_before", "capitalized", "numeric"]}
    helper.set_model_props(model, {"vocab": json.dumps(vocabulary), "config": json.dumps(config)})
    onnx.save(model, path)
