"""One experiment from its recipe: data, tokenizers, model, training, scores, exports."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "compiling": ["compile_model", "make_model"],
        "exporting": ["export_run", "export_run_argos", "export_run_ctranslate2", "export_run_marian"],
        "preparing": ["prepare"],
        "runner": ["train"],
        "scoring": ["evaluate"],
    },
)
