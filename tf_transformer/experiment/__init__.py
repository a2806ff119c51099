"""One experiment from its recipe: data, tokenizers, model, training, scores, exports."""

from tf_transformer.experiment.compiling import compile_model, make_model
from tf_transformer.experiment.exporting import (
    export_run,
    export_run_argos,
    export_run_ctranslate2,
    export_run_marian,
)
from tf_transformer.experiment.preparing import prepare
from tf_transformer.experiment.runner import train
from tf_transformer.experiment.scoring import evaluate

__all__ = ["compile_model", "evaluate", "export_run", "export_run_argos", "export_run_ctranslate2"]
__all__ += ["export_run_marian", "make_model", "prepare", "train"]
