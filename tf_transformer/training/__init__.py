"""Training with `model.compile` and `model.fit`: schedule, loss, metrics, callbacks, devices."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "callbacks": ["AveragedWeights", "EpochEnds", "Pace", "ValidationBleu"],
        "checkpoints": ["Checkpoints"],
        "data_wait": ["DataWait"],
        "distribution": ["make_strategy"],
        "loss": ["SmoothedCrossEntropy"],
        "progress": ["ProgressBar"],
        "metrics": ["Perplexity", "TokenAccuracy", "TokenCount"],
        "optimizer": ["TransformerAdam", "make_optimizer"],
        "schedule": ["CosineSchedule", "InverseSqrtSchedule", "TransformerSchedule"],
    },
)
