"""Training with `model.compile` and `model.fit`: schedules, optimizer, loss, metrics, callbacks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "alignment": ["alignment_loss"],
        "averaged_weights": ["AveragedWeights"],
        "data_wait": ["DataWait"],
        "freed_memory": ["keep_freed_memory"],
        "freezing": ["freeze"],
        "loss": ["SmoothedCrossEntropy"],
        "metrics": ["AlignmentLoss", "Perplexity", "TokenAccuracy", "TokenCount"],
        "optimizer": ["TransformerAdam", "make_optimizer"],
        "pace": ["Pace"],
        "progress": ["ProgressBar"],
        "schedule": ["CosineSchedule", "InverseSqrtSchedule", "TransformerSchedule"],
        "step_count": ["EpochEnds"],
        "validation_bleu": ["ValidationBleu"],
    },
)
